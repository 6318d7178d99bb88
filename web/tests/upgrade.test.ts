import { describe, expect, test } from 'vitest'
import { assetsOf, readReloads, withReload } from '../src/lib/upgrade'

const DAY = 24 * 3_600_000
const page = (script: string, style: string): string =>
  `<script type="module" src="./assets/${script}.js"></script><link rel="stylesheet" href="./assets/${style}.css">`

describe('the page of the server', () => {
  test('is another one when a script or a style has another name', () => {
    expect(assetsOf(page('a-1', 'b-1'))).toBe('assets/a-1.js assets/b-1.css')
    expect(assetsOf(page('a-1', 'b-2'))).not.toBe(assetsOf(page('a-1', 'b-1')))
    expect(assetsOf(page('a-1', 'b-1') + page('a-1', 'b-1'))).toBe(assetsOf(page('a-1', 'b-1')))
    expect(assetsOf('502 Bad Gateway')).toBe('')
  })
})

describe('a page that loads itself anew', () => {
  test('does so once a day for the same other page', () => {
    const first = withReload({}, 'b', 1000)
    expect(first).toEqual({ b: 1000 })
    expect(withReload({ b: 1000 }, 'b', 1000 + DAY - 1)).toBeNull()
    expect(withReload({ b: 1000 }, 'b', 1000 + DAY)).toEqual({ b: 1000 + DAY })
    expect(withReload({ b: 1000 }, 'c', 1001)).toEqual({ b: 1000, c: 1001 })
  })

  test('goes on where the clock was turned back by years', () => {
    expect(withReload({ b: 10 * DAY }, 'b', 1)).toEqual({ b: 1 })
  })

  test('remembers the newest twenty', () => {
    let reloads = {}
    for (let at = 1; at <= 30; at++) reloads = withReload(reloads, `page ${at}`, at) ?? {}
    expect(Object.keys(reloads)).toHaveLength(20)
    expect(reloads).toHaveProperty('page 30')
    expect(reloads).not.toHaveProperty('page 10')
  })

  test('reads a record that others have spoilt as empty', () => {
    for (const text of [null, '', 'x', '[]', '7', '{"b":"x"}']) expect(readReloads(text)).toEqual({})
    expect(readReloads('{"b":7}')).toEqual({ b: 7 })
  })
})
