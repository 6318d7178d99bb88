/** The shares of all gateways, read again while the view is live. */

import { api, content } from './api'
import { connection } from './connection.svelte'
import type { Gateway } from './types'

/** Milliseconds between two requests: gateways report each 10 s. */
const PAUSE = 5000

export class Gateways {
  list = $state.raw<Gateway[] | null>(null)
  error = $state<unknown>(null)
  #round = 0

  async load(): Promise<void> {
    const mine = ++this.#round
    try {
      const found = await content(api.GET('/api/v1/shares'))
      if (mine !== this.#round) return
      this.list = found.gateways
      this.error = null
    } catch (why) {
      if (mine === this.#round) this.error = why
    }
  }

  /** An effect of a view: loads, and again while the view is live. */
  follow(): (() => void) | undefined {
    void this.load()
    if (!connection.isLive) return undefined
    const timer = setInterval(() => {
      if (!document.hidden) void this.load()
    }, PAUSE)
    return () => {
      clearInterval(timer)
    }
  }
}
