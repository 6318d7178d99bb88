/** Why a transfer waits, and who started one, in words. No module of the browser is used here. */

import { counted } from './format'
import type { Transfer } from './types'

/** The name of who started it, without machine or address; empty where none is on record. */
export function person(actor: string): string {
  const words = actor.split(' ')
  if (words[0] !== 'http') return actor.split('@')[0] ?? ''
  const name = words[1] ?? ''
  return name === 'from' && words[2] !== 'from' ? '' : name
}

/** `person`, or a word for those without a name. */
export function personOf(actor: string): string {
  if (actor.startsWith('worker ')) return 'worker'
  return person(actor) || actor || 'somebody'
}

export interface Wait {
  /** Ends before the name of the `blocker`, where there is one. */
  text: string
  /** The transfer that writes to the same keys. */
  blocker: string | null
}

/** Why it has not begun, or does not go on: place in line or reason; null when it does, and when it has ended. */
export function wait(transfer: Transfer): Wait | null {
  if (transfer.state === 'paused') return said('Paused: nothing is moved until somebody resumes it.')
  if (transfer.state === 'cancelling') return said('It is being given up: requests in flight are ended.')
  const { queue } = transfer
  if (queue === null) return transfer.state === 'queued' ? said('Begins in a moment.') : null
  if (queue.reason === 'overlap') {
    return queue.blocked_by === null
      ? said('Waits for an earlier transfer, which writes to the same keys.')
      : { text: 'Waits for', blocker: queue.blocked_by }
  }
  if (queue.reason === 'worker') return said(`Waits for ${transfer.waits_for ?? 'a worker that may do it'}.`)
  if (queue.ahead === null) return said('Waits for its turn.')
  if (queue.ahead === 0) return said('Next in line.')
  return said(`${counted(queue.ahead, 'transfer')} ${queue.ahead === 1 ? 'comes' : 'come'} first.`)
}

function said(text: string): Wait {
  return { text, blocker: null }
}

/** Those that wait for their turn by their place in line, then the others, the paused ones last. */
export function inLine(transfers: readonly Transfer[]): Transfer[] {
  const place = (one: Transfer): number => (one.state === 'paused' ? 2e9 : (one.queue?.ahead ?? 1e9))
  return [...transfers].sort((a, b) => place(a) - place(b))
}
