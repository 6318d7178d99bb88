/** Files of the server that need a token: fetched with it, then handed to the browser. */

import { ApiError, addressOf, type ProblemDocument, send } from './api'

/**
 * Saves the answer under this name.
 *
 * @throws ApiError the server refuses.
 */
export async function download(path: string, name: string): Promise<void> {
  const answer = await send(new Request(addressOf(path)))
  if (!answer.ok) throw new ApiError((await answer.json().catch(() => ({}))) as Partial<ProblemDocument>, answer.status)
  const address = URL.createObjectURL(await answer.blob())
  const link = document.createElement('a')
  link.href = address
  link.download = name
  link.click()
  setTimeout(() => URL.revokeObjectURL(address), 60_000)
}
