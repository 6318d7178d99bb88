/** What the health of a server is, in words. No module of the browser is used here. */

import { counted } from './format'
import type { Notice, Worker } from './types'

const KINDS: Record<string, string> = {
  worker: 'worker',
  serve: 'server, works as well',
  http: 'server',
  gateway: 'gateway',
}

/** Kinds that do transfers. */
const WORKING: ReadonlySet<string> = new Set(['worker', 'serve'])

export function kindOf(worker: Worker): string {
  return KINDS[worker.kind] ?? worker.kind
}

/** `gone`: killed, and others do what it did; `silent`: no sign of life, and no process in its place. */
export function processState(worker: Worker): 'alive' | 'gone' | 'silent' {
  if (worker.alive) return 'alive'
  return worker.gone ? 'gone' : 'silent'
}

/** What a process is at now. */
export function doing(worker: Worker): string {
  if (worker.kind === 'gateway') return shares(worker)
  if (worker.kind === 'http') return 'answers requests, does no transfers'
  if (worker.transfers === 0 && worker.requests_in_flight === 0) return 'no transfer now'
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
  person: 'needs a person',
  stalled: 'has stalled',
  vanished: 'has vanished',
}

/** `has ended`, of a transfer or worker. */
export function happened(notice: Notice): string {
  return EVENTS[notice.kind] ?? notice.kind
}

/** One that was tried and has failed is not the same as one that is new. */
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
  if (trouble !== null) return { good: false, text: `The database is in trouble: ${trouble}` }
  const silent = workers.filter((one) => processState(one) === 'silent').length
  const working = workers.filter((one) => one.alive && WORKING.has(one.kind)).length
  const failing = notices.filter((one) => ['failing', 'given_up'].includes(stateOf(one))).length
  const parts = []
  if (working === 0) parts.push('no process works: what waits stays')
  if (silent) parts.push(`${counted(silent, 'process', 'processes')} ${silent === 1 ? 'is' : 'are'} silent`)
  if (failing) parts.push(`${counted(failing, 'notice')} ${failing === 1 ? 'does' : 'do'} not arrive`)
  if (parts.length === 0)
    return {
      good: true,
      text: `All is well: the database answers, ${counted(working, 'process', 'processes')} work${working === 1 ? 's' : ''}.`,
    }
  const text = parts.join(', ')
  return { good: false, text: `${text[0]?.toUpperCase() ?? ''}${text.slice(1)}.` }
}
