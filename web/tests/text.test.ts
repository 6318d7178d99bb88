import { expect, test } from 'vitest'
import { lastPart, quoted, visible } from '../src/lib/text'

test.each([
  ['plain/ключ/名.txt', 'plain/ключ/名.txt'],
  ['a\nb\tc\u0000', 'a␊b␉c␀'],
  ['\u007f\u0085', '␡‹U+0085›'],
  ['exe\u202egpj', 'exe‹U+202E›gpj'],
  ['zero\u200bwidth\ufeff', 'zero‹U+200B›width‹U+FEFF›'],
  ['half \ud83d of', 'half ‹U+D83D› of'],
  ['whole 😀', 'whole 😀'],
  ['tag \u{e0041}', 'tag ‹U+E0041›'],
  ['<img src=x onerror=alert(1)>', '<img src=x onerror=alert(1)>'],
])('%j is shown with what cannot be seen', (given, shown) => {
  expect(visible(given)).toBe(shown)
})

test('words for a shell are quoted where needed', () => {
  expect(quoted('s3://vendor/run42/')).toBe('s3://vendor/run42/')
  expect(quoted("it's $HOME")).toBe(`'it'\\''s $HOME'`)
  expect(quoted('')).toBe("''")
})

test('the last part of an address', () => {
  expect(lastPart('s3://vendor/run42/')).toBe('run42')
  expect(lastPart('name')).toBe('name')
})
