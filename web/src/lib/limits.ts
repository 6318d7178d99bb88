/** Limits and priority of a transfer, as a form has them and as the API takes them. No module of the browser. */

import { quoted } from './text'
import type { Transfer } from './types'

export interface Limits {
  priority: string
  max_requests: string
  max_bandwidth: string
  tpslimit: string
}

export interface Changes {
  priority?: number
  max_requests?: number | null
  max_bandwidth?: string | null
  tpslimit?: number | null
}

/** Only what is another than before; a limit that was emptied is given up. */
export function changes(given: Limits, before: Transfer): Changes {
  const found: Changes = {}
  const priority = Number(given.priority)
  if (given.priority.trim() !== '' && priority !== before.priority) found.priority = priority
  for (const name of ['max_requests', 'tpslimit'] as const) {
    const value = given[name].trim() === '' ? null : Number(given[name])
    if (value !== before[name]) found[name] = value
  }
  const bandwidth = given.max_bandwidth.trim() || null
  if (bandwidth !== before.max_bandwidth) found.max_bandwidth = bandwidth
  return found
}

const OPTIONS: Record<keyof Changes, string> = {
  priority: '--priority',
  max_requests: '--max-requests',
  max_bandwidth: '--max-bandwidth',
  tpslimit: '--tpslimit',
}

/** `seqferry set ID --priority 5`; empty if a limit is removed, which the command line can only do for all together. */
export function setCommand(id: string, changed: Changes): string {
  if (Object.values(changed).includes(null)) return ''
  const options = (Object.keys(OPTIONS) as (keyof Changes)[])
    .filter((name) => changed[name] !== undefined)
    .map((name) => `${OPTIONS[name]} ${quoted(String(changed[name]))}`)
  return ['seqferry set', quoted(id), ...options].join(' ')
}
