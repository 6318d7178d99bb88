/** Sentences about a delivery, for people who wait for data. No module of the browser is used here. */

import { about, count, counted, moment } from './format'
import type { Delivery } from './types'

/** One sentence: what has arrived, and what happens next. */
export function sentence(delivery: Delivery, now: Date): string {
  const { objects, arrived, missing, state } = delivery
  const files = counted(objects, 'file')
  const some = `${count(arrived)} of ${files} ${objects === 1 ? 'has' : 'have'} arrived`
  if (state === 'waiting') return `This delivery has not begun yet. ${waiting(delivery)}`.trim()
  if (state === 'listing' || !delivery.planned) return `Listing files: ${count(objects)} found so far.`
  if (state === 'complete') {
    const at = delivery.ended_at === null ? '' : ` at ${moment(new Date(delivery.ended_at), now)}`
    const all = arrived === 1 ? 'It' : 'All'
    return delivery.verified === arrived
      ? `Complete. ${counted(arrived, 'file')}, all verified${at}.`
      : `Complete${at}. ${all} arrived; ${count(delivery.verified)} of ${count(arrived)} were verified.`
  }
  if (state === 'failed') return `The delivery has stopped: ${delivery.error ?? 'it could not go on'}. ${some}.`
  if (state === 'cancelled') return `The delivery was cancelled. ${some}.`
  if (state === 'incomplete')
    return `The delivery has ended. ${some}; ${counted(missing, 'file')} ${missing === 1 ? 'is' : 'are'} missing.`
  if (state === 'paused') return `The delivery is paused. ${some} so far.`
  if (state === 'stopping') return `The delivery is being stopped. ${some}.`
  return `${some}${delivery.verified === arrived ? ' and are verified' : ''}.`.replace(
    'has arrived and are',
    'has arrived and is',
  )
}

/** When all will be there; empty while that is not known. */
export function ending(delivery: Delivery, now: Date): string {
  if (delivery.whole_by === null || delivery.eta_seconds === null) return ''
  return `Whole by about ${moment(new Date(delivery.whole_by), now)} (${about(delivery.eta_seconds)}).`
}

function waiting(delivery: Delivery): string {
  const wait = delivery.waits_for
  if (wait === null) return ''
  if (wait.kind === 'delivery')
    return wait.name === null ? 'It waits for another delivery.' : `It waits for ${wait.name}.`
  if (wait.kind === 'worker') return 'It waits for a machine that can do it.'
  return wait.ahead
    ? `${counted(wait.ahead, 'delivery', 'deliveries')} ${wait.ahead === 1 ? 'comes' : 'come'} first.`
    : 'It is next.'
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
