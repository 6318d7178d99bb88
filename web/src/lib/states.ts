/** Styles of states of transfers and objects: a word, a shape and a colour. */

export type Shape = 'circle' | 'triangle' | 'bars' | 'tick' | 'half-diamond' | 'diamond' | 'square' | 'chevron'

export type Tone = 'waiting' | 'running' | 'paused' | 'done' | 'partly' | 'failed' | 'cancelled' | 'skipped'

export interface StateStyle {
  word: string
  shape: Shape
  tone: Tone
}

const STYLES: Record<string, StateStyle> = {
  queued: { word: 'queued', shape: 'circle', tone: 'waiting' },
  pending: { word: 'pending', shape: 'circle', tone: 'waiting' },
  waiting: { word: 'waiting', shape: 'circle', tone: 'waiting' },
  planning: { word: 'listing', shape: 'triangle', tone: 'running' },
  listing: { word: 'listing', shape: 'triangle', tone: 'running' },
  running: { word: 'running', shape: 'triangle', tone: 'running' },
  arriving: { word: 'arriving', shape: 'triangle', tone: 'running' },
  active: { word: 'active', shape: 'triangle', tone: 'running' },
  paused: { word: 'paused', shape: 'bars', tone: 'paused' },
  cancelling: { word: 'cancelling', shape: 'square', tone: 'cancelled' },
  stopping: { word: 'stopping', shape: 'square', tone: 'cancelled' },
  cancelled: { word: 'cancelled', shape: 'square', tone: 'cancelled' },
  done: { word: 'done', shape: 'tick', tone: 'done' },
  complete: { word: 'complete', shape: 'tick', tone: 'done' },
  done_with_failures: { word: 'done with failures', shape: 'half-diamond', tone: 'partly' },
  incomplete: { word: 'incomplete', shape: 'half-diamond', tone: 'partly' },
  failed: { word: 'failed', shape: 'diamond', tone: 'failed' },
  skipped: { word: 'skipped', shape: 'chevron', tone: 'skipped' },
  // Of shares, their folders and files.
  in_s3: { word: 'in S3', shape: 'tick', tone: 'done' },
  uploading: { word: 'uploading', shape: 'triangle', tone: 'running' },
  outside_window: { word: 'waiting', shape: 'bars', tone: 'paused' },
  uploads_stopped: { word: 'no uploads', shape: 'diamond', tone: 'failed' },
  writes_stopped: { word: 'no writes', shape: 'diamond', tone: 'failed' },
  read_only: { word: 'read-only', shape: 'square', tone: 'cancelled' },
  ignored: { word: 'stays there', shape: 'chevron', tone: 'skipped' },
  // Of processes, the database, notices and share links.
  alive: { word: 'alive', shape: 'tick', tone: 'done' },
  gone: { word: 'gone', shape: 'square', tone: 'cancelled' },
  silent: { word: 'silent', shape: 'diamond', tone: 'failed' },
  answers: { word: 'available', shape: 'tick', tone: 'done' },
  in_trouble: { word: 'unavailable', shape: 'diamond', tone: 'failed' },
  sent: { word: 'sent', shape: 'tick', tone: 'done' },
  to_be_sent: { word: 'to be sent', shape: 'circle', tone: 'waiting' },
  failing: { word: 'failing', shape: 'half-diamond', tone: 'partly' },
  given_up: { word: 'given up', shape: 'diamond', tone: 'failed' },
  valid: { word: 'valid', shape: 'tick', tone: 'done' },
  expired: { word: 'expired', shape: 'square', tone: 'cancelled' },
  revoked: { word: 'revoked', shape: 'square', tone: 'cancelled' },
}

export function styleOf(state: string): StateStyle {
  return STYLES[state] ?? { word: state.replaceAll('_', ' '), shape: 'circle', tone: 'waiting' }
}

export const RUNNING = ['planning', 'running', 'cancelling'] as const
/** A paused transfer waits for a user. */
export const WAITING = ['queued', 'paused'] as const
export const ENDED = ['done', 'done_with_failures', 'failed', 'cancelled'] as const
export const ALL_STATES = ['queued', ...RUNNING, 'paused', ...ENDED] as const
export type State = (typeof ALL_STATES)[number]

export function hasEnded(state: string): boolean {
  return (ENDED as readonly string[]).includes(state)
}

/**
 * The lists without entries that an earlier list has. Lists that were loaded one after another can hold the same
 * transfer, if its state has changed meanwhile.
 */
export function withoutDuplicates<T extends { id: string }>(lists: readonly T[][]): T[][] {
  const seen = new Set<string>()
  return lists.map((list) => {
    const own = list.filter((one) => !seen.has(one.id))
    for (const one of list) seen.add(one.id)
    return own
  })
}
