import { clock, type Timer } from '../../../clock.ts';
import { reconnectDelay, refusedDelay } from '../../core/server/back-off.ts';
import { type ServerAnswer, ServerCallError } from '../../core/server/server-call.ts';
import type { Tokens } from '../../core/enrollment/tokens.ts';
import { uploadVerdict } from '../../core/server/upload-verdict.ts';
import type { Spool } from './spool.ts';

export interface SenderOptions {
  /** A name for the records, for messages to people. */
  what: string;
  spool: Spool;
  tokens: Tokens;
  /** Throws `ServerCallError` where the server cannot be reached. */
  send: (records: readonly unknown[], token: string, signal: AbortSignal) => Promise<ServerAnswer>;
  warn: (message: string) => void;
  random: () => number;
}

/** Sends the batches of a spool one after another while it is allowed to, and tries again later after a failure. */
export class Sender {
  readonly #options: SenderOptions;
  readonly #stop = new AbortController();
  #mayWork = false;
  #isWorking: Promise<void> | undefined;
  #timer: Timer | undefined;
  #failures = 0;
  /** `wake` was called while the sender found the spool empty. */
  #isWoken = false;
  #isFolderBroken = false;

  constructor(options: SenderOptions) {
    this.#options = options;
  }

  /** To be allowed while the agent is connected: then the server can be reached, and the valid token is known. */
  allow(mayWork: boolean): void {
    this.#mayWork = mayWork;
    if (!mayWork) clock.clear(this.#timer);
    if (!mayWork) this.#timer = undefined;
    else this.wake();
  }

  /** Must be called when there is something to send. It does not shorten a wait that the server has asked for. */
  wake(): void {
    if (!this.#mayWork || this.#timer !== undefined) return;
    this.#isWoken = true;
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
        this.#isWoken = false;
        const batch = await this.#options.spool.oldest();
        if (batch === undefined && this.#isWoken) continue;
        if (batch === undefined) return;
        const waitMs = await this.#sendBatch(batch.records);
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
      // The folder of the spool cannot be read or changed.
      this.#failures += 1;
      const { what, warn } = this.#options;
      if (!this.#isFolderBroken) warn(`${what} cannot be sent: ${String(error)}.`);
      this.#isFolderBroken = true;
      this.#waitFor(refusedDelay(this.#failures, this.#options.random));
    }
  }

  /** Returns how long to wait before the next attempt; `undefined` where the batch is done with. */
  async #sendBatch(records: readonly unknown[]): Promise<number | undefined> {
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
      const verdict = uploadVerdict(answer, this.#failures, random);
      switch (verdict.do) {
        case 'done':
          await tokens.accepted(token);
          return undefined;
        case 'resend':
          warn(
            `${what}: the server refused ${verdict.without.size} of ${left.length} records (${answer.refusal ?? ''}).`,
          );
          left = left.filter((_, index) => !verdict.without.has(index));
          break;
        case 'give-up':
          warn(`${what}: the server refused ${left.length} records (${verdict.why}).`);
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
    this.#timer = clock.setTimeout(() => {
      this.#timer = undefined;
      this.wake();
    }, ms);
    this.#timer.unref();
  }
}
