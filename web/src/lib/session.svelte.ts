/** The token of the person before the page. It lives as long as the tab, and is sent to this server only. */

export const base = new URL('.', document.baseURI)

// Two servers below one name differ in their path.
const KEY = `seqferry-token:${base.pathname}`

class Session {
  token = $state(sessionStorage.getItem(KEY) ?? '')
  /** A request was refused and waits for a token. */
  isNeeded = $state(false)
  private waiting: (() => void)[] = []

  /** Waits until there is another token than the one that was refused. */
  async renewed(refused: string, signal?: AbortSignal | null): Promise<void> {
    if (this.token !== refused) return
    this.isNeeded = true
    await new Promise<void>((resolve, reject) => {
      this.waiting.push(resolve)
      signal?.addEventListener('abort', () => reject(new DOMException('', 'AbortError')), { once: true })
    })
  }

  signIn(token: string): void {
    this.token = token
    sessionStorage.setItem(KEY, token)
    this.isNeeded = false
    const waiting = this.waiting
    this.waiting = []
    for (const go of waiting) go()
  }

  signOut(): void {
    sessionStorage.removeItem(KEY)
    this.token = ''
  }
}

export const session = new Session()
