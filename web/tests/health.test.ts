import { expect, test } from 'vitest'
import { activityOf, happened, stateOf, summary } from '../src/lib/health'
import type { Notice, Worker } from '../src/lib/types'

function worker(more: object = {}): Worker {
  return { kind: 'serve', alive: true, transfers: 0, requests_in_flight: 0, facts: {}, ...more } as unknown as Worker
}
function notice(more: object = {}): Notice {
  return { kind: 'finished', state: 'sent', error: null, ...more } as unknown as Notice
}

test('one sentence tells whether all is well', () => {
  expect(summary({ trouble: null, workers: [worker()], notices: [notice()] })).toEqual({
    good: true,
    text: 'Healthy: the database is available, 1 worker is running.',
  })
  const failing = [notice({ state: 'pending', error: 'refused' }), notice({ state: 'given_up', error: 'gone' })]
  expect(summary({ trouble: null, workers: [worker({ alive: false })], notices: failing })).toEqual({
    good: false,
    text: 'No worker is running: transfers stay in the queue, 1 process without a heartbeat, 2 notices could not be delivered.',
  })
  const replaced = [worker(), worker({ alive: false, gone: true })]
  expect(summary({ trouble: null, workers: replaced, notices: [] }).good).toBe(true)
  const none = [worker({ alive: false, gone: true })]
  expect(summary({ trouble: null, workers: none, notices: [] }).text).toBe(
    'No worker is running: transfers stay in the queue.',
  )
  expect(summary({ trouble: 'disk full', workers: [], notices: [] }).text).toBe(
    'The database is not available: disk full',
  )
  expect(summary({ trouble: null, workers: [worker({ kind: 'gateway' })], notices: [] }).good).toBe(false)
  expect(summary({ trouble: null, workers: [worker({ kind: 'http' })], notices: [] }).good).toBe(false)
})

test('a notice that has failed is told from one that is new', () => {
  expect(stateOf(notice({ state: 'pending' }))).toBe('to_be_sent')
  expect(stateOf(notice({ state: 'pending', error: 'refused' }))).toBe('failing')
  expect(stateOf(notice({ state: 'given_up', error: 'refused' }))).toBe('given_up')
  expect(happened(notice({ kind: 'something-new' }))).toBe('something-new')
})

test('a process says what it is at', () => {
  expect(activityOf(worker())).toBe('idle')
  expect(activityOf(worker({ transfers: 2, requests_in_flight: 1 }))).toBe('2 transfers, 1 request in flight')
  const facts = { shares: ['archive', 'runs'], host: '10.0.0.5', port: 2049 }
  expect(activityOf(worker({ kind: 'http' }))).toBe('serves the API, runs no transfers')
  expect(activityOf(worker({ kind: 'gateway', facts }))).toBe('serves archive, runs at 10.0.0.5:2049')
  expect(activityOf(worker({ kind: 'gateway', facts: { shares: 7 } }))).toBe('serves nothing')
})
