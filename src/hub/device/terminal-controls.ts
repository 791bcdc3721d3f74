import type { TerminalControl } from '../../protocol/index.ts';
import type { DeviceLink } from './actor-messages.ts';

/** How many messages to the terminals of one device are on their way. */
const IN_FLIGHT = 8;

/**
 * Sends what viewers send to the terminals of one device. While an agent does not acknowledge, the messages of each viewer
 * are merged into one: a fast typist on a slow line must not reach the number of unacknowledged messages at which an agent
 * is disconnected.
 */
export class TerminalControls {
  readonly #link: Pick<DeviceLink, 'sendTerminalControl'>;
  readonly #waiting = new Map<string, TerminalControl>();
  #inFlight = 0;

  constructor(link: Pick<DeviceLink, 'sendTerminalControl'>) {
    this.#link = link;
  }

  send(control: TerminalControl): void {
    const waiting = this.#waiting.get(control.id);
    this.#waiting.set(control.id, waiting === undefined ? control : merged(waiting, control));
    this.#sendWaiting();
  }

  #sendWaiting(): void {
    for (const [id, control] of this.#waiting) {
      if (this.#inFlight >= IN_FLIGHT) return;
      this.#waiting.delete(id);
      this.#inFlight += 1;
      this.#link.sendTerminalControl(control, () => {
        this.#inFlight -= 1;
        this.#sendWaiting();
      });
    }
  }
}

/** Viewers keep to the window of input, so the merged input fits into one message. */
function merged(first: TerminalControl, second: TerminalControl): TerminalControl {
  const input = `${first.input ?? ''}${second.input ?? ''}`;
  return { ...first, ...second, ...(input === '' ? {} : { input }) };
}
