import { describe, expect, it } from 'vitest'
import { addressWrong, ending } from '../src/lib/delivery'
import type { Delivery } from '../src/lib/types'

const now = new Date(2026, 10, 27, 14, 0)
const base: Delivery = {
  key: 'k',
  name: null,
  state: 'arriving',
  text: '',
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

describe('the end of a delivery', () => {
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
