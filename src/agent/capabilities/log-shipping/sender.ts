import { reconnectDelay, refusedDelay } from '../../core/server/back-off.ts';
import { type ServerAnswer, ServerCallError } from '../../core/server/server-call.ts';
import type { Tokens } from '../../core/enrollment/tokens.ts';
import { batchVerdict } from '../../core/server/upload-verdict.ts';
import type { Spool } from './spool.ts';

export interface SenderOptions {
  /** For people: what is sent. */
  what: string;
  spool: Spool;
  tokens: Tokens;
  /** Throws `ServerCallError` where the server is not reached. */
  send: (records: readonly unknown[], token: string, signal: AbortSignal) => Promise<ServerAnswer>;
  warn: (message: string) => void;
  random: () => number;
}

/** Sends what waits in a spool, one batch after the other, while it may; and comes back later where that failed. */
export class Sender {
  readonly #options: SenderOptions;
  readonly #stop = new AbortController();
  #mayWork = false;
  #isWorking: Promise<void> | undefined;
  #timer: NodeJS.Timeout | undefined;
  #failures = 0;
  /** Something came while it was finding that there is nothing more. */
  #isAsked = false;
  #isFolderBroken = false;

  constructor(options: SenderOptions) {
    this.#options = options;
  }

  /** While the agent is connected: then the server is there, and which token it takes is settled. */
  allow(mayWork: boolean): void {
    this.#mayWork = mayWork;
    if (!mayWork) clearTimeout(this.#timer);
    if (!mayWork) this.#timer = undefined;
    else this.wake();
  }

  /** There is something to send. A wait that the server asked for goes on. */
  wake(): void {
    if (!this.#mayWork || this.#timer !== undefined) return;
    this.#isAsked = true;
    this.#isWorking ??= this.#work().finally(() => {
      this.#isWorking = undefined;
    });
  }

  async stop(): Promise<void> {
    this.allow(false);
    this.#stop.abort();
    await this.#isWorking;
  }

  async #work(): Promise<void> {
    try {
      while (this.#mayWork) {
        this.#isAsked = false;
        const batch = await this.#options.spool.oldest();
        if (batch === undefined && this.#isAsked) continue;
        if (batch === undefined) return;
        const waitMs = await this.#ship(batch.records);
        if (waitMs === undefined) {
          this.#failures = 0;
          await this.#options.spool.remove(batch);
          this.#isFolderBroken = false;
        } else {
          this.#failures += 1;
          this.#waitFor(waitMs);
          return;
        }
      }
    } catch (error) {
      // The spool's folder cannot be read or changed.
      this.#failures += 1;
      const { what, warn } = this.#options;
      if (!this.#isFolderBroken) warn(`${what} cannot be sent: ${String(error)}.`);
      this.#isFolderBroken = true;
      this.#waitFor(refusedDelay(this.#failures, this.#options.random));
    }
  }

  /** Answers how long to wait before it is tried again; `undefined` where the batch is settled. */
  async #ship(records: readonly unknown[]): Promise<number | undefined> {
    const { what, tokens, send, warn, random } = this.#options;
    let left = records;
    while (left.length > 0) {
      const token = await tokens.current();
      let answer: ServerAnswer;
      try {
        answer = await send(left, token, this.#stop.signal);
      } catch (error) {
        if (error instanceof ServerCallError) return reconnectDelay(this.#failures, random);
        throw error;
      }
      const verdict = batchVerdict(answer, this.#failures, random);
      switch (verdict.do) {
        case 'done':
          await tokens.accepted(token);
          return undefined;
        case 'resend':
          warn(
            `${what}: the server refused ${verdict.without.size} of ${left.length} (${answer.refusal ?? ''}).`,
          );
          left = left.filter((_, place) => !verdict.without.has(place));
          break;
        case 'give-up':
          warn(`${what}: the server refused ${left.length} (${verdict.why}).`);
          return undefined;
        case 'other-token':
          return tokens.refused(token) ? reconnectDelay(1, random) : refusedDelay(this.#failures, random);
        case 'wait':
          return verdict.ms;
        default:
          return verdict satisfies never;
      }
    }
    return undefined;
  }

  #waitFor(ms: number): void {
    if (!this.#mayWork) return;
    this.#timer = setTimeout(() => {
      this.#timer = undefined;
      this.wake();
    }, ms);
    this.#timer.unref();
  }
}
