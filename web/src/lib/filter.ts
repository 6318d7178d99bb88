/** The filter of the list of transfers. It lives in the address, and actions for many take the same one. */

import { ALL_STATES, styleOf, type State } from './states'

export interface Filter {
  states: State[]
  text: string
  person: string
  /** `key=value`, or `key` for any value. */
  label: string
  /** Days of the reader's calendar, as `2026-11-24`; the second one is included. */
  from: string
  to: string
}

export interface Conditions {
  text?: string
  person?: string
  label?: string[]
  created_after?: string
  created_before?: string
}

export function fromQuery(query: URLSearchParams): Filter {
  const states = (query.get('state') ?? '').split(',').filter((one): one is State => isState(one))
  const day = (name: string): string => /^\d{4}-\d\d-\d\d$/.exec(query.get(name) ?? '')?.[0] ?? ''
  const value = (name: string): string => query.get(name) ?? ''
  return {
    states,
    text: value('text'),
    person: value('person'),
    label: value('label'),
    from: day('from'),
    to: day('to'),
  }
}

function isState(text: string): boolean {
  return (ALL_STATES as readonly string[]).includes(text)
}

/** As the list and the actions take it, without what is empty; the states are named otherwise in each. */
export function conditions(filter: Filter): Conditions {
  const found: Conditions = {}
  const [text, person, label] = [filter.text.trim(), filter.person.trim(), filter.label.trim()]
  if (text) found.text = text
  if (person) found.person = person
  if (label) found.label = [label]
  if (filter.from) found.created_after = startOf(filter.from, 0)
  if (filter.to) found.created_before = startOf(filter.to, 1)
  return found
}

/** The begin of a day here, in UTC. */
function startOf(day: string, later: number): string {
  const [year = 0, month = 1, date = 1] = day.split('-').map(Number)
  return new Date(year, month - 1, date + later).toISOString()
}

/** `text “run42”, state failed`; empty when it selects all. */
export function inWords(filter: Filter): string {
  const parts: string[] = []
  if (filter.states.length) parts.push(`state ${filter.states.map((one) => styleOf(one).word).join(' or ')}`)
  if (filter.text.trim()) parts.push(`text “${filter.text.trim()}”`)
  if (filter.person.trim()) parts.push(`person “${filter.person.trim()}”`)
  if (filter.label.trim()) parts.push(`label “${filter.label.trim()}”`)
  if (filter.from) parts.push(`from ${filter.from}`)
  if (filter.to) parts.push(`to ${filter.to}`)
  return parts.join(', ')
}
