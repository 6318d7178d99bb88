/** Verifications among the events of a transfer. No module of the browser is used here. */

import type { TransferEvent } from './types'

/** A verification that has ended. */
export interface Verified {
  id: string
  at: string
  actor: string
  /** All objects were as received. */
  isGood: boolean
  text: string
}

/** Verifications that have ended, the latest first. */
export function verifications(events: readonly TransferEvent[]): Verified[] {
  return events
    .filter((one) => one.kind === 'verified' && typeof one.data.verification === 'string')
    .map(({ at, actor, text, data }) => ({
      id: String(data.verification),
      at,
      actor,
      isGood: data.same === data.objects,
      text,
    }))
    .reverse()
}
