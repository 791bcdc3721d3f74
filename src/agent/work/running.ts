import {
  ROWS_PER_FRAME,
  type CommandOutput,
  type CommandPayload,
  type CommandProgress,
  type CommandRow,
  type DurableCommandType,
} from '../../protocol/index.ts';
import type { AnswerChannel } from '../core/connection/answer-channel.ts';

/** What a handler of durable work gets beside its payload. */
export interface DurableContext<T extends DurableCommandType> {
  /** Aborted when the work is cancelled or the agent ends: end what was started, and reject. */
  signal: AbortSignal;
  /**
   * Shows rows, one frame at most, to whoever watches; without a connection they are dropped. Resolves when the hub
   * has them or will not get them.
   */
  rows: (rows: readonly CommandRow<T>[]) => Promise<void>;
  progress: (progress: Progress) => void;
  /** Done once the hub has the result, or has not taken it in time. */
  afterResult: (act: () => Promise<void>) => void;
}

type Progress = Omit<CommandProgress, 'id' | 'seq'>;
export type AnyDurableContext = DurableContext<DurableCommandType>;

export type DurableHandlers = {
  [T in DurableCommandType]?: (
    payload: CommandPayload<T>,
    context: DurableContext<T>,
  ) => Promise<CommandOutput<T>>;
};

/** One piece of work while it runs, over however many connections. */
export class Running {
  readonly #id: string;
  readonly #channel: () => AnswerChannel | undefined;
  readonly #controller = new AbortController();
  readonly afterwards: (() => Promise<void>)[] = [];
  over: Promise<void> = Promise.resolve();
  #rowsSeq = 0;
  #progressSeq = 0;
  #lastProgress: Progress | undefined;
  #hasNews = false;
  #isReporting = false;

  constructor(id: string, channel: () => AnswerChannel | undefined) {
    this.#id = id;
    this.#channel = channel;
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  cancel(): void {
    this.#controller.abort();
  }

  /** The hub learns that it has begun, and after a new connection how far it is. */
  reportRunning(): void {
    this.#report(this.#lastProgress ?? { phase: 'running' });
  }

  context(): AnyDurableContext {
    return {
      signal: this.signal,
      rows: (rows) => this.#sendRows(rows),
      progress: (progress) => this.#report(progress),
      afterResult: (act) => void this.afterwards.push(act),
    };
  }

  #report(progress: Progress): void {
    this.#lastProgress = progress;
    this.#hasNews = true;
    if (!this.#isReporting) void this.#sendNews(progress);
  }

  /** One report at a time: of those that come while the hub takes one, the latest. */
  async #sendNews(progress: Progress): Promise<void> {
    const channel = this.#channel();
    if (channel === undefined) return;
    this.#isReporting = true;
    this.#hasNews = false;
    // Where it is not taken, the next report, or the result, says more.
    await channel.progress({ ...progress, id: this.#id, seq: this.#progressSeq++ }).catch(() => {});
    this.#isReporting = false;
    if (this.#hasNews) await this.#sendNews(this.#lastProgress ?? progress);
  }

  async #sendRows(rows: readonly unknown[]): Promise<void> {
    const channel = this.#channel();
    if (channel === undefined) return;
    const frame = { id: this.#id, seq: this.#rowsSeq++, rows: rows.slice(0, ROWS_PER_FRAME), done: false };
    // The result says it all; rows are for those who watch now.
    await channel.rows(frame).catch(() => {});
  }
}
