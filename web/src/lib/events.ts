/** Events of a transfer in words, behind the name of who did it. No module of the browser is used here. */

import { count, counted } from './format'
import type { TransferEvent } from './types'

const ACTS: Record<string, string> = {
  submitted: 'asked for the transfer',
  joined: 'asked for the same again; the transfer went on',
  planned: 'the source was listed',
  started: 'the work began',
  paused: 'paused it',
  resumed: 'let it go on',
  resume_requested: 'asked a worker to go on',
  cancel_requested: 'gave it up',
  stopping: 'requests in flight were ended, and open uploads aborted',
  key_renewed: 'gave renewed keys',
  done: 'the transfer ended',
  done_with_failures: 'the transfer ended; some objects had failed',
  failed: 'the transfer failed',
  cancelled: 'the transfer ended; it had been given up',
  shared: 'made a link by which others see how it is doing',
  share_revoked: 'revoked such a link',
  pruned: 'removed the list of its objects from the records, which the digest still covers',
  restoring: 'objects in an archive were asked for',
  adopted: 'sealed a record that is older than the key',
  preflight: 'a look before the work found objects that cannot be copied',
  removing: 'objects that the source has not are removed at the target',
  not_removed: 'left objects at the target that were to be removed',
  nothing_removed: 'removed nothing at the target',
  removing_sources: 'sources that have arrived are removed',
  sources_left: 'left sources that were to be removed',
  folders_found: 'members of the archive that are folders were noted',
  line_arrived: 'what a line copies has arrived',
  line_ended: 'a line has ended',
}

const LIMITS = ['priority', 'max_requests', 'max_bandwidth', 'tpslimit']

export function inWords(event: TransferEvent): string {
  const { kind, data } = event
  if (kind === 'adjusted') return adjusted(data)
  if (kind === 'described') return described(data)
  if (kind === 'verified') return verified(data)
  return ACTS[kind] ?? kind.replaceAll('_', ' ')
}

function adjusted(data: Record<string, unknown>): string {
  const parts = LIMITS.filter((name) => name in data && data[name] !== null).map(
    (name) => `${name.replaceAll('_', ' ')} ${String(data[name])}`,
  )
  return `set ${parts.join(', ') || 'no limits'}`
}

function described(data: Record<string, unknown>): string {
  const labels = Object.entries((data.labels ?? {}) as Record<string, unknown>).map(
    ([key, value]) => `${key}=${String(value)}`,
  )
  const name = data.name ? `“${String(data.name)}”` : 'by no name'
  return `called it ${name}${labels.length ? `, with the labels ${labels.join(', ')}` : ''}`
}

function verified(data: Record<string, unknown>): string {
  const how = data.how === 'content' ? ', all bytes read' : ''
  return `the target was verified${how}: ${found(data)}`
}

/** `94 of 96 objects as received` */
function found(data: Record<string, unknown>): string {
  const [objects, same] = [Number(data.objects ?? 0), Number(data.same ?? 0)]
  return `${same === objects ? '' : `${count(same)} of `}${counted(objects, 'object')} as received`
}

/** A verification that has ended. */
export interface Verified {
  id: string
  at: string
  actor: string
  /** All objects were as received. */
  isGood: boolean
  words: string
}

/** Verifications that have ended, the latest first. */
export function verifications(events: readonly TransferEvent[]): Verified[] {
  return events
    .filter((one) => one.kind === 'verified' && typeof one.data.verification === 'string')
    .map(({ at, actor, data }) => ({
      id: String(data.verification),
      at,
      actor,
      isGood: data.same === data.objects,
      words: `${found(data)}${data.how === 'content' ? ', all bytes read' : ''}`,
    }))
    .reverse()
}
