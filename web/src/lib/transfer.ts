/** Texts about a transfer, and its chain of retries as one transfer. No module of the browser is used here. */

import { bytes, count, counted } from './format'
import type { Cause, Chain, Transfer } from './types'

/** The latest of a chain, with the totals of all: what has arrived with any, and what the latest has left. */
export function mergeChain(chain: readonly Transfer[]): Transfer | null {
  const first = chain[0]
  const latest = chain.at(-1)
  if (!first || !latest) return null
  const sum = (name: 'done' | 'skipped' | 'bytes_done'): number =>
    chain.reduce((total, one) => total + one.totals[name], 0)
  return {
    ...latest,
    name: latest.name ?? first.name,
    planned: first.planned && latest.planned,
    totals: {
      objects: first.totals.objects,
      bytes: first.totals.bytes,
      done: sum('done'),
      skipped: sum('skipped'),
      failed: latest.totals.failed,
      cancelled: latest.totals.cancelled,
      bytes_done: sum('bytes_done'),
    },
  }
}

/** The chain with a newer state of one of its transfers. */
export function replaceTransfer(chain: Chain, newer: Transfer): Chain {
  return { ...chain, transfers: chain.transfers.map((one) => (one.id === newer.id ? newer : one)) }
}

const WITHOUT_ARRIVALS = ['remove', 'check', 'cleanup', 'verify', 'run']

/** True where objects arrive at a target by the operation: what has failed of it is missing there. */
export function copiesObjects(operation: string): boolean {
  return !WITHOUT_ARRIVALS.includes(operation)
}

/** A cause as the first line of its card: `2 objects, 82.0 GiB: access to them was denied`. */
export function headline(cause: Cause): string {
  const size = cause.bytes > 0 ? `, ${bytes(cause.bytes)}` : ''
  return `${counted(cause.count, 'object')}${size}: ${cause.missing_text}`
}

const REQUESTS: Record<Cause['needs'], string> = {
  sender: 'Please put this right at your side, and tell us when it is done: we then fetch what is missing.',
  operator: 'Please check that we may read them at your side; we look into ours.',
  storage: 'We try again. If it lasts, please ask those who run your storage.',
}

/** A cause as a letter to those who sent the data. */
export function letter(transfer: Transfer, cause: Cause, keys: readonly string[]): string {
  const one = cause.count === 1
  const title = transfer.name ? `“${transfer.name}” (${transfer.source})` : transfer.source
  const size = cause.bytes > 0 ? ` (${bytes(cause.bytes)})` : ''
  const listed = keys.length < cause.count ? ` (the first ${count(keys.length)} of ${count(cause.count)})` : ''
  const said = answer(cause)
  return [
    `Of the delivery ${title}, ${counted(cause.count, 'file')}${size} ${one ? 'is' : 'are'} missing: ${cause.missing_text}.`,
    ...(said ? [`The storage answered ${said}.`] : []),
    REQUESTS[cause.needs],
    '',
    `${one ? 'File' : 'Files'}${listed}:`,
    ...keys.map((key) => `  ${key}`),
    '',
  ].join('\n')
}

/** `AccessDenied to GetObject` */
function answer(cause: Cause): string {
  if (!cause.error_code) return ''
  return cause.operation ? `${cause.error_code} to ${cause.operation}` : cause.error_code
}
