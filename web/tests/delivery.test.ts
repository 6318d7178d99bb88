import { describe, expect, it } from 'vitest'
import { addressWrong, ending, sentence } from '../src/lib/delivery'
import type { Delivery } from '../src/lib/types'

const now = new Date(2026, 10, 27, 14, 0)
const base: Delivery = {
  key: 'k',
  name: null,
  state: 'arriving',
  planned: true,
  objects: 448,
  bytes: 1,
  arrived: 445,
  bytes_arrived: 1,
  verified: 445,
  left_out: 0,
  missing: 0,
  share: 0.9,
  at_work: true,
  bytes_per_second: 1,
  eta_seconds: null,
  whole_by: null,
  created_at: '',
  started_by: '',
  started_at: null,
  ended_at: null,
  waits_for: null,
  causes: [],
  files: [],
  files_more: 0,
  retries: 0,
  retrying: false,
  error: null,
  receipts: [],
}

describe('the sentence of a delivery', () => {
  it.each([
    [{}, '445 of 448 files have arrived and are verified.'],
    [{ verified: 440 }, '445 of 448 files have arrived.'],
    [{ objects: 1, arrived: 1, verified: 1 }, '1 of 1 file has arrived and is verified.'],
    [{ state: 'listing', planned: false }, 'Listing files: 448 found so far.'],
    [{ state: 'complete', arrived: 448, verified: 448 }, 'Complete. 448 files, all verified.'],
    [{ state: 'complete', arrived: 448, verified: 440 }, 'Complete. All arrived; 440 of 448 were verified.'],
    [
      { state: 'incomplete', missing: 3 },
      'The delivery has ended. 445 of 448 files have arrived; 3 files are missing.',
    ],
    [
      { state: 'waiting', waits_for: { kind: 'turn', name: null, ahead: 1 } },
      'This delivery has not begun yet. 1 delivery comes first.',
    ],
    [
      { state: 'waiting', waits_for: { kind: 'turn', name: null, ahead: 0 } },
      'This delivery has not begun yet. It is next.',
    ],
  ] as [Partial<Delivery>, string][])('%j', (change, expected) => {
    expect(sentence({ ...base, ...change }, now)).toBe(expected)
  })

  it('names no end before one is known', () => {
    expect(ending(base, now)).toBe('')
    const known = { ...base, eta_seconds: 1700, whole_by: new Date(2026, 10, 27, 14, 28).toISOString() }
    expect(ending(known, now)).toContain('about 30 min')
  })
})

describe('a mail address', () => {
  it.each(['ada@example.org', ' o.b+x@a-b.example.net '])('%s is one', (text) => {
    expect(addressWrong(text)).toBe('')
  })
  it.each(['', 'bob', 'bob@', 'bob@localhost', 'a@b.org, c@d.org', 'bob@-b.org', 'b'.repeat(65) + '@b.org', 'ö@b.org'])(
    '%s is none',
    (text) => {
      expect(addressWrong(text)).toContain('ada@example.org')
    },
  )
})
