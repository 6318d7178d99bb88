/** Options of a transfer, from the description of the API: their types, limits and help texts. */

export type Kind = 'choice' | 'flag' | 'whole' | 'text' | 'lines' | 'pairs'

export interface Option {
  name: string
  title: string
  /** The heading that it stands below. */
  group: string
  kind: Kind
  help: string
  choices: string[]
  least: number | null
  most: number | null
  example: string
}

export type Value = string | boolean
export type Values = Record<string, Value>

interface Property {
  type?: string
  title?: string
  'x-group'?: string
  'x-help'?: string
  enum?: string[]
  const?: string
  anyOf?: Property[]
  description?: string
  examples?: unknown[]
  minimum?: number
  maximum?: number
}

/** Fields with a place of their own in the form, and what only a program gives. */
const NOT_LISTED = new Set([
  'source',
  'target',
  'operation',
  'options',
  'keys',
  'objects',
  'inventory',
  'name',
  'labels',
  'if_exists',
  'verify',
])

/** The options in the description of `TransferRequest`, in its order. */
export function optionsOf(properties: Record<string, Property>): Option[] {
  return Object.entries(properties)
    .filter(([name]) => !NOT_LISTED.has(name))
    .map(([name, property]) => {
      const own = property.anyOf?.find((one) => one.type !== 'null') ?? property
      const example = property.examples?.[0]
      return {
        name,
        title: property.title ?? name,
        group: property['x-group'] ?? 'Transfer',
        kind: kindOf(own),
        help: property['x-help'] ?? property.description ?? '',
        choices: own.enum ?? (own.const === undefined ? [] : [own.const]),
        least: own.minimum ?? null,
        most: own.maximum ?? null,
        example: Array.isArray(example) ? example.join('\n') : typeof example === 'string' ? example : '',
      }
    })
}

function kindOf(property: Property): Kind {
  if (property.enum ?? property.const) return 'choice'
  if (property.type === 'boolean') return 'flag'
  if (property.type === 'integer') return 'whole'
  if (property.type === 'array') return 'lines'
  return property.type === 'object' ? 'pairs' : 'text'
}

/** Action for an object that already exists at the target. */
export const IF_EXISTS: Record<string, string> = {
  same: 'skip identical objects, copy others',
  size: 'skip objects of the same size, copy others',
  skip: 'skip all existing objects',
  overwrite: 'overwrite',
  fail: 'report an error for the object',
}
export const VERIFY: Record<string, string> = {
  auto: 'strongest verification without a second read',
  checksum: 'checksum or digest; read if there is none',
  content: 'read source and target, and compare',
}

/** The options below headings, in their order. */
export function grouped(options: readonly Option[]): { heading: string; options: Option[] }[] {
  return [...new Set(options.map((one) => one.group))].map((heading) => ({
    heading,
    options: options.filter((one) => one.group === heading),
  }))
}

function lines(text: string): string[] {
  return text
    .split('\n')
    .map((line) => line.trim())
    .filter((line) => line !== '')
}

/** What is wrong with what was written, for a person; undefined where nothing is. */
export function wrong(option: Option, value: Value | undefined): string | undefined {
  if (typeof value !== 'string' || value.trim() === '') return undefined
  if (option.kind === 'pairs') {
    const bad = lines(value).find((line) => !/^[^=]+=/.test(line))
    return bad === undefined ? undefined : `Write NAME=VALUE on each line; '${bad}' is not valid.`
  }
  if (option.kind !== 'whole') return undefined
  if (!/^-?\d+$/.test(value.trim())) return 'Write a whole number.'
  const number = Number(value)
  if (option.least !== null && number < option.least) return `The minimum is ${option.least}.`
  if (option.most !== null && number > option.most) return `The maximum is ${option.most}.`
  return undefined
}

/** The value as requests have it; undefined where nothing was written. */
export function given(option: Option, value: Value | undefined): unknown {
  // A flag that is set by default is sent when it is taken away.
  if (option.kind === 'flag') return value === undefined || value === isOn(option) ? undefined : value
  if (typeof value !== 'string' || value.trim() === '') return undefined
  if (option.kind === 'whole') return Number(value)
  if (option.kind === 'lines') return lines(value)
  if (option.kind === 'pairs') return Object.fromEntries(lines(value).map(split))
  return value.trim()
}

/** True for the flag that is set by default. */
export function isOn(option: Option): boolean {
  return option.name === 'preflight'
}

export function split(pair: string): [string, string] {
  const at = pair.indexOf('=')
  return [pair.slice(0, at).trim(), pair.slice(at + 1).trim()]
}
