import { expect, test } from 'vitest'
import { progressOf } from '../src/lib/progress'
import type { Transfer } from '../src/lib/types'

const STARTED = Date.parse('2026-11-24T08:00:00Z')

function transfer(more: object, totals: object = {}): Transfer {
  const none = { objects: 10, bytes: 1000, done: 5, skipped: 1, failed: 0, cancelled: 0, bytes_done: 500, ...totals }
  const live = { workers: 1, bytes_per_second: 50, in_flight: 1, requests: 0, retries: 0, throttled: 0, slowest: [] }
  return {
    state: 'running',
    planned: true,
    started_at: '2026-11-24T08:00:00Z',
    totals: none,
    live,
    ...more,
  } as unknown as Transfer
}

test('a running transfer has a share, and a remaining time after half a minute', () => {
  expect(progressOf(transfer({}), STARTED + 20_000)).toMatchObject({ share: 0.5, eta: null, isWhole: false })
  expect(progressOf(transfer({}), STARTED + 40_000).eta).toBe(10)
})

test('while the source is listed nothing is promised', () => {
  expect(progressOf(transfer({ planned: false }), STARTED + 90_000)).toMatchObject({
    share: null,
    eta: null,
    arrived: 6,
  })
})

test.each(['running', 'cancelled', 'done_with_failures'])('a transfer that is %s is never whole', (state) => {
  expect(progressOf(transfer({ state }, { bytes_done: 1000 }), STARTED).share).toBe(0.999)
})

test('a done one is whole, of objects without bytes too', () => {
  expect(progressOf(transfer({ state: 'done' }, { bytes: 0, bytes_done: 0 }), STARTED).share).toBe(1)
  expect(progressOf(transfer({}, { bytes: 0, bytes_done: 0 }), STARTED).share).toBe(0.6)
})
