/** The view in the address: `#/t/ID?state=failed`. Fragments need no rule of a server and are not sent to one. */

export interface View {
  path: string[]
  query: URLSearchParams
}

export function parse(fragment: string): View {
  const [path = '', query = ''] = fragment.replace(/^#?\/?/, '').split(/\?(.*)/s)
  const parts = path.split('/').filter((part) => part !== '')
  return { path: parts.map(decoded), query: new URLSearchParams(query) }
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part)
  } catch {
    return part
  }
}

export type Values = Record<string, string | number | null | undefined>

/** The fragment of a view. Empty values are left out. */
export function fragment(path: string[], values: Values = {}): string {
  const query = new URLSearchParams()
  for (const [name, value] of Object.entries(values)) {
    if (value !== null && value !== undefined && value !== '') query.set(name, String(value))
  }
  const text = query.toString()
  return `#/${path.map(encodeURIComponent).join('/')}${text ? `?${text}` : ''}`
}

class Router {
  view = $state.raw(parse(''))

  start(): void {
    const read = (): void => {
      this.view = parse(location.hash)
    }
    addEventListener('hashchange', read)
    read()
  }

  value(name: string): string {
    return this.view.query.get(name) ?? ''
  }

  /** Changes values of the query. With `step` the view before can be gone back to. */
  change(values: Values, step = false): void {
    const all: Values = { ...Object.fromEntries(this.view.query), ...values }
    const next = fragment(this.view.path, all)
    if (next === location.hash) return
    if (step) location.hash = next
    else {
      history.replaceState(null, '', next)
      this.view = parse(next)
    }
  }
}

export const router = new Router()
