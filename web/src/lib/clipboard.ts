/** Copying text: `navigator.clipboard` is there on HTTPS and on this machine only. */

/** Copies the text of a field; false when the browser does not allow it. The text is selected then. */
export async function copied(field: HTMLInputElement | HTMLTextAreaElement): Promise<boolean> {
  field.focus()
  field.select()
  try {
    if (navigator.clipboard) {
      await navigator.clipboard.writeText(field.value)
      return true
    }
  } catch {
    // The older way below.
  }
  return document.execCommand('copy')
}
