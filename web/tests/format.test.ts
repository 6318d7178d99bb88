import { expect, test } from 'vitest'
import * as format from '../src/lib/format'

test.each([
  [0, '0 B'],
  [999, '999 B'],
  [1000, '0.98 KiB'],
  [1024, '1.00 KiB'],
  [1023 * 1024 * 1024, '1.00 GiB'],
  [12.345 * 1024 ** 4, '12.3 TiB'],
  [999.4 * 1024, '999 KiB'],
  [9.999 * 1024, '10.0 KiB'],
  [99.97 * 1024, '100 KiB'],
])('%i bytes are written with three digits', (given, text) => {
  expect(format.bytes(given)).toBe(text)
})

test.each([
  [0.9999, false, '99.9 %'],
  [1, false, '99.9 %'],
  [1, true, '100 %'],
  [0.71399, false, '71.3 %'],
  [0, false, '0.0 %'],
])('a share of %d is rounded down, and only a verified whole is 100 %%', (share, isWhole, text) => {
  expect(format.percent(share, isWhole)).toBe(text)
})

test.each([
  [3, 'about 5 s'],
  [61, 'about 1 min 30 s'],
  [1321, 'about 25 min'],
  [5 * 3600, 'about 5 h'],
  [49 * 3600, 'about 2 d 1 h'],
])('%d seconds left are told in steps', (seconds, text) => {
  expect(format.about(seconds)).toBe(text)
})

test('the time of today stands without its day', () => {
  const now = new Date(2026, 10, 24, 16, 0)
  expect(format.moment(new Date(2026, 10, 24, 14, 30), now)).not.toContain('Nov')
  expect(format.moment(new Date(2026, 10, 21, 14, 30), now)).toContain('Nov')
  expect(format.moment(new Date(2024, 10, 21, 14, 30), now)).toContain('2024')
})

test('times of other years name the year, with seconds too', () => {
  const [then, now] = [new Date(2023, 10, 14, 22, 13, 21), new Date(2026, 10, 27)]
  expect(format.momentWithSeconds(then, now)).toMatch(/2023.*22:13:21|2023.*10:13:21/)
  expect(format.momentWithSeconds(now, now)).not.toMatch(/2026/)
})
