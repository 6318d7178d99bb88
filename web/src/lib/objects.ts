/** Objects of a transfer: their filter, as the address holds it, and their details. No module of the browser. */

import { bytes, counted, duration, rate } from './format'
import type { Transfer, TransferObject } from './types'

export const OBJECT_STATES = ['pending', 'active', 'done', 'skipped', 'failed', 'cancelled'] as const
export type ObjectState = (typeof OBJECT_STATES)[number]

export const ORDERS = ['', 'key', 'size', 'time'] as const
export type Order = (typeof ORDERS)[number]

/** The server sorts by size and time up to so many objects. */
export const MOST_SORTED = 100_000

export interface ObjectFilter {
  state: ObjectState | null
  prefix: string
  /** Empty: as they were found, or by key with a prefix. By size and time the largest and the latest come first. */
  order: Order
  cursor: string
  /** Number of objects before the page: counted with a cursor, or requested as an offset without one. */
  from: number
}

export function filterOf(query: URLSearchParams): ObjectFilter {
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

/** False if there are too many objects to sort by size or time. */
export function maySort(transfer: Transfer, { state }: ObjectFilter): boolean {
  return transfer.totals.objects <= MOST_SORTED || (state === 'failed' && transfer.totals.failed <= MOST_SORTED)
}

/** Number of objects in a state; null if the totals do not contain it. */
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
  copy: 'server-side copy in one request (CopyObject)',
  multipart: 'server-side copy in parts (UploadPartCopy)',
  stream: 'downloaded and uploaded by Seqferry',
  read: 'read again',
  head: 'checked (HEAD)',
}

/** The details of an object as pairs of a name and a value, without those that are not known. */
export function details(one: TransferObject): [string, string][] {
  const attempts =
    one.attempts > 1 || one.retries > 0
      ? `${counted(one.attempts, 'time')}, with ${counted(one.retries, 'repeated request')}`
      : ''
  const facts: [string, string | null][] = [
    ['Source key', one.source_key],
    ['Target key', one.target_key === one.source_key ? '' : one.target_key],
    ['Size', `${bytes(one.size)}${one.size > 999 ? ` (${counted(one.size, 'byte')})` : ''}`],
    ['Error', one.error_text],
    ['Cause', [one.error_class, one.error_code, one.error_operation].filter(Boolean).join(', ')],
    ['Method', one.method === null ? '' : (METHODS[one.method] ?? one.method)],
    ['Verified', [one.verified, one.verified_text].filter(Boolean).join(': ')],
    ['Checksum', one.checksum === null ? '' : `${one.checksum_algorithm ?? ''} ${one.checksum}`.trim()],
    ['ETag', [one.etag, one.target_etag].filter(Boolean).join(' → ')],
    ['Version', [one.version_id, one.target_version_id].filter(Boolean).join(' → ')],
    ['Upload', one.source_upload_id],
    ['Not carried over', one.not_carried.join(', ')],
    ['Written by', one.written_by],
    ['Duration', speed(one)],
    ['Attempts', attempts],
  ]
  return facts.filter((fact): fact is [string, string] => Boolean(fact[1]))
}
