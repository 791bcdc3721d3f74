import { clock, type Timer } from '../../clock.ts';
import { AgentErrorCode, type CommandSecrets, ROWS_PER_FRAME } from '../../protocol/index.ts';
import { AgentError } from '../core/agent-error.ts';
import type { AnswerChannel } from '../core/answer-channel.ts';
import type { AnyDurableContext, Progress } from './handler.ts';

const PROGRESS_EVERY_MS = 1000;
const SECRET_MISSING = 'The command refers to a secret that was not sent.';

/** One durable command while it runs, over any number of connections. */
export class RunningCommand {
  readonly id: string;
  /** How long the agent waits for it when it stops. */
  readonly stopMs: number;
  readonly afterResult: (() => Promise<void>)[] = [];
  /** Resolves when the start is on disk, or when the command was cancelled before. */
  started: Promise<void> = Promise.resolve();
  over: Promise<void> = Promise.resolve();
  readonly #channel: () => AnswerChannel | undefined;
  readonly #secrets: CommandSecrets;
  readonly #controller = new AbortController();
  readonly #reports = throttled<Progress>(PROGRESS_EVERY_MS, (progress) => this.#sendProgress(progress));
  #lastProgress: Progress = { phase: 'running' };
  #rowsSeq = 0;
  #progressSeq = 0;

  constructor(parts: {
    id: string;
    stopMs: number;
    channel: () => AnswerChannel | undefined;
    secrets: CommandSecrets;
  }) {
    this.id = parts.id;
    this.stopMs = parts.stopMs;
    this.#channel = parts.channel;
    this.#secrets = parts.secrets;
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  cancel(reason?: Error): void {
    this.#controller.abort(reason);
  }

  /** Reports at once that the command runs, and over a new connection its progress. */
  reportRunning(): void {
    this.#reports.push(this.#lastProgress);
    this.#reports.flush();
  }

  /** Sends the last report, which must precede the result. */
  flushProgress(): void {
    this.#reports.flush();
  }

  context(): AnyDurableContext {
    return {
      signal: this.signal,
      rows: (rows) => this.#sendRows(rows),
      secret: ({ secretRef }) => {
        const value = this.#secrets[secretRef];
        if (value === undefined) throw new AgentError(AgentErrorCode.secretUnavailable, SECRET_MISSING);
        return value;
      },
      progress: (progress) => {
        this.#lastProgress = progress;
        this.#reports.push(progress);
      },
      afterResult: (act) => void this.afterResult.push(act),
    };
  }

  async #sendProgress(progress: Progress): Promise<void> {
    await this.#channel()?.progress({ ...progress, id: this.id, seq: this.#progressSeq++ });
  }

  async #sendRows(rows: readonly unknown[]): Promise<void> {
    const channel = this.#channel();
    if (channel === undefined) return;
    const frame = { id: this.id, seq: this.#rowsSeq++, rows: rows.slice(0, ROWS_PER_FRAME), done: false };
    // The result contains the whole output. Rows are for dashboards that watch now.
    await channel.rows(frame).catch(() => {});
  }
}

/** The function to call with each new value, and one that sends the pending value at once. */
interface Throttled<T> {
  push(value: T): void;
  /** For the last value, which must not be lost: it waits neither for the interval nor for the previous value. */
  flush(): void;
}

/** Sends the latest value, at most once in `everyMs`, and only after the previous one has arrived. */
export function throttled<T>(everyMs: number, send: (value: T) => Promise<void>): Throttled<T> {
  let pending: [T] | undefined;
  let timer: Timer | undefined;
  let lastSentAt = -Infinity;
  let sending = 0;

  const sendPending = async (): Promise<void> => {
    clock.clear(timer);
    timer = undefined;
    if (pending === undefined) return;
    const [value] = pending;
    pending = undefined;
    lastSentAt = clock.monotonic();
    sending += 1;
    // A lost value is replaced by the next one.
    await send(value).catch(() => {});
    sending -= 1;
    sendWhenDue();
  };
  const sendWhenDue = (): void => {
    if (pending === undefined || timer !== undefined || sending > 0) return;
    const waitMs = lastSentAt + everyMs - clock.monotonic();
    if (waitMs <= 0) void sendPending();
    else timer = clock.setTimeout(() => void sendPending(), waitMs);
  };
  return {
    push(value) {
      pending = [value];
      sendWhenDue();
    },
    flush: () => void sendPending(),
  };
}
