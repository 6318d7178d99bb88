import { expect, test } from 'vitest'
import { below, crumbs, filesSentence, isSafe, portion, remarks, shareState, waitingText } from '../src/lib/shares'
import type { Files, ShareFacts, Writing } from '../src/lib/types'

const quiet = {
  dirty_files: 0,
  dirty_bytes: 0,
  oldest_dirty_seconds: null,
  uploading_files: 0,
  failing_files: 0,
  removals: 0,
  conflicts: 0,
  ignored_files: 0,
  unrecorded: 0,
  window_is_open: true,
  failure: null,
  claimed_by: null,
} as unknown as Writing

const folder = {
  kind: 'folder',
  in_s3: { files: 1310, bytes: 9, is_cut: false },
  dirty_files: 0,
  dirty_folders: 0,
  failing_files: 0,
  renames: [] as unknown,
} as Files

test('a share has one state, the worst of its own', () => {
  const of = (facts: Partial<Writing>, isAlive = true): string =>
    shareState({ writing: { ...quiet, ...facts } } as ShareFacts, isAlive)
  expect(of({})).toBe('in_s3')
  expect(of({ dirty_files: 1 })).toBe('waiting')
  expect(of({ removals: 1 })).toBe('waiting')
  expect(of({ dirty_files: 1, window_is_open: false })).toBe('outside_window')
  expect(of({ dirty_files: 1, uploading_files: 1 })).toBe('uploading')
  expect(of({ dirty_files: 1, uploading_files: 1, failing_files: 1 })).toBe('failing')
  expect(of({ failing_files: 1, claimed_by: 'another' })).toBe('uploads_stopped')
  expect(of({ claimed_by: 'another', failure: 'the disk' })).toBe('writes_stopped')
  expect(of({ failure: 'the disk' }, false)).toBe('silent')
  expect(shareState({ writing: null } as ShareFacts, true)).toBe('read_only')
})

test('what waits is a sentence', () => {
  expect(waitingText(quiet)).toBe('Nothing waits.')
  expect(waitingText({ ...quiet, dirty_files: 1, dirty_bytes: 2048, oldest_dirty_seconds: 130 })).toBe(
    '1 file waits, 2.00 KiB; the oldest for 2 min 10 s.',
  )
  expect(waitingText({ ...quiet, dirty_files: 2, removals: 1 })).toBe(
    '2 files wait, 0 B. 1 object to be removed from S3.',
  )
  expect(remarks({ ...quiet, conflicts: 2, window_is_open: false })).toHaveLength(1)
})

test('a folder says how many of its files are in S3', () => {
  const some = { ...folder, in_s3: { files: 1204, bytes: 9, is_cut: false }, dirty_files: 107, dirty_folders: 1 }
  expect(filesSentence(some)).toBe('1,204 of 1,310 files are in S3.')
  expect(portion(some)).toBeCloseTo(1204 / 1310)
  expect(filesSentence(folder)).toBe('All 1,310 files are in S3.')
  expect(filesSentence({ ...folder, in_s3: null, dirty_files: 2 })).toBe('2 files wait here.')
  expect(filesSentence({ ...folder, in_s3: { files: 0, bytes: 0, is_cut: false } })).toBe('This folder has no files.')
  const many = { ...folder, in_s3: { files: 100_000, bytes: 9, is_cut: true } }
  expect(filesSentence(many)).toBe('More than 100,000 files are in S3, nothing waits.')
  expect(portion(many)).toBeNull()
  expect(filesSentence({ ...folder, kind: 'file', in_s3: { files: 0, bytes: 0, is_cut: false } })).toContain(
    'not in S3',
  )
})

test('only a folder that was counted whole, and of which nothing waits or fails, is safe', () => {
  expect(isSafe(folder)).toBe(true)
  expect(isSafe({ ...folder, in_s3: null })).toBe(false)
  expect(isSafe({ ...folder, in_s3: { files: 5, bytes: 5, is_cut: true } })).toBe(false)
  expect(isSafe({ ...folder, dirty_files: 1 })).toBe(false)
  expect(isSafe({ ...folder, failing_files: 1 })).toBe(false)
  expect(isSafe({ ...folder, renames: [{}] } as unknown as Files)).toBe(false)
})

test('paths are those below the share, however they are typed', () => {
  expect(below('runs', ' /runs/run42/ ')).toBe('run42')
  expect(below('runs', 'run42/lane1')).toBe('run42/lane1')
  expect(below('runs', 'runs/a')).toBe('runs/a')
  expect(below('runs', '/runs')).toBe('')
  expect(crumbs('a/b')).toEqual([
    { name: 'a', path: 'a' },
    { name: 'b', path: 'a/b' },
  ])
})
