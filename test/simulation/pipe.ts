import type { Process, World } from './world.ts';

const AGAIN_MS = 250;

/**
 * One direction of a connection, as TCP has it: in order, each message once, later while the way is silent, and nothing
 * any more once it is closed.
 */
export class Pipe {
  readonly #world: World;
  readonly #receiver: Process;
  readonly #isSilent: () => boolean;
  readonly #latency: () => number;
  #lastArrival = 0;
  #waiting: (() => void)[] = [];
  #isClosed = false;

  constructor(parts: { world: World; receiver: Process; isSilent: () => boolean; latency: () => number }) {
    this.#world = parts.world;
    this.#receiver = parts.receiver;
    this.#isSilent = parts.isSilent;
    this.#latency = parts.latency;
  }

  /** @param arrive  runs in the process of the receiver */
  send(arrive: () => void): void {
    if (this.#isClosed) return;
    const { now } = this.#world;
    this.#lastArrival = Math.max(this.#lastArrival, now + this.#latency());
    this.#world.after(this.#lastArrival - now, this.#receiver, () => this.#arrived(arrive));
  }

  close(): void {
    this.#isClosed = true;
    this.#waiting = [];
  }

  #arrived(arrive: () => void): void {
    if (this.#isClosed) return;
    if (this.#waiting.length === 0 && !this.#isSilent()) return arrive();
    if (this.#waiting.push(arrive) === 1) this.#tryAgain();
  }

  #tryAgain(): void {
    this.#world.after(AGAIN_MS, this.#receiver, () => {
      if (this.#isClosed) return;
      if (this.#isSilent()) return this.#tryAgain();
      for (const arrive of this.#waiting.splice(0)) if (!this.#isClosed) arrive();
    });
  }
}
