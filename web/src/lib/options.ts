/** Options of a transfer, from the description of the API: their types, limits and help texts. */

export type Kind = 'choice' | 'flag' | 'whole' | 'text' | 'lines' | 'pairs'

export interface Option {
  name: string
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
        kind: kindOf(own),
        help: plainHelp(property.description ?? ''),
        choices: own.enum ?? (own.const === undefined ? [] : [own.const]),
        least: own.minimum ?? null,
        most: own.maximum ?? null,
        example: Array.isArray(example) ? example.join('\n') : typeof example === 'string' ? example : '',
      }
    })
}

/** The first paragraph, with options as the form names them. */
function plainHelp(description: string): string {
  const [first = ''] = description.split('\n\n')
  return first.replace(/`([a-z]+(?:_[a-z]+)*)`/g, (_, name: string) => `'${title(name)}'`).replaceAll('`', '')
}

function kindOf(property: Property): Kind {
  if (property.enum ?? property.const) return 'choice'
  if (property.type === 'boolean') return 'flag'
  if (property.type === 'integer') return 'whole'
  if (property.type === 'array') return 'lines'
  return property.type === 'object' ? 'pairs' : 'text'
}

/** Names that say too little by themselves. */
const TITLES: Record<string, string> = {
  if_exists: 'If it exists',
  new: 'Allow a duplicate transfer',
  raw: 'No wildcards',
  settle: 'Minimum age',
  tpslimit: 'Requests per second',
  sse: 'Encryption',
}
const SHORT = /\b(url|id|kms|acl|sse c|sse)\b/g

/** `storage_class` as people read it: `Storage class`. */
export function title(name: string): string {
  const words = name.replaceAll('_', ' ').replace(SHORT, (word) => word.toUpperCase().replace(' ', '-'))
  return TITLES[name] ?? (words[0]?.toUpperCase() ?? '') + words.slice(1)
}

/** A message for people who have the page and no command line: options by the names that its forms give them. */
export function forReaders(text: string): string {
  return text
    .replace(/\b([Rr])un the same (?:command|[a-z]+) again/g, (_, first: string) => `${first}etry it`)
    .replace(
      /\b([Rr])un the same command with/g,
      (_, first: string) => (first === 'R' ? 'Start' : 'start') + ' a new transfer with',
    )
    .replace(/(?<![\w-])--([a-z]+(?:-[a-z]+)*)/g, (_, name: string) => `“${title(name.replaceAll('-', '_'))}”`)
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

const GROUPS: [string, RegExp][] = [
  [
    'Selection of objects',
    /^(restore.*|settle|recursive|raw|m..?_size|.*_than|version_id|all_versions|rules|max_depth)$/,
  ],
  ['Execution', /^(rename|tpslimit|attempts|part_size|copy_threshold|preflight|new|priority)$/],
  ['Endpoint and credentials', /(endpoint_url|profile|region)$|^(no_sign_request|request_payer)$/],
  ['Encryption and protection', /^(sse|acl|grants|object_lock|checksum)/],
]
const REST = 'Attributes of the target objects'

/** The options below headings, in their order; groups without any are left out. */
export function grouped(options: readonly Option[]): { heading: string; options: Option[] }[] {
  const headingOf = (one: Option): string => GROUPS.find(([, names]) => names.test(one.name))?.[0] ?? REST
  return [...GROUPS.map(([heading]) => heading), REST]
    .map((heading) => ({ heading, options: options.filter((one) => headingOf(one) === heading) }))
    .filter((group) => group.options.length > 0)
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
