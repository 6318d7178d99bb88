/** Texts about the health of a server. No module of the browser is used here. */

import { counted } from './format'
import type { Notice, Worker } from './types'

const KINDS: Record<string, string> = {
  worker: 'worker',
  serve: 'API and worker',
  http: 'API server',
  gateway: 'gateway',
}

/** Kinds of processes that run transfers. */
const WORKING: ReadonlySet<string> = new Set(['worker', 'serve'])

export function kindOf(worker: Worker): string {
  return KINDS[worker.kind] ?? worker.kind
}

/** `gone`: killed, and other processes do its work; `silent`: no heartbeat, and no process took over. */
export function processState(worker: Worker): 'alive' | 'gone' | 'silent' {
  if (worker.alive) return 'alive'
  return worker.gone ? 'gone' : 'silent'
}

/** The current work of a process. */
export function activityOf(worker: Worker): string {
  if (worker.kind === 'gateway') return shares(worker)
  if (worker.kind === 'http') return 'serves the API, runs no transfers'
  if (worker.transfers === 0 && worker.requests_in_flight === 0) return 'idle'
  return `${counted(worker.transfers, 'transfer')}, ${counted(worker.requests_in_flight, 'request')} in flight`
}

function shares(worker: Worker): string {
  const { shares: named, host, port } = worker.facts as { shares?: unknown; host?: unknown; port?: unknown }
  const names = Array.isArray(named) ? named.map(String) : named && typeof named === 'object' ? Object.keys(named) : []
  const at = typeof host === 'string' ? ` at ${host}${typeof port === 'number' ? `:${port}` : ''}` : ''
  return `serves ${names.length ? names.join(', ') : 'nothing'}${at}`
}

const EVENTS: Record<string, string> = {
  finished: 'has ended',
  person: 'needs action',
  stalled: 'has stalled',
  vanished: 'has stopped without notice',
}

/** `has ended`, of a transfer or worker. */
export function happened(notice: Notice): string {
  return EVENTS[notice.kind] ?? notice.kind
}

/** The state of a notice; a pending one with a failed attempt is `failing`. */
export function stateOf(notice: Notice): string {
  if (notice.state !== 'pending') return notice.state
  return notice.error === null ? 'to_be_sent' : 'failing'
}

export interface Facts {
  trouble: string | null
  workers: readonly Worker[]
  notices: readonly Notice[]
}

/** One sentence for all of it. */
export function summary({ trouble, workers, notices }: Facts): { good: boolean; text: string } {
  if (trouble !== null) return { good: false, text: `The database is not available: ${trouble}` }
  const silent = workers.filter((one) => processState(one) === 'silent').length
  const working = workers.filter((one) => one.alive && WORKING.has(one.kind)).length
  const failing = notices.filter((one) => ['failing', 'given_up'].includes(stateOf(one))).length
  const parts = []
  if (working === 0) parts.push('no worker is running: transfers stay in the queue')
  if (silent) parts.push(`${counted(silent, 'process', 'processes')} without a heartbeat`)
  if (failing) parts.push(`${counted(failing, 'notice')} could not be delivered`)
  if (parts.length === 0)
    return {
      good: true,
      text: `Healthy: the database is available, ${counted(working, 'worker is', 'workers are')} running.`,
    }
  const text = parts.join(', ')
  return { good: false, text: `${text[0]?.toUpperCase() ?? ''}${text.slice(1)}.` }
}
