/** How far a transfer is, without a promise that is not known to hold. */

import type { Transfer } from './types'

/** Seconds of work before a remaining time is shown. */
const BEFORE_ETA = 30

export interface Progress {
  /** 0 to 1; null while the source is listed, since the whole is not known. */
  share: number | null
  /** Everything has arrived and is verified. */
  isWhole: boolean
  arrived: number
  /** Seconds left; null when not known. */
  eta: number | null
}

export function progressOf(transfer: Transfer, now: number): Progress {
  const { totals, live } = transfer
  const arrived = totals.done + totals.skipped
  const isWhole = transfer.state === 'done'
  const share = transfer.planned ? shareOf(transfer, arrived) : null
  const working = transfer.started_at === null ? 0 : (now - Date.parse(transfer.started_at)) / 1000
  const left = totals.bytes - totals.bytes_done
  const isKnown = transfer.state === 'running' && transfer.planned && working >= BEFORE_ETA
  const eta = isKnown && live.bytes_per_second > 0 && left > 0 ? left / live.bytes_per_second : null
  return { share: isWhole ? 1 : share, isWhole, arrived, eta }
}

/** Bytes where there are any: a transfer of empty objects counts those. Never 1 before the end. */
function shareOf(transfer: Transfer, arrived: number): number {
  const { totals } = transfer
  const share = totals.bytes > 0 ? totals.bytes_done / totals.bytes : totals.objects > 0 ? arrived / totals.objects : 0
  return Math.min(Math.max(share, 0), 0.999)
}
