import type { JobUpdate } from '../../protocol/index.ts';
import type { EventJson } from '../sockets/flow-controlled-client.ts';

/** An update that many clients are sent: it is serialized and encoded once. */
export class EncodedJob {
  readonly update: JobUpdate;
  #event: EventJson | undefined;

  constructor(update: JobUpdate) {
    this.update = update;
  }

  /** `['job:update', update]`. */
  get event(): EventJson {
    if (this.#event === undefined) {
      const text = `${JSON.stringify(this.update)}]`;
      this.#event = { start: '["job:update",', end: { text, bytes: Buffer.from(text) } };
    }
    return this.#event;
  }
}
