import { expect, test } from 'vitest'
import type { Transfer } from '../src/lib/types'
import { inQueueOrder, person, personOf, wait } from '../src/lib/waiting'

function transfer(state: string, queue: object | null, more: object = {}): Transfer {
  return { id: 'x', state, queue, waits_for: null, ...more } as unknown as Transfer
}
const turn = (ahead: number | null): object => ({ reason: 'turn', ahead, blocked_by: null })

test('the place in line is told in words', () => {
  expect(wait(transfer('queued', turn(0)))?.text).toBe('Next in the queue.')
  expect(wait(transfer('queued', turn(1)))?.text).toBe('1 transfer ahead in the queue.')
  expect(wait(transfer('queued', turn(2)))?.text).toBe('2 transfers ahead in the queue.')
  expect(wait(transfer('queued', turn(null)))?.text).toBe('Queued.')
  expect(wait(transfer('queued', null))?.text).toBe('Starting.')
})

test('other reasons are told as well, also of a transfer that has begun', () => {
  const overlap = { reason: 'overlap', ahead: null, blocked_by: 'b' }
  expect(wait(transfer('queued', overlap))).toEqual({ text: 'Waits for', blocker: 'b' })
  expect(wait(transfer('queued', { ...overlap, blocked_by: null }))?.text).toBe(
    'Waits for an earlier transfer that writes to the same keys.',
  )
  const worker = { reason: 'worker', ahead: null, blocked_by: null }
  expect(wait(transfer('running', worker, { waits_for: 'a worker with profile lab' }))?.text).toBe(
    'Waits for a worker with profile lab.',
  )
  expect(wait(transfer('paused', null))?.text).toBe('Paused: nothing is copied until it is resumed.')
  expect(wait(transfer('cancelling', null))?.text).toBe('Cancelling: waits for the requests in flight.')
  expect(wait(transfer('running', null))).toBeNull()
  expect(wait(transfer('done', null))).toBeNull()
})

test('those in line stand in their order, the paused ones last', () => {
  const all = [transfer('paused', null), transfer('queued', turn(2)), transfer('queued', turn(0))]
  expect(inQueueOrder(all).map((one) => one.queue?.ahead)).toEqual([0, 2, undefined])
})

test('a person is a name without a machine', () => {
  expect(person('anna@host')).toBe('anna')
  expect(person('http pipeline from 10.0.0.1')).toBe('pipeline')
  expect(person('http from 10.0.0.1')).toBe('')
  expect(person('http from from 10.0.0.1')).toBe('from')
  expect(person('')).toBe('')
  const actors = ['http ada from 10.0.0.7', 'ada@lab', 'worker lab-7', 'http from 10.0.0.1', '']
  expect(actors.map(personOf)).toEqual(['ada', 'ada', 'worker', 'http from 10.0.0.1', 'unknown user'])
})
