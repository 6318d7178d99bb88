/** Sentences about a delivery, for people who wait for data. No module of the browser is used here. */

import { about, moment } from './format'
import type { Delivery } from './types'

/** When all will be there; empty while that is not known. */
export function ending(delivery: Delivery, now: Date): string {
  if (delivery.whole_by === null || delivery.eta_seconds === null) return ''
  return `Whole by about ${moment(new Date(delivery.whole_by), now)} (${about(delivery.eta_seconds)}).`
}

const LABEL = '[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?'
/** One address, as the server takes it: no name, no list. */
const ADDRESS = new RegExp(`^[A-Za-z0-9!#$%&'*+/=?^_\`{|}~.-]{1,64}@${LABEL}(?:\\.${LABEL})+$`)
const LONGEST_ADDRESS = 254

/** What is wrong with a mail address; empty where nothing is. */
export function addressWrong(text: string): string {
  const address = text.trim()
  if (address.length <= LONGEST_ADDRESS && ADDRESS.test(address)) return ''
  return 'Write one mail address, as ada@example.org.'
}

/** By whom something is to be done about files that are missing. */
export function remedy(needs: string): string {
  if (needs === 'sender') return 'The sender has to do something.'
  if (needs === 'operator') return 'The people who run the transfer have to do something.'
  if (needs === 'storage') return 'The storage has failed; trying again may be enough.'
  return ''
}
