import { describe, expect, it } from 'vitest'
import { retryEffect } from '../src/lib/retry'
import { copiesObjects } from '../src/lib/transfer'

describe('a retry', () => {
  it('copies what has not arrived', () => {
    expect(retryEffect('transfer')).toBe(
      'A new transfer copies what has not arrived, and nothing else. What has arrived stays.',
    )
    expect(retryEffect('transfer', 1)).toMatch(/copies it, and nothing else/)
    expect(retryEffect('pack', 2)).toMatch(/copies these, and nothing else/)
  })

  it('of what compares looks again, and says that nothing is copied', () => {
    for (const operation of ['verify', 'check']) {
      expect(retryEffect(operation)).toMatch(/checks what .* again\. It copies nothing/)
      expect(retryEffect(operation, 1)).toMatch(/checks it again\. It copies nothing/)
    }
  })

  it('of what removes promises no copy', () => {
    for (const operation of ['remove', 'cleanup']) expect(retryEffect(operation)).not.toMatch(/copies|arrived/)
  })
})

it('an operation by which nothing arrives has no sender to write to', () => {
  expect(['transfer', 'move', 'unpack', 'history'].every(copiesObjects)).toBe(true)
  expect(['verify', 'check', 'remove', 'cleanup'].some(copiesObjects)).toBe(false)
})
