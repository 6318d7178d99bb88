/** Requests to the server: with the token of the session, repeated once there is one that is known. */

import createClient from 'openapi-fetch'
import type { paths } from '../api/schema'
import { connection } from './connection.svelte'
import { base, session } from './session.svelte'

/** What is wrong with one field of a request. */
export interface FieldError {
  where: string
  text: string
}

export interface ProblemDocument {
  status: number
  code: string
  title: string
  detail?: string
  /** `detail` for readers of a page. */
  text?: string
  errors?: FieldError[]
}

/** An answer that is an error, or none at all (`status` 0). */
export class ApiError extends Error {
  readonly status: number
  readonly code: string
  readonly places: FieldError[]

  constructor(problem: Partial<ProblemDocument>, status: number) {
    super(problem.text ?? problem.detail ?? problem.title ?? `The server answered with status ${status}.`)
    this.status = status
    this.code = problem.code ?? 'unknown'
    this.places = problem.errors ?? []
  }
}

const UNREACHABLE = { code: 'unreachable', detail: 'The server does not answer.' }

/** One request. Waits for sign-in where the server asks for it, unless the request has a token of its own. */
export async function send(request: Request, token?: string): Promise<Response> {
  const hasOwn = token !== undefined || request.headers.has('Authorization')
  for (;;) {
    const used = token ?? (hasOwn ? '' : session.token)
    const headers = new Headers(request.headers)
    // The holder of a share link names it: a sign-in of the same tab does not stand for it.
    if (used && !headers.has('Authorization')) headers.set('Authorization', `Bearer ${used}`)
    let answer: Response
    try {
      answer = await fetch(new Request(request.clone(), { headers, credentials: 'omit', cache: 'no-store' }))
    } catch (why) {
      if (request.signal.aborted) throw why
      connection.lost()
      throw new ApiError(UNREACHABLE, 0)
    }
    connection.found()
    if (answer.status !== 401 || hasOwn) return answer
    await session.renewed(used, request.signal)
  }
}

/** An address of the API below the page's own, whatever prefix a proxy has put before it. */
export function addressOf(path: string): URL {
  return new URL(path.replace(/^\//, ''), base)
}

export const api = createClient<paths>({
  baseUrl: base.href.replace(/\/$/, ''),
  fetch: (request) => send(request),
  querySerializer: { array: { style: 'form', explode: true } },
})

interface Answer<T> {
  data?: T
  error?: unknown
  response: Response
}

/**
 * The content of an answer.
 *
 * @throws ApiError the server refuses, or does not answer.
 */
export async function content<T>(asked: Promise<Answer<T>>): Promise<T> {
  const { data, error, response } = await asked
  if (!response.ok) throw new ApiError((error ?? {}) as Partial<ProblemDocument>, response.status)
  return data as T
}

/** True for requests that were given up because their view has changed. */
export function isAbort(why: unknown): boolean {
  return why instanceof DOMException && why.name === 'AbortError'
}
