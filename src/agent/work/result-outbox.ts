import type { AnswerChannel } from '../core/connection/answer-channel.ts';
import type { CommandStore } from './command-store.ts';

/** Sends results one after another until the hub has acknowledged them, over however many connections that takes. */
export class ResultOutbox {
  readonly #store: CommandStore;
  readonly #warn: (message: string) => void;
  #channel: AnswerChannel | undefined;
  /** Results that the hub has refused over this connection. They are sent again over the next one. */
  #refused = new Set<string>();
  #sending: AnswerChannel | undefined;
  readonly #awaited = new Map<string, () => void>();

  constructor(store: CommandStore, warn: (message: string) => void) {
    this.#store = store;
    this.#warn = warn;
  }

  attach(channel: AnswerChannel): void {
    this.#channel = channel;
    this.#refused = new Set();
    this.wake();
  }

  detach(): void {
    this.#channel = undefined;
  }

  /** Must be called when there may be a result to send. */
  wake(): void {
    const channel = this.#channel;
    if (channel === undefined || this.#sending === channel) return;
    this.#sending = channel;
    void this.#sendAll(channel).finally(() => {
      if (this.#sending === channel) this.#sending = undefined;
    });
  }

  /** The hub has sent the command again, so a refused result is sent again as well. */
  retry(id: string): void {
    this.#refused.delete(id);
    this.wake();
  }

  /** Resolves when the hub has acknowledged this result. */
  delivered(id: string): Promise<void> {
    return new Promise((resolve) => {
      this.#awaited.set(id, resolve);
    });
  }

  async #sendAll(channel: AnswerChannel): Promise<void> {
    for (;;) {
      const result = this.#store
        .entries()
        .find((entry) => entry.result !== undefined && !this.#refused.has(entry.id))?.result;
      if (result === undefined || this.#channel !== channel) return;
      try {
        await channel.result(result);
      } catch (error) {
        if (this.#channel !== channel) return;
        this.#refused.add(result.id);
        this.#warn(`The hub did not accept the result of command ${result.id}: ${String(error)}`);
        continue;
      }
      this.#awaited.get(result.id)?.();
      this.#awaited.delete(result.id);
      await this.#store.done(result.id).catch((error: unknown) => {
        this.#warn(`The journal of commands could not be written: ${String(error)}`);
      });
    }
  }
}
