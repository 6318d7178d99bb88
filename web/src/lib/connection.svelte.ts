/** Whether the server answers, for the one bar that says so. */

class Connection {
  /** When it was found that the server does not answer; null while it does. */
  lostSince = $state<number | null>(null)
  /** False when the reader has stopped the live view. */
  isLive = $state(true)

  found(): void {
    this.lostSince = null
  }

  lost(): void {
    this.lostSince ??= Date.now()
  }
}

export const connection = new Connection()

class Clock {
  now = $state(Date.now())

  constructor() {
    setInterval(() => {
      if (!document.hidden) this.now = Date.now()
    }, 1000)
  }
}

/** One clock for all times of the page. */
export const clock = new Clock()
