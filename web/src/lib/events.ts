/** Texts of the events of a transfer, which follow the name of the actor. No module of the browser is used here. */

import { count, counted } from './format'
import type { TransferEvent } from './types'

const ACTS: Record<string, string> = {
  submitted: 'submitted the transfer',
  joined: 'submitted the same transfer again; the first one went on',
  planned: 'the source was listed',
  started: 'the transfer started',
  paused: 'paused the transfer',
  resumed: 'resumed the transfer',
  resume_requested: 'requested that a worker resumes it',
  cancel_requested: 'cancelled the transfer',
  stopping: 'requests in flight ended, and open multipart uploads were aborted',
  key_renewed: 'provided renewed keys',
  done: 'the transfer ended',
  done_with_failures: 'the transfer ended with failed objects',
  failed: 'the transfer failed',
  cancelled: 'the transfer ended after its cancellation',
  shared: 'created a share link',
  share_revoked: 'revoked a share link',
  pruned: 'removed the list of objects from the records; the digest still covers it',
  restoring: 'the restore of archived objects was requested',
  adopted: 'sealed a record that is older than the key',
  preflight: 'the check before the start found objects that cannot be copied',
  removing: 'objects that are not in the source are removed at the target',
  not_removed: 'did not remove objects at the target',
  nothing_removed: 'removed nothing at the target',
  removing_sources: 'the sources of copied objects are removed',
  sources_left: 'did not remove sources',
  folders_found: 'the folders of the archive were recorded',
  line_arrived: 'the objects of a line were copied',
  line_ended: 'a line ended',
}

const LIMITS = ['priority', 'max_requests', 'max_bandwidth', 'tpslimit']

export function textOf(event: TransferEvent): string {
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
  const name = data.name ? `named it “${String(data.name)}”` : 'removed its name'
  return `${name}${labels.length ? `, with the labels ${labels.join(', ')}` : ''}`
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
  text: string
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
      text: `${found(data)}${data.how === 'content' ? ', all bytes read' : ''}`,
    }))
    .reverse()
}
