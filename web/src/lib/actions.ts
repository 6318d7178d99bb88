/** Actions on transfers, and texts about their effects. */

import { api, content } from './api'
import { counted } from './format'
import { retryEffect } from './retry'
import { quoted } from './text'
import type { Transfer } from './types'

export type Verb = 'pause' | 'resume' | 'cancel' | 'retry'

export const WORDS: Record<Verb, { title: string; button: string; effect: string; done: string }> = {
  pause: {
    title: 'Pause',
    button: 'Pause',
    effect: 'Workers stop within a second. Copied objects stay, and so do uploaded parts of large objects.',
    done: 'paused',
  },
  resume: { title: 'Resume', button: 'Resume', effect: 'The transfer continues where it was paused.', done: 'resumed' },
  cancel: {
    title: 'Cancel',
    button: 'Cancel',
    effect:
      'Copied objects stay at the target. Unfinished objects are aborted. A cancelled transfer cannot be resumed.',
    done: 'cancelled',
  },
  retry: {
    title: 'Retry',
    button: 'Retry',
    effect: 'A new transfer copies only the failed objects. The retry of a comparison compares them again.',
    done: 'retried',
  },
}

/** The effect of the verb on this transfer. */
export function effectOf(verb: Verb, transfer: Transfer): string {
  return verb === 'retry' ? retryEffect(transfer.operation) : WORDS[verb].effect
}

export function command(verb: Verb, id: string): string {
  return `seqferry ${verb} ${quoted(id)}`
}

/** Verbs that are possible in the state of the transfer. */
export function verbsOf(transfer: Transfer): Verb[] {
  if (transfer.state === 'paused') return ['resume', 'cancel']
  if (['queued', 'planning', 'running'].includes(transfer.state)) return ['pause', 'cancel']
  return transfer.next_step === 'retry' ? ['retry'] : []
}

/** Applies the verb to one transfer; returns the id of the transfer that goes on. */
export async function act(verb: Verb, id: string): Promise<string> {
  const params = { path: { transfer_id: id } }
  if (verb === 'pause') return (await content(api.POST('/api/v1/transfers/{transfer_id}/pause', { params }))).id
  if (verb === 'resume') return (await content(api.POST('/api/v1/transfers/{transfer_id}/resume', { params }))).id
  if (verb === 'cancel') return (await content(api.POST('/api/v1/transfers/{transfer_id}/cancel', { params }))).id
  return (await content(api.POST('/api/v1/transfers/{transfer_id}/retry', { params }))).id
}

/** `Retry 3` */
export function label(verb: Verb, transfer: Transfer): string {
  return verb === 'retry' && transfer.totals.failed > 0
    ? `Retry ${counted(transfer.totals.failed, 'object')}`
    : WORDS[verb].button
}
