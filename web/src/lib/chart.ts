/** The progress of a transfer as a chart and as text. No module of the browser is used here. */

import { count, counted, duration, rate } from './format'
import type { Sample } from './types'

/** Columns for uPlot: moments in seconds since the epoch, then a value for each. */
export interface Columns {
  times: number[]
  bytes: number[]
  requests: number[]
  workers: number[]
}

/** Moments must rise strictly, or the plot collapses; of two samples at one moment the later one counts. */
export function rising(samples: readonly Sample[]): Sample[] {
  const found = new Map<number, Sample>()
  for (const one of samples) {
    if (one.seconds > 0) found.set(Date.parse(one.at), one)
  }
  return [...found.entries()].sort(([a], [b]) => a - b).map(([, one]) => one)
}

/** A sample stands at the middle of its interval. */
export function columns(samples: readonly Sample[]): Columns {
  return {
    times: samples.map((one) => Date.parse(one.at) / 1000 + one.seconds / 2),
    bytes: samples.map((one) => one.bytes / one.seconds),
    requests: samples.map((one) => one.requests / one.seconds),
    workers: samples.map((one) => one.workers),
  }
}

/** Spans of time, in seconds since the epoch, in which the storage throttled requests. */
export function throttledSpans(samples: readonly Sample[]): [number, number][] {
  const spans: [number, number][] = []
  for (const one of samples) {
    if (one.throttled === 0) continue
    const begin = Date.parse(one.at) / 1000
    const last = spans.at(-1)
    if (last && begin <= last[1] + 0.001) last[1] = begin + one.seconds
    else spans.push([begin, begin + one.seconds])
  }
  return spans
}

/** What a chart shows, as a sentence. */
export function caption(samples: readonly Sample[], isLive: boolean): string {
  const last = samples.at(-1)
  if (!last) return ''
  const whole = samples.reduce((sum, one) => sum + one.seconds, 0)
  const moved = samples.reduce((sum, one) => sum + one.bytes, 0)
  const most = Math.max(...samples.map((one) => one.bytes / one.seconds))
  const throttled = throttledSpans(samples).reduce((sum, [begin, end]) => sum + end - begin, 0)
  const workers = isLive ? last.workers : Math.max(...samples.map((one) => one.workers))
  const now = isLive
    ? `Now ${rate(last.bytes / last.seconds)} by ${counted(Math.round(last.requests / last.seconds), 'request')} a second`
    : `${rate(moved / whole)} in the mean`
  const slowed =
    throttled === 0
      ? 'never throttled by the storage'
      : `throttled by the storage in ${duration(throttled)} of ${duration(whole)}`
  const hands = `${isLive ? '' : 'at most '}${counted(workers, 'worker')}`
  return `${now}, at most ${rate(most)}, ${slowed}, ${hands}.`
}

/** At most so many rows for a table, each the sum of neighbours. */
export function rows(samples: readonly Sample[], most: number): Sample[] {
  const size = Math.ceil(samples.length / most)
  const found: Sample[] = []
  for (let at = 0; at < samples.length; at += size) {
    const part = samples.slice(at, at + size)
    const first = part[0]
    if (!first) continue
    const sum = (name: 'seconds' | 'bytes' | 'objects' | 'requests' | 'throttled'): number =>
      part.reduce((total, one) => total + one[name], 0)
    found.push({
      at: first.at,
      seconds: sum('seconds'),
      bytes: sum('bytes'),
      objects: sum('objects'),
      requests: sum('requests'),
      throttled: sum('throttled'),
      workers: Math.max(...part.map((one) => one.workers)),
    })
  }
  return found
}

/** Marks of an axis of bytes: four at most, multiples of a power of two. */
export function byteMarks(max: number): number[] {
  if (!(max > 0)) return [0]
  const step = 2 ** Math.ceil(Math.log2(max / 4))
  return Array.from({ length: Math.floor(max / step) + 1 }, (_, number) => number * step)
}

const [MINUTE, DAY] = [60, 86_400]

/**
 * Marks of an axis of times, in seconds since the epoch: as exact as two neighbours need to differ, with the day where
 * the course has several. The age of the course does not matter: its page names the day.
 */
export function timeMarks(times: readonly number[]): string[] {
  const [first = 0, second = first] = times
  const step = second - first
  const moments = times.map((time) => new Date(time * 1000))
  const days = new Set(moments.map((one) => one.toDateString()))
  const form = new Intl.DateTimeFormat(undefined, {
    ...(days.size > 1 && step >= MINUTE ? { day: 'numeric', month: 'short' } : {}),
    ...(step < DAY ? { hour: '2-digit', minute: '2-digit' } : {}),
    ...(step < MINUTE ? { second: '2-digit' } : {}),
  })
  return moments.map((one) => form.format(one))
}

export function requestRate(value: number): string {
  return `${count(value)}/s`
}
