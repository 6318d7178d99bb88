import { describe, expect, it } from 'vitest'
import { changes, setCommand } from '../src/lib/limits'
import { mergeChain, headline, letter } from '../src/lib/transfer'
import type { Cause, Transfer } from '../src/lib/types'

const totals = { objects: 0, bytes: 0, done: 0, skipped: 0, failed: 0, cancelled: 0, bytes_done: 0 }
const base = {
  id: 'a',
  name: 'Run 42',
  state: 'running',
  source: 's3://vendor/run42/',
  planned: true,
  queue: null,
  waits_for: null,
  priority: 0,
  max_requests: null,
  max_bandwidth: null,
  tpslimit: null,
  totals,
} as unknown as Transfer
const cause: Cause = {
  id: 'c',
  error_class: 'person',
  error_code: 'AccessDenied',
  operation: 'GetObject',
  text: '',
  message: 'GetObject k: AccessDenied',
  count: 2,
  bytes: 2048,
  advice: '',
  needs: 'sender',
  words: 'access to them was denied',
  missing_text: 'access to them was denied',
  step: 'AccessDenied',
  keys: ['run42/a', 'run42/b'],
}

describe('a chain of retries', () => {
  it('counts as one: what arrived with any, what the latest has left', () => {
    const first = {
      ...base,
      totals: { ...totals, objects: 448, bytes: 1000, done: 440, skipped: 5, failed: 3, bytes_done: 990 },
    }
    const retry = {
      ...base,
      id: 'b',
      name: null,
      totals: { ...totals, objects: 3, bytes: 10, done: 2, failed: 1, bytes_done: 6 },
    }
    const one = mergeChain([first, retry])
    expect(one?.totals).toEqual({
      ...totals,
      objects: 448,
      bytes: 1000,
      done: 442,
      skipped: 5,
      failed: 1,
      bytes_done: 996,
    })
    expect([one?.id, one?.name]).toEqual(['b', 'Run 42'])
    expect(mergeChain([])).toBeNull()
  })
})

describe('a cause', () => {
  it('is a line, and a letter with its keys', () => {
    expect(headline(cause)).toBe('2 objects, 2.00 KiB: access to them was denied')
    expect(letter(base, cause, cause.keys)).toBe(
      [
        'Of the delivery “Run 42” (s3://vendor/run42/), 2 files (2.00 KiB) are missing: access to them was denied.',
        'The storage answered AccessDenied to GetObject.',
        'Please put this right at your side, and tell us when it is done: we then fetch what is missing.',
        '',
        'Files:',
        '  run42/a',
        '  run42/b',
        '',
      ].join('\n'),
    )
  })

  it('says how many keys are not listed', () => {
    const many = letter(base, { ...cause, count: 1200 }, cause.keys)
    expect(many).toContain('Files (the first 2 of 1,200):')
  })
})

describe('limits', () => {
  const same = { priority: '0', max_requests: '', max_bandwidth: '', tpslimit: '' }

  it('are sent where they were changed, and given up where they were emptied', () => {
    expect(changes(same, base)).toEqual({})
    expect(changes({ ...same, priority: '5', max_bandwidth: ' 50MB ' }, base)).toEqual({
      priority: 5,
      max_bandwidth: '50MB',
    })
    expect(changes(same, { ...base, tpslimit: 10 })).toEqual({ tpslimit: null })
  })

  it('have the same command line', () => {
    expect(setCommand('a', { priority: 5, max_bandwidth: '08:00,50MB 18:00,off' })).toBe(
      "seqferry set a --priority 5 --max-bandwidth '08:00,50MB 18:00,off'",
    )
    expect(setCommand('a', { tpslimit: null })).toBe('')
  })
})
