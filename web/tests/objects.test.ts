import { describe, expect, it } from 'vitest'
import { verifications } from '../src/lib/events'
import { countOf, details, filterOf, maySort, speed } from '../src/lib/objects'
import type { Transfer, TransferEvent, TransferObject } from '../src/lib/types'

const object = {
  source_key: 'run42/a.bam',
  target_key: 'run42/a.bam',
  size: 2048,
  etag: 'e1',
  version_id: null,
  state: 'done',
  attempts: 1,
  retries: 0,
  method: 'copy',
  started_at: '2026-11-27T12:00:00Z',
  ended_at: '2026-11-27T12:00:02Z',
  target_etag: 'e1',
  target_version_id: null,
  checksum_algorithm: 'CRC64NVME',
  checksum: 'AAAA',
  verified: 'checksum',
  verified_text: 'A checksum is equal.',
  not_carried: [],
  error_class: null,
  error_code: null,
  error_operation: null,
  error_message: null,
  error_text: null,
  written_by: null,
  source_upload_id: null,
} as TransferObject

describe('the filter of objects', () => {
  it('stands in the address, whatever was written into it', () => {
    expect(filterOf(new URLSearchParams('state=failed&prefix=run%2F&order=size&at=k3&from=200'))).toEqual({
      state: 'failed',
      prefix: 'run/',
      cursor: 'k3',
      from: 200,
      order: 'size',
    })
    expect(filterOf(new URLSearchParams('state=__proto__&order=x&from=-1'))).toEqual({
      state: null,
      prefix: '',
      cursor: '',
      from: 0,
      order: '',
    })
    expect(filterOf(new URLSearchParams('from=1e99')).from).toBe(0)
  })

  it('are sorted by size where they are few, or few have failed', () => {
    const transfer = { totals: { objects: 200_000, failed: 5 } } as Transfer
    const all = filterOf(new URLSearchParams())
    expect(maySort(transfer, all)).toBe(false)
    expect(maySort(transfer, { ...all, state: 'failed' })).toBe(true)
    expect(maySort({ totals: { objects: 5, failed: 0 } } as Transfer, all)).toBe(true)
  })

  it('are counted where the totals tell', () => {
    const transfer = { totals: { objects: 5, failed: 2 } } as Transfer
    expect([null, 'failed', 'active'].map((one) => countOf(transfer, one as 'failed'))).toEqual([5, 2, null])
  })
})

describe('the details of an object', () => {
  it('leaves out what is not known', () => {
    const facts = Object.fromEntries(details(object))
    expect(facts).toMatchObject({
      Verified: 'checksum: A checksum is equal.',
      Checksum: 'CRC64NVME AAAA',
      Duration: '2 s, 1.00 KiB/s',
      Method: 'server-side copy in one request (CopyObject)',
    })
    expect(Object.keys(facts)).not.toContain('Error')
    expect(Object.keys(facts)).not.toContain('Target key')
  })

  it('says why it failed, and how often it was tried', () => {
    const failed = {
      ...object,
      state: 'failed',
      error_code: 'AccessDenied',
      error_text: 'no',
      attempts: 2,
      retries: 1,
    }
    const facts = Object.fromEntries(details(failed as TransferObject))
    expect(facts).toMatchObject({ Error: 'no', Cause: 'AccessDenied', Attempts: '2 times, with 1 repeated request' })
    expect(speed({ ...object, ended_at: null })).toBe('')
  })
})

function verified(data: Record<string, unknown>, text = ''): TransferEvent {
  return { number: 1, at: '', kind: 'verified', text, actor: 'ada@lab', hash: '', data }
}

it('verifications are read from events, the latest first', () => {
  const all = [
    verified({ verification: 'a', objects: 3, same: 3 }, 'whole'),
    { ...verified({}), kind: 'done' },
    verified({ verification: 'b', objects: 3, same: 2 }, 'a part'),
  ]
  expect(verifications(all).map(({ id, isGood, text }) => [id, isGood, text])).toEqual([
    ['b', false, 'a part'],
    ['a', true, 'whole'],
  ])
})
