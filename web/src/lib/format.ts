/** Numbers and times as people read them, in their locale. No module of the browser is used here. */

const UNITS = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB', 'EiB']
/** 1,023 MiB is written as 1.00 GiB: a fourth digit never shows. */
const NEXT_UNIT = 999.5
const MINUTE = 60
const HOUR = 60 * MINUTE
const DAY = 24 * HOUR

const whole = new Intl.NumberFormat(undefined, { maximumFractionDigits: 0 })

function digits(places: number): Intl.NumberFormat {
  return new Intl.NumberFormat(undefined, { minimumFractionDigits: places, maximumFractionDigits: places })
}
const PLACES = [digits(0), digits(1), digits(2)] as const

/** 12,345 */
export function count(value: number): string {
  return whole.format(value)
}

/** `1 object`, `2 objects` */
export function counted(value: number, one: string, many = `${one}s`): string {
  return `${count(value)} ${value === 1 ? one : many}`
}

/** Three digits and a binary unit: `2.61 GiB`. */
export function bytes(value: number): string {
  let unit = 0
  let left = value
  while (left >= NEXT_UNIT && unit < UNITS.length - 1) {
    left /= 1024
    unit += 1
  }
  const places = unit === 0 || left >= 99.95 ? 0 : left >= 9.995 ? 1 : 2
  return `${PLACES[places].format(left)} ${UNITS[unit] ?? ''}`
}

export function rate(perSecond: number): string {
  return `${bytes(perSecond)}/s`
}

/** A share rounded down to a tenth of a percent. Only a whole that is verified is 100 %. */
export function percent(share: number, isWhole: boolean): string {
  if (isWhole) return `${whole.format(100)} %`
  return `${PLACES[1].format(Math.min(Math.floor(Math.max(share, 0) * 1000) / 10, 99.9))} %`
}

/** `8 min`, `2 h 5 min`, `3 d 4 h`: the two largest units. */
export function duration(seconds: number): string {
  const left = Math.max(0, Math.round(seconds))
  if (left < MINUTE) return `${count(left)} s`
  if (left < HOUR) return pair(left, MINUTE, 'min', 1, 's', left < 10 * MINUTE)
  if (left < DAY) return pair(left, HOUR, 'h', MINUTE, 'min', true)
  return pair(left, DAY, 'd', HOUR, 'h', true)
}

function pair(left: number, big: number, bigName: string, small: number, smallName: string, both: boolean): string {
  const first = Math.floor(left / big)
  const second = Math.floor((left % big) / small)
  return both && second > 0 ? `${count(first)} ${bigName} ${second} ${smallName}` : `${count(first)} ${bigName}`
}

/** A remaining time in steps that do not promise more than is known: 5 s, 30 s, 5 min, 30 min. */
export function about(seconds: number): string {
  const step = seconds < MINUTE ? 5 : seconds < 10 * MINUTE ? 30 : seconds < 3 * HOUR ? 5 * MINUTE : 30 * MINUTE
  return `about ${duration(Math.max(step, Math.ceil(seconds / step) * step))}`
}

/** `14:30` today, else with the day: `21 Nov, 16:13`. */
export function moment(time: Date, now: Date): string {
  const clock = { hour: '2-digit', minute: '2-digit' } as const
  if (time.toDateString() === now.toDateString()) return time.toLocaleTimeString(undefined, clock)
  const year = time.getFullYear() === now.getFullYear() ? {} : ({ year: 'numeric' } as const)
  return time.toLocaleString(undefined, { day: 'numeric', month: 'short', ...year, ...clock })
}

/** `16:13:44` today, else with the day. */
export function momentWithSeconds(time: Date, now: Date): string {
  const clock = { hour: '2-digit', minute: '2-digit', second: '2-digit' } as const
  if (time.toDateString() === now.toDateString()) return time.toLocaleTimeString(undefined, clock)
  const year = time.getFullYear() === now.getFullYear() ? {} : ({ year: 'numeric' } as const)
  return time.toLocaleString(undefined, { day: 'numeric', month: 'short', ...year, ...clock })
}

/** `10 December`, or with its year. */
export function day(time: Date, withYear = false): string {
  const year = withYear ? ({ year: 'numeric' } as const) : {}
  return time.toLocaleDateString(undefined, { day: 'numeric', month: 'long', ...year })
}

/** The same moment in UTC, for titles: `2026-11-24 08:00:00 UTC`. */
export function utc(time: Date): string {
  return Number.isNaN(time.getTime()) ? '' : `${time.toISOString().slice(0, 19).replace('T', ' ')} UTC`
}

/** `USD 0.48`; below a cent two digits that say something: `USD 0.0031`. */
export function dollars(amount: number): string {
  const places = amount > 0 && amount < 0.01 ? { maximumSignificantDigits: 2 } : {}
  return new Intl.NumberFormat(undefined, {
    style: 'currency',
    currency: 'USD',
    currencyDisplay: 'code',
    ...places,
  }).format(amount)
}
