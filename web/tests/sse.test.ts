import { expect, test } from 'vitest'
import { EventParser, type Message } from '../src/lib/sse'

const STREAM =
  'retry: 2000\n\n: ping\n\nid: 7\r\nevent: progress\r\ndata: {"a": "é😀"}\r\n\r\ndata: one\ndata:two\nodd\n\nevent: nothing\n\nid: 8\n\n'
const MESSAGES: Message[] = [
  { event: 'progress', data: '{"a": "é😀"}', id: '7' },
  { event: 'message', data: 'one\ntwo', id: null },
  { event: 'message', data: '', id: '8' },
]

test.each([1, 2, 3, 7, 1000])('messages are whole when the stream comes in pieces of %i bytes', (size) => {
  const encoded = new TextEncoder().encode(STREAM)
  const decoder = new TextDecoder()
  const parser = new EventParser()
  const found: Message[] = []
  for (let at = 0; at < encoded.length; at += size) {
    found.push(...parser.push(decoder.decode(encoded.slice(at, at + size), { stream: true })))
  }
  expect(found).toEqual(MESSAGES)
})
