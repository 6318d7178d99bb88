/** A reader of server-sent events, for streams that are fetched with a header (`EventSource` sends none). */

export interface Message {
  event: string
  data: string
  /** Null for what is not stored, as snapshots: a stream cannot be resumed after them. */
  id: string | null
}

export class EventParser {
  private rest = ''
  private data: string[] = []
  private event = ''
  private id: string | null = null

  /** The messages that are whole with these characters, in any pieces. */
  push(text: string): Message[] {
    const found: Message[] = []
    let buffer = this.rest + text
    for (;;) {
      const end = buffer.search(/[\r\n]/)
      // A CR at the end may be the first half of a CRLF.
      if (end < 0 || (buffer[end] === '\r' && end === buffer.length - 1)) break
      const line = buffer.slice(0, end)
      buffer = buffer.slice(end + (buffer.startsWith('\r\n', end) ? 2 : 1))
      const message = this.take(line)
      if (message) found.push(message)
    }
    this.rest = buffer
    return found
  }

  private take(line: string): Message | null {
    if (line === '') return this.finish()
    const colon = line.indexOf(':')
    if (colon === 0) return null
    const field = colon < 0 ? line : line.slice(0, colon)
    const value = colon < 0 ? '' : line.slice(colon + 1).replace(/^ /, '')
    if (field === 'data') this.data.push(value)
    else if (field === 'event') this.event = value
    else if (field === 'id') this.id = value
    return null
  }

  private finish(): Message | null {
    const message =
      this.data.length || this.id !== null
        ? { event: this.event || 'message', data: this.data.join('\n'), id: this.id }
        : null
    this.data = []
    this.event = ''
    this.id = null
    return message
  }
}
