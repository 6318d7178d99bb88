import { expect, test } from 'vitest'
import { fragment, parse } from '../src/lib/router.svelte'

test('a view is read from the fragment that names it', () => {
  const view = parse(fragment(['t', 'a/b %?'], { state: 'failed', q: 'x&y=?#', empty: '', none: null }))
  expect(view.path).toEqual(['t', 'a/b %?'])
  expect([...view.query]).toEqual([
    ['state', 'failed'],
    ['q', 'x&y=?#'],
  ])
})

test.each(['', '#', '#/', '#//', '#/%E0%A4%A', '#?a', '#/t/%'])('%j is a view as well', (text) => {
  expect(() => parse(text)).not.toThrow()
})
