/** Names for the types of the API that the page shows. They are made from its description (`make page-types`). */

import type { components } from '../api/schema'

type Schemas = components['schemas']

export type Transfer = Schemas['TransferOut']
export type TransferNow = Schemas['TransferNow']
export type TransferObject = Schemas['ObjectOut']
export type Cause = Schemas['FailureGroupOut']
export type Sample = Schemas['SampleOut']
export type Delivery = Schemas['DeliveryOut']
export type DeliveryPage = Schemas['DeliveryPageOut']
export type Chain = Schemas['Chain']
export type Change = Schemas['Change']
export type ShareLink = Schemas['ShareLinkOut']
export type Verification = Schemas['VerificationOut']
export type Worker = Schemas['WorkerOut']
export type Notices = Schemas['Notices']
export type Notice = Schemas['NoticeOut']
export type Capability = Schemas['CapabilityOut']
export type ObjectPage = Schemas['ObjectPage']
export type Audit = Schemas['AuditOut']
export type Gateway = Schemas['GatewayOut']
export type ShareFacts = Schemas['ShareOut']
export type Writing = Schemas['WritingOut']
export type Files = Schemas['FilesOut']

/** An event of a transfer, as its stream sends it. */
export interface TransferEvent {
  number: number
  at: string
  kind: string
  /** What the actor did. */
  text: string
  actor: string
  hash: string
  data: Record<string, unknown>
}
export type Level = Schemas['Level']
export type Preview = Schemas['Preview']
export type Schedule = Schemas['ScheduleOut']
