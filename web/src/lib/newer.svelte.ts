/** Whether the server has another page than the one that runs here: it was upgraded since this tab was opened. */

import { base } from './session.svelte'
import { assetsOf, readReloads, withReload } from './upgrade'

const KEY = `seqferry-reloads:${base.pathname}`

// Later the document names parts that were loaded on demand as well.
const named = [...document.querySelectorAll('script[src], link[href]')]
const own = assetsOf(named.map((one) => one.getAttribute('src') ?? one.getAttribute('href')).join(' '))

class NewerPage {
  /** The assets of the other page; empty while there is none. */
  assets = $state('')

  /** Asks for the server's page. One that does not answer is asked again when the next stream opens. */
  async check(): Promise<void> {
    try {
      const answer = await fetch(base, { cache: 'no-cache', credentials: 'omit' })
      if (!answer.ok) return
      const found = assetsOf(await answer.text())
      this.assets = found === own ? '' : found
    } catch {
      // The stream says that the server is lost.
    }
  }

  /** Loads the other page, at most once a day for the same one. The view stays: it is in the address. */
  load(): void {
    const reloads = withReload(readReloads(sessionStorage.getItem(KEY)), this.assets, Date.now())
    if (reloads === null) return
    sessionStorage.setItem(KEY, JSON.stringify(reloads))
    location.reload()
  }
}

export const newer = new NewerPage()
