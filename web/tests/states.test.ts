import { expect, test } from 'vitest'
import { withoutDuplicates } from '../src/lib/states'

test('what has changed its state between two answers is in the first list only', () => {
  const one = { id: '1' }
  const two = { id: '2' }
  const three = { id: '3' }
  expect(withoutDuplicates([[one], [one, two], [three, two]])).toEqual([[one], [two], [three]])
  expect(withoutDuplicates([[], []])).toEqual([[], []])
})
