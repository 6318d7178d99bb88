/** A transfer that is being written: its request, what is wrong with it, and the same as a command line. */

import type { FieldError } from './api'
import { given, type Option, split, type Values, wrong } from './options'
import { quoted } from './text'

export interface Draft {
  source: string
  target: string
  ifExists: string
  verify: string
  name: string
  /** `key=value`, with commas between. */
  labels: string
  options: Values
}

export type Wrong = Partial<Record<string, string>>

export interface Body {
  source: string
  target: string
  name?: string
  labels?: Record<string, string>
  [option: string]: unknown
}

export const USUAL = { ifExists: 'same', verify: 'auto' } as const

export function empty(source = '', target = ''): Draft {
  return { source, target, ...USUAL, name: '', labels: '', options: {} }
}

function pairs(text: string): string[] {
  return text
    .split(',')
    .map((one) => one.trim())
    .filter((one) => one !== '')
}

function placeWrong(text: string, what: string): string | undefined {
  const place = text.trim()
  if (place === '') return `Say ${what}, as s3://bucket/run42/.`
  if (/^s3:\/\/[^/]/.test(place) || place.startsWith('/') || /^(?!s3:)[a-z][a-z0-9+.-]*:\/\/./.test(place)) return
  return /^s3:/.test(place)
    ? 'Name a bucket: s3://bucket/run42/.'
    : 'Begin with s3:// and a bucket; a folder of the server begins with /.'
}

/** What can be seen to be wrong before anything is sent, by field. */
export function check(draft: Draft, options: readonly Option[]): Wrong {
  const found: Wrong = {
    source: placeWrong(draft.source, 'where the data is'),
    target: placeWrong(draft.target, 'where it is to go'),
  }
  if (found.target === undefined && draft.source.trim() === draft.target.trim()) {
    found.target = 'Source and target are the same; name another target.'
  }
  const bad = pairs(draft.labels).find((one) => !/^[a-z0-9][a-z0-9._/-]*=./.test(one))
  if (bad !== undefined) found.labels = `Write key=value, the key in lower case; '${bad}' is not valid.`
  for (const option of options) found[option.name] = wrong(option, draft.options[option.name])
  return Object.fromEntries(Object.entries(found).filter(([, message]) => message !== undefined))
}

export function bodyOf(draft: Draft, options: readonly Option[]): Body {
  const body: Body = { source: draft.source.trim(), target: draft.target.trim() }
  if (draft.ifExists !== USUAL.ifExists) body.if_exists = draft.ifExists
  if (draft.verify !== USUAL.verify) body.verify = draft.verify
  if (draft.name.trim() !== '') body.name = draft.name.trim()
  if (pairs(draft.labels).length > 0) body.labels = Object.fromEntries(pairs(draft.labels).map(split))
  for (const option of options) {
    const value = given(option, draft.options[option.name])
    if (value !== undefined) body[option.name] = value
  }
  return body
}

/** An answer that refuses, as `ApiError`. */
interface Refusal {
  message: string
  places: FieldError[]
}

/** Where each part of a refusal belongs: by field, and '' for what belongs to none. */
export function placed(error: Refusal): Wrong {
  const found: Wrong = {}
  for (const { where, text } of error.places) {
    const field = where.split('.').filter((part) => !OUTER.has(part))[0] ?? ''
    found[field] = text
  }
  return error.places.length > 0 ? found : { '': error.message }
}

const OUTER = new Set(['body', 'query', 'transfer'])

/** The command line that does the same. */
export function commandLine(body: Body): string {
  const words = ['seqferry', 'cp', body.source || 'SOURCE', body.target || 'TARGET']
  for (const [name, value] of Object.entries(body)) {
    if (name !== 'source' && name !== 'target') words.push(...asOption(name, value))
  }
  return words.map(quoted).join(' ')
}

function asOption(name: string, value: unknown): string[] {
  const option = `--${name.replaceAll('_', '-')}`
  if (name === 'rules') {
    return (value as string[]).flatMap((rule) => [rule.startsWith('+') ? '--include' : '--exclude', rule.slice(2)])
  }
  if (value === true) return [option]
  if (value === false) return [`--no-${option.slice(2)}`]
  if (Array.isArray(value)) return value.flatMap((one) => [option, String(one)])
  if (typeof value === 'object' && value !== null) {
    const each = name === 'labels' ? '--label' : option
    return Object.entries(value).flatMap(([key, one]) => [each, `${key}=${String(one)}`])
  }
  return [option, String(value)]
}

/** A key for one submission, however often it is sent. Plain HTTP has no `randomUUID`. */
export function newKey(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16))
  return [...bytes].map((byte) => byte.toString(16).padStart(2, '0')).join('')
}
