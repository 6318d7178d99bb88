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
