import { describe, expect, it } from 'vitest'
import { byteMarks, caption, columns, rising, rows, throttledSpans, timeMarks } from '../src/lib/chart'
import type { Sample } from '../src/lib/types'

function sample(second: number, more: Partial<Sample> = {}): Sample {
  const at = new Date(Date.UTC(2026, 10, 27, 12, 0, second)).toISOString()
  return { at, seconds: 2, bytes: 2048, objects: 1, requests: 4, throttled: 0, workers: 1, ...more }
}

describe('samples', () => {
  it('rise strictly, whatever order and overlap they come in', () => {
    const found = rising([sample(4), sample(0), sample(2), sample(2, { bytes: 0 }), sample(6, { seconds: 0 })])
    expect(found.map((one) => new Date(one.at).getUTCSeconds())).toEqual([0, 2, 4])
    expect(found[1]?.bytes).toBe(0)
  })

  it('become rates at the middle of their intervals', () => {
    expect(columns([sample(0)])).toEqual({
      times: [Date.UTC(2026, 10, 27, 12, 0, 1) / 1000],
      bytes: [1024],
      requests: [2],
      workers: [1],
    })
  })

  it('that were throttled one after the other are one span', () => {
    const at = Date.UTC(2026, 10, 27, 12) / 1000
    const all = [sample(0, { throttled: 3 }), sample(2, { throttled: 1 }), sample(4), sample(6, { throttled: 1 })]
    expect(throttledSpans(all)).toEqual([
      [at, at + 4],
      [at + 6, at + 8],
    ])
  })
})

describe('the caption', () => {
  it('says how it is while it works', () => {
    const all = [sample(0, { bytes: 8192 }), sample(2, { throttled: 1, workers: 3 })]
    expect(caption(all, true)).toBe(
      'Now 1.00 KiB/s by 2 requests a second, at most 4.00 KiB/s, throttled by the storage in 2 s of 4 s, 3 workers.',
    )
  })

  it('says how it was at the end', () => {
    expect(caption([sample(0), sample(2)], false)).toBe(
      '1.00 KiB/s in the mean, at most 1.00 KiB/s, never throttled by the storage, at most 1 worker.',
    )
    expect(caption([], false)).toBe('')
  })
})

it('a table sums neighbours to as many rows as fit', () => {
  const all = Array.from({ length: 45 }, (_, number) => sample(number * 2))
  const found = rows(all, 20)
  expect(found).toHaveLength(15)
  expect(found[0]).toMatchObject({ seconds: 6, bytes: 6144, objects: 3, requests: 12, workers: 1 })
})

it('marks of bytes are multiples of a power of two', () => {
  expect(byteMarks(0)).toEqual([0])
  expect(byteMarks(3000)).toEqual([0, 1024, 2048])
  expect(byteMarks(1.9 * 2 ** 30).map((one) => one / 2 ** 20)).toEqual([0, 512, 1024, 1536])
})

describe('marks of the time', () => {
  const marks = (from: Date, step: number): string[] =>
    timeMarks([0, 1, 2, 3].map((number) => from.getTime() / 1000 + number * step))

  it('differ from their neighbours, whatever the age of the course', () => {
    for (const year of [2022, 2026]) {
      for (const step of [1, 5, 60, 3600, 10_800, 86_400]) {
        const found = marks(new Date(year, 10, 28, 22, 23, 30), step)
        expect(new Set(found).size, `${String(year)} ${String(step)}: ${found.join(' ')}`).toBe(4)
      }
    }
  })

  it('have the day only where there are several', () => {
    expect(marks(new Date(2022, 10, 28, 10), 600).join(' ')).not.toMatch(/28/)
    expect(marks(new Date(2022, 10, 28, 10), 21_600)[0]).toMatch(/28/)
    expect(timeMarks([])).toEqual([])
  })
})
