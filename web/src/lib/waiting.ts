/** Texts about why a transfer waits, and who started it. No module of the browser is used here. */

import { counted } from './format'
import type { Transfer } from './types'

/** The name of the user who started it, without machine or address; empty if none is recorded. */
export function person(actor: string): string {
  const words = actor.split(' ')
  if (words[0] !== 'http') return actor.split('@')[0] ?? ''
  const name = words[1] ?? ''
  return name === 'from' && words[2] !== 'from' ? '' : name
}

/** `person`, or a word for actors without a name. */
export function personOf(actor: string): string {
  if (actor.startsWith('worker ')) return 'worker'
  return person(actor) || actor || 'unknown user'
}

export interface Wait {
  /** Ends before the name of the `blocker`, where there is one. */
  text: string
  /** The transfer that writes to the same keys. */
  blocker: string | null
}

/** Position in the queue, or the reason for waiting; null while the transfer runs and after its end. */
export function wait(transfer: Transfer): Wait | null {
  if (transfer.state === 'paused') return said('Paused: nothing is copied until it is resumed.')
  if (transfer.state === 'cancelling') return said('Cancelling: waits for the requests in flight.')
  const { queue } = transfer
  if (queue === null) return transfer.state === 'queued' ? said('Starting.') : null
  if (queue.reason === 'overlap') {
    return queue.blocked_by === null
      ? said('Waits for an earlier transfer that writes to the same keys.')
      : { text: 'Waits for', blocker: queue.blocked_by }
  }
  if (queue.reason === 'worker') return said(`Waits for ${transfer.waits_for ?? 'a suitable worker'}.`)
  if (queue.ahead === null) return said('Queued.')
  if (queue.ahead === 0) return said('Next in the queue.')
  return said(`${counted(queue.ahead, 'transfer')} ahead in the queue.`)
}

function said(text: string): Wait {
  return { text, blocker: null }
}

/** Waiting transfers by their position in the queue, then the others, paused ones last. */
export function inQueueOrder(transfers: readonly Transfer[]): Transfer[] {
  const place = (one: Transfer): number => (one.state === 'paused' ? 2e9 : (one.queue?.ahead ?? 1e9))
  return [...transfers].sort((a, b) => place(a) - place(b))
}
