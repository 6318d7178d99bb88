/** Texts about the effect of a retry. No module of the browser is used here. */

/** A retry by operation: what a new transfer does with what is left of it. */
const RETRIES: Record<string, { left: string; effect: (left: string) => string }> = {
  move: {
    left: 'what has not arrived',
    effect: (left) => `A new transfer moves ${left}, and nothing else. What has arrived stays.`,
  },
  remove: { left: 'what is left', effect: (left) => `A new removal removes ${left}, and nothing else.` },
  cleanup: { left: 'what is left', effect: (left) => `A new clean-up aborts ${left}, and nothing else.` },
  check: { left: 'what differed', effect: (left) => `A new comparison checks ${left} again. It copies nothing.` },
  verify: {
    left: 'what was not as received',
    effect: (left) =>
      `A new verification checks ${left} again. It copies nothing: to replace missing or changed objects, start a new ` +
      'transfer with the same source and target.',
  },
  run: { left: 'the lines that have failed', effect: (left) => `A new transfer runs ${left}, and nothing else.` },
}
const COPY: (typeof RETRIES)[string] = {
  left: 'what has not arrived',
  effect: (left) => `A new transfer copies ${left}, and nothing else. What has arrived stays.`,
}

/** What a retry of this operation does; with `objects` only to so many that are shown. */
export function retryEffect(operation: string, objects: number | null = null): string {
  const { left, effect } = RETRIES[operation] ?? COPY
  return effect(objects === null ? left : objects === 1 ? 'it' : 'these')
}
