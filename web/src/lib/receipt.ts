/** The receipt of a transfer. A link cannot send a token, so the page requests a ticket for one download. */

import { addressOf, api, content } from './api'

/**
 * Opens the receipt in place of the page; going back shows the page again.
 *
 * @throws ApiError the server refuses.
 */
export async function openReceipt(id: string): Promise<void> {
  const params = { path: { transfer_id: id }, query: { format: 'html' as const } }
  const made = await content(api.POST('/api/v1/transfers/{transfer_id}/report-ticket', { params }))
  location.assign(addressOf(made.path))
}
