import { AgentErrorCode, type CommandSecrets, ROWS_PER_FRAME } from '../../protocol/index.ts';
import { AgentError } from '../core/agent-error.ts';
import type { AnswerChannel } from '../core/connection/answer-channel.ts';
import type { AnyDurableContext, Progress } from './durable-handler.ts';
import { throttled } from './throttle.ts';

const PROGRESS_EVERY_MS = 1000;
const SECRET_MISSING = 'The command came without a secret that it refers to.';

/** One durable command while it runs, over however many connections that takes. */
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

  /** Reports at once that the command runs, and over a new connection how far it is. */
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
    // The result holds the whole output. Rows are for the people who watch now.
    await channel.rows(frame).catch(() => {});
  }
}
