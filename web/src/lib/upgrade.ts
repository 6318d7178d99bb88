/** Whether two pages are the same, and how often one may load itself anew. No module of the browser is used here. */

const DAY = 24 * 3_600_000
/** Reloads that are remembered: more pages than a server gets in a day. */
const MOST = 20

/** Scripts and styles that a page names, as one text; their names hold a hash of what is in them. */
export function assetsOf(html: string): string {
  const names = [...html.matchAll(/assets\/[\w.-]+\.(?:js|css)/g)].map(([name]) => name)
  return [...new Set(names)].sort().join(' ')
}

/** When the page was loaded anew for which other page, in milliseconds since the epoch. */
export type Reloads = Record<string, number>

/**
 * The record with one reload more; null where the page was loaded for that one within a day. A proxy that keeps an old
 * page, or two servers of different versions behind one address, would else have it load again and again.
 */
export function withReload(reloads: Reloads, assets: string, now: number): Reloads | null {
  const at = reloads[assets]
  if (at !== undefined && Math.abs(now - at) < DAY) return null
  const others = Object.entries(reloads).filter(([name]) => name !== assets)
  return Object.fromEntries([...others.sort(([, one], [, other]) => other - one).slice(0, MOST - 1), [assets, now]])
}

/** The record as it was stored; empty if the text is not valid. */
export function readReloads(text: string | null): Reloads {
  try {
    const read: unknown = JSON.parse(text ?? '{}')
    const entries = typeof read === 'object' && read !== null ? Object.entries(read) : []
    return Object.fromEntries(entries.filter((one): one is [string, number] => typeof one[1] === 'number'))
  } catch {
    return {}
  }
}
