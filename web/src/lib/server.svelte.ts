/** What the server says of itself, and of the holder of the token. */

import { api, content } from './api'
import type { components } from '../api/schema'

export type Server = components['schemas']['ServerOut']

class ServerFacts {
  facts = $state.raw<Server | null>(null)

  /** False for a token that only reads. The server decides; this keeps buttons from asking in vain. */
  get mayAct(): boolean {
    return this.facts?.client.role !== 'read'
  }

  async load(): Promise<void> {
    this.facts = await content(api.GET('/api/v1/server'))
  }
}

export const server = new ServerFacts()
