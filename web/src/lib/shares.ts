/** Texts about shares of gateways and their folders. No module of the browser is used here. */

import { bytes, count, counted, duration, rate } from './format'
import type { Files, Gateway, ShareFacts, Writing } from './types'

/** The state of a share in one word, the worst first. */
export function shareState(share: ShareFacts, isAlive: boolean): string {
  const { writing } = share
  if (!isAlive) return 'silent'
  if (writing === null) return 'read_only'
  if (writing.failure !== null) return 'writes_stopped'
  if (writing.claimed_by !== null) return 'uploads_stopped'
  if (writing.failing_files > 0) return 'failing'
  if (writing.uploading_files > 0) return 'uploading'
  if (writing.dirty_files === 0 && writing.removals === 0) return 'in_s3'
  return writing.window_is_open ? 'waiting' : 'outside_window'
}

/** `106 files wait, 3.10 GiB; the oldest for 2 min` */
export function waitingText(writing: Writing): string {
  const { dirty_files: files, dirty_bytes: size, oldest_dirty_seconds: oldest, removals } = writing
  const parts = []
  if (files > 0) {
    const since = oldest === null ? '' : `; the oldest for ${duration(oldest)}`
    parts.push(`${counted(files, 'file waits', 'files wait')}, ${bytes(size)}${since}`)
  }
  if (removals > 0) parts.push(`${counted(removals, 'object')} to be removed from S3`)
  return parts.length > 0 ? `${parts.join('. ')}.` : 'Nothing waits.'
}

/** What the gateway has done since its start, and its room. */
export function workText(share: ShareFacts): string[] {
  const { writing, read_bytes: read, fetched_bytes: fetched } = share
  const found = []
  if (writing !== null) {
    const sent = `${counted(writing.uploaded_files, 'file')}, ${bytes(writing.uploaded_bytes)} uploaded since its start`
    found.push(writing.bytes_per_second >= 1 ? `${sent}, now ${rate(writing.bytes_per_second)}` : sent)
    if (writing.free_bytes !== null) found.push(`${bytes(writing.free_bytes)} free in the cache`)
  }
  if (read > 0) {
    const here = Math.max(0, Math.floor((100 * (read - fetched)) / read))
    found.push(`${bytes(read)} of objects read, ${count(here)} % of them from the cache`)
  }
  return found
}

/** Further facts of a share, which most shares do not have. */
export function remarks(writing: Writing): string[] {
  const found = []
  if (writing.failure !== null) found.push(`Writes have stopped: ${writing.failure}`)
  if (writing.claimed_by !== null) found.push(`Nothing is uploaded: ${writing.claimed_by}`)
  if (writing.conflicts > 0)
    found.push(
      `${counted(writing.conflicts, 'file')} lost against another program's object and ${writing.conflicts === 1 ? 'is' : 'are'} kept in .seqferry-conflicts.`,
    )
  if (writing.ignored_files > 0)
    found.push(`${counted(writing.ignored_files, 'file')} not uploaded because of the name.`)
  if (writing.unrecorded > 0) found.push(`${counted(writing.unrecorded, 'result')} of uploads not on record yet.`)
  if (!writing.window_is_open && writing.dirty_files > 0) found.push('Uploads wait for the next upload window.')
  return found
}

/** A gateway as people call it: `gateway at 10.1.2.3:2049`, or the folder of a mount. */
export function gatewayTitle(gateway: Gateway): string {
  if (gateway.directory !== null) return `Mount ${gateway.directory} on ${gateway.host}`
  return `Gateway ${gateway.host}${gateway.address === null ? '' : `, ${gateway.address}`}`
}

/** Files of a folder that wait; folders are no files. */
export function waitingFiles(files: Files): number {
  return files.dirty_files - files.dirty_folders
}

/** True when S3 is known to have all files of a folder as the share shows them. */
export function isSafe(files: Files): boolean {
  const isCounted = files.in_s3 !== null && !files.in_s3.is_cut
  const isQuiet = files.dirty_files === 0 && files.failing_files === 0 && files.renames.length === 0
  return isCounted && isQuiet
}

/** `1,204 of 1,310 files are in S3.` */
export function filesSentence(files: Files): string {
  const waiting = waitingFiles(files)
  const { in_s3: there } = files
  if (files.kind !== 'folder') return there?.files === 1 ? 'This file is in S3.' : 'This file is not in S3 yet.'
  if (there === null)
    return waiting === 0 ? 'Nothing of this folder waits.' : `${counted(waiting, 'file waits', 'files wait')} here.`
  if (there.is_cut) {
    const rest = waiting === 0 ? 'nothing waits' : counted(waiting, 'file waits', 'files wait')
    return `More than ${count(there.files)} files are in S3, ${rest}.`
  }
  const all = there.files + waiting
  if (all === 0) return 'This folder has no files.'
  if (waiting === 0) return all === 1 ? 'The one file is in S3.' : `All ${count(all)} files are in S3.`
  return `${count(there.files)} of ${counted(all, 'file')} ${there.files === 1 ? 'is' : 'are'} in S3.`
}

/** Share of the files that are in S3; null where it is not known. */
export function portion(files: Files): number | null {
  if (files.in_s3 === null || files.in_s3.is_cut) return null
  const all = files.in_s3.files + waitingFiles(files)
  return all === 0 ? 1 : files.in_s3.files / all
}

/** Names of a path with the path up to each, for links to the folders above. */
export function crumbs(path: string): { name: string; path: string }[] {
  const names = path.split('/').filter((name) => name !== '')
  return names.map((name, at) => ({ name, path: names.slice(0, at + 1).join('/') }))
}

/** The path that a person has typed, below its share: `/runs/run42/` of the share `runs` is `run42`. */
export function below(share: string, typed: string): string {
  const path = typed.trim()
  const parts = path.split('/').filter((name) => name !== '')
  return (path.startsWith('/') && parts[0] === share ? parts.slice(1) : parts).join('/')
}
