/** Objects of a transfer: which are wanted, as the address has it, and their fates in words. No module of the browser. */

import { forReaders } from './options'
import { bytes, counted, duration, rate } from './format'
import type { Transfer, TransferObject } from './types'

export const OBJECT_STATES = ['pending', 'active', 'done', 'skipped', 'failed', 'cancelled'] as const
export type ObjectState = (typeof OBJECT_STATES)[number]

export const ORDERS = ['', 'key', 'size', 'time'] as const
export type Order = (typeof ORDERS)[number]

/** The server sorts by size and time up to so many objects. */
export const MOST_SORTED = 100_000

export interface Wanted {
  state: ObjectState | null
  prefix: string
  /** Empty: as they were found, or by key with a prefix. By size and time the largest and the latest come first. */
  order: Order
  cursor: string
  /** Objects before those of the page: counted on, or asked for where there is no cursor. */
  from: number
}

export function wanted(query: URLSearchParams): Wanted {
  const state = query.get('state') ?? ''
  const order = query.get('order') ?? ''
  const from = Number(query.get('from') ?? '0')
  return {
    state: (OBJECT_STATES as readonly string[]).includes(state) ? (state as ObjectState) : null,
    prefix: query.get('prefix') ?? '',
    order: (ORDERS as readonly string[]).includes(order) ? (order as Order) : '',
    cursor: query.get('at') ?? '',
    from: Number.isSafeInteger(from) && from > 0 ? from : 0,
  }
}

/** False where so many cannot be sorted by size or time. */
export function maySort(transfer: Transfer, { state }: Wanted): boolean {
  return transfer.totals.objects <= MOST_SORTED || (state === 'failed' && transfer.totals.failed <= MOST_SORTED)
}

/** How many objects are in a state; null where the totals do not tell. */
export function countOf(transfer: Transfer, state: ObjectState | null): number | null {
  const { totals } = transfer
  if (state === null) return totals.objects
  if (state === 'pending' || state === 'active') return null
  return totals[state]
}

/** `0.8 s, 51.2 MiB/s`; empty while it is not known. */
export function speed(one: TransferObject): string {
  if (!one.started_at || !one.ended_at) return ''
  const seconds = (Date.parse(one.ended_at) - Date.parse(one.started_at)) / 1000
  if (one.state !== 'done' || one.size === 0 || seconds <= 0) return duration(Math.max(seconds, 0))
  return `${duration(seconds)}, ${rate(one.size / seconds)}`
}

const METHODS: Record<string, string> = {
  none: '',
  copy: 'copied within the storage by one request',
  multipart: 'copied within the storage, part by part',
  stream: 'read and written by Seqferry',
  read: 'read again',
  head: 'looked at',
}

const PROOFS: Record<string, string> = {
  checksum: 'the checksum of the content is equal at both sides',
  content: 'the content was read at both sides, and is equal',
  etag: 'the ETag, a digest of the content, is equal at both sides',
  time: 'size and time are equal to those kept with the object',
  size: 'the size alone is equal',
  none: 'nothing was compared',
}

/** The fate of an object as pairs of a name and a value, without what is not known. */
export function fate(one: TransferObject): [string, string][] {
  const tries =
    one.attempts > 1 || one.retries > 0
      ? `${counted(one.attempts, 'time')}, with ${counted(one.retries, 'repeated request')}`
      : ''
  const facts: [string, string | null][] = [
    ['At the source', one.source_key],
    ['At the target', one.target_key === one.source_key ? '' : one.target_key],
    ['Size', `${bytes(one.size)}${one.size > 999 ? ` (${counted(one.size, 'byte')})` : ''}`],
    ['Why', one.error_message === null ? null : forReaders(one.error_message)],
    ['Cause', [one.error_class, one.error_code, one.error_operation].filter(Boolean).join(', ')],
    ['How', one.method === null ? '' : (METHODS[one.method] ?? one.method)],
    [
      'Verified',
      one.verified === null ? '' : one.verified in PROOFS ? `${one.verified}: ${PROOFS[one.verified]}` : one.verified,
    ],
    ['Checksum', one.checksum === null ? '' : `${one.checksum_algorithm ?? ''} ${one.checksum}`.trim()],
    ['ETag', [one.etag, one.target_etag].filter(Boolean).join(' → ')],
    ['Version', [one.version_id, one.target_version_id].filter(Boolean).join(' → ')],
    ['Upload', one.source_upload_id],
    ['Not carried over', one.not_carried.join(', ')],
    ['Written by', one.written_by],
    ['Took', speed(one)],
    ['Tried', tries],
  ]
  return facts.filter((fact): fact is [string, string] => Boolean(fact[1]))
}
