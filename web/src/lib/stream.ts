/** Follows a stream of events, as long as the tab is seen and the live view is on. */

import { ApiError, addressOf, type ProblemDocument, send } from './api'
import { connection } from './connection.svelte'
import { newer } from './newer.svelte'
import { EventParser, type Message } from './sse'

const FIRST_PAUSE = 1000
const LONGEST_PAUSE = 30_000
/** Three keep-alives of the server (15 s each) have not come. */
const SILENCE = 45_000

export interface Following {
  message: (message: Message) => void
  /** The stream has begun: what was missed is read anew. */
  opened?: () => void
  /** There is nothing to follow (404), or the last word was said. */
  ended?: () => void
  /** In place of that of the session. */
  token?: string
}

/** Begins to follow; returns the function that stops it. Streams of hidden tabs are closed: a host has six at most. */
export function follow(path: string, following: Following): () => void {
  let stopped = false
  let lastId: string | null = null
  let isFirst = true
  let pause = FIRST_PAUSE
  let timer: ReturnType<typeof setTimeout> | undefined
  let controller: AbortController | null = null

  const close = (): void => {
    clearTimeout(timer)
    controller?.abort()
    controller = null
  }
  const again = (): void => {
    clearTimeout(timer)
    timer = setTimeout(open, pause * (0.5 + Math.random() / 2))
    pause = Math.min(pause * 2, LONGEST_PAUSE)
  }
  const read = async (signal: AbortSignal): Promise<void> => {
    const headers = new Headers(lastId === null ? [] : [['Last-Event-ID', lastId]])
    const answer = await send(new Request(addressOf(path), { headers, signal }), following.token)
    if (!answer.ok || !answer.body) {
      throw new ApiError(((await answer.json().catch(() => null)) ?? {}) as Partial<ProblemDocument>, answer.status)
    }
    following.opened?.()
    // A server that was upgraded has closed the stream before.
    if (!isFirst) void newer.check()
    isFirst = false
    pause = FIRST_PAUSE
    const parser = new EventParser()
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader()
    let silence = setTimeout(() => controller?.abort(), SILENCE)
    try {
      for (;;) {
        const { done, value } = await reader.read()
        if (done) return
        clearTimeout(silence)
        silence = setTimeout(() => controller?.abort(), SILENCE)
        for (const message of parser.push(value)) {
          if (message.id !== null) lastId = message.id
          following.message(message)
        }
      }
    } finally {
      clearTimeout(silence)
    }
  }
  const open = (): void => {
    if (stopped || controller || document.hidden) return
    const mine = new AbortController()
    controller = mine
    read(mine.signal)
      .catch((why: unknown) => {
        if (controller !== mine) return
        // A proxy without a server also answers 404, so the request is repeated.
        if (why instanceof ApiError && why.code === 'not_found') {
          stopped = true
          following.ended?.()
        } else if (!(why instanceof ApiError) || why.status >= 500 || why.status === 404) connection.lost()
      })
      .finally(() => {
        if (controller !== mine) return
        controller = null
        if (!stopped) again()
      })
  }
  const shown = (): void => (document.hidden ? close() : open())
  const online = (): void => {
    pause = FIRST_PAUSE
    open()
  }
  document.addEventListener('visibilitychange', shown)
  addEventListener('online', online)
  open()
  return () => {
    stopped = true
    close()
    document.removeEventListener('visibilitychange', shown)
    removeEventListener('online', online)
  }
}
