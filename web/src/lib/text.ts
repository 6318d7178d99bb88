/** Text of others, as keys and error messages: what cannot be seen is made visible. */

// Control characters, spaces of no or odd width, marks of direction, halves of characters, and tags.
const UNSEEN =
  /[\u0000-\u001f\u007f-\u009f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff9-\ufffb]|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]|\udb40[\udc00-\udfff]/g

const PICTURES = 0x2400

/** The text with `␊` for a line feed, `‹U+202E›` for a mark of direction and so on. */
export function visible(text: string): string {
  return text.replace(UNSEEN, (found) => {
    const code = found.codePointAt(0) ?? 0
    if (code < 0x20) return String.fromCharCode(PICTURES + code)
    if (code === 0x7f) return '\u2421'
    return `‹U+${code.toString(16).toUpperCase().padStart(4, '0')}›`
  })
}

/** The last part of a key or address, for places that are too narrow for all of it. */
export function lastPart(text: string): string {
  const whole = text.endsWith('/') ? text.slice(0, -1) : text
  return whole.slice(whole.lastIndexOf('/') + 1)
}

/** A word for a shell, quoted where needed. */
export function quoted(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`
}
