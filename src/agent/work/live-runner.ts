import { clock } from '../../clock.ts';
import {
  AgentErrorCode,
  ROWS_PER_FRAME,
  type CommandFrame,
  type CommandOutput,
  type CommandPayload,
  type CommandResult,
  type CommandRow,
  type CommandType,
  type DurableCommandType,
} from '../../protocol/index.ts';
import { AgentError, describeError } from '../core/agent-error.ts';
import type { AnswerChannel } from '../core/answer-channel.ts';
import type { ServerClock } from '../core/server-clock.ts';
import { boundHandler } from './handler.ts';

type LiveCommandType = Exclude<CommandType, DurableCommandType>;

/** The context of a live query's handler, besides its payload. */
export interface HandlerContext<T extends LiveCommandType> {
  /** Aborted when the server cancels the query or the connection ends; then no result is needed. */
  signal: AbortSignal;
  /** Aborted shortly before the deadline: the handler then stops reading and returns what it has. */
  timeUp: AbortSignal;
  /** Sends a row. Resolves when the server has accepted the rows before it, so that memory stays bounded. */
  row: (row: CommandRow<T>) => Promise<void>;
}

/** The context of a terminal, which also is sent messages. */
export interface TerminalContext extends HandlerContext<'terminal.open'> {
  /** The id of the query, which is that of the viewer. */
  id: string;
  /** Sends a row at once, before the server has accepted those before it. Resolves when it has accepted this one. */
  sendNow: (row: CommandRow<'terminal.open'>) => Promise<void>;
}

export type LiveHandlers = {
  [T in LiveCommandType]?: (
    payload: CommandPayload<T>,
    context: T extends 'terminal.open' ? TerminalContext : HandlerContext<T>,
  ) => Promise<CommandOutput<T>>;
};

const MAX_AT_ONCE = 8;
const FRAME_BYTES = 250_000;
/** The result must arrive before the server gives up. */
const TRAVEL_MS = 1000;
/** Each new connection begins with a heartbeat, whose acknowledgement holds the server's time. */
const CLOCK_KNOWN_MS = 5000;
const TIMER_MAX_MS = 2 ** 31 - 1;

/** Runs the live queries of the server, several at once. Each ends with a result: succeeded, failed or cancelled. */
export class LiveRunner {
  readonly #handlers: LiveHandlers;
  readonly #serverClock: ServerClock;
  readonly #running = new Map<string, AbortController>();

  constructor(handlers: LiveHandlers, serverClock: ServerClock) {
    this.#handlers = handlers;
    this.#serverClock = serverClock;
  }

  get capabilities(): string[] {
    return Object.keys(this.#handlers);
  }

  get running(): number {
    return this.#running.size;
  }

  async run(frame: CommandFrame, channel: AnswerChannel): Promise<void> {
    const startedAt = this.#serverClock.timestamp();
    const finish = (end: Pick<CommandResult, 'status' | 'output' | 'error'>) =>
      channel.result({
        id: frame.id,
        epoch: frame.epoch,
        ...this.#serverClock.spanFrom(startedAt),
        ...end,
      });
    const controller = new AbortController();
    try {
      if (this.#running.size >= MAX_AT_ONCE) {
        throw new AgentError(
          AgentErrorCode.busy,
          'The agent already runs as many queries as it can at once. Try again later.',
        );
      }
      this.#running.set(frame.id, controller);
      const output = await this.#answer(frame, controller.signal, channel);
      await finish(controller.signal.aborted ? CANCELLED : { status: 'succeeded', output });
    } catch (error) {
      await finish(controller.signal.aborted ? CANCELLED : { status: 'failed', error: describeError(error) });
    } finally {
      this.#running.delete(frame.id);
      // Ends everything that the handler has left running.
      controller.abort();
    }
  }

  cancel(id: string): void {
    this.#running.get(id)?.abort();
  }

  cancelAll(): void {
    for (const controller of this.#running.values()) controller.abort();
  }

  async #answer(frame: CommandFrame, signal: AbortSignal, channel: AnswerChannel): Promise<unknown> {
    const handle = boundHandler<HandlerContext<LiveCommandType> & TerminalContext>(this.#handlers, frame);
    const rows = new RowStream(frame.id, channel);
    const output = await handle({
      id: frame.id,
      signal,
      timeUp: this.#timeUp(frame, signal),
      row: (row) => rows.add(row),
      sendNow: (row) => rows.sendNow(row),
    });
    if (!signal.aborted) await rows.end();
    return output;
  }

  /** The deadline of a frame is in the server's time. */
  #timeUp(frame: CommandFrame, over: AbortSignal): AbortSignal {
    const timeUp = new AbortController();
    const arm = async () => {
      await this.#serverClock.known(CLOCK_KNOWN_MS);
      if (over.aborted) return;
      const leftMs = Date.parse(frame.deadline) - this.#serverClock.now() - TRAVEL_MS;
      const timer = clock.setTimeout(() => timeUp.abort(), Math.min(Math.max(0, leftMs), TIMER_MAX_MS));
      over.addEventListener('abort', () => clock.clear(timer), { once: true });
    };
    void arm();
    return timeUp.signal;
  }
}

const CANCELLED = { status: 'cancelled' } as const;

/** Collects rows into frames with limits on their number and size. */
class RowStream {
  readonly #id: string;
  readonly #channel: AnswerChannel;
  #rows: unknown[] = [];
  #bytes = 0;
  #seq = 0;
  #lastSent = clock.monotonic();

  constructor(id: string, channel: AnswerChannel) {
    this.#id = id;
    this.#channel = channel;
  }

  async add(row: unknown): Promise<void> {
    this.#rows.push(row);
    this.#bytes += JSON.stringify(row).length;
    // Slow rows are sent at once, a flood of rows in full frames.
    const isSlow = clock.monotonic() - this.#lastSent > 250;
    if (this.#rows.length >= ROWS_PER_FRAME || this.#bytes >= FRAME_BYTES || isSlow) {
      await this.#send(false);
    }
  }

  async sendNow(row: unknown): Promise<void> {
    await this.#channel.rows({ id: this.#id, seq: this.#seq++, rows: [row], done: false });
  }

  async end(): Promise<void> {
    if (this.#rows.length > 0 || this.#seq > 0) await this.#send(true);
  }

  async #send(done: boolean): Promise<void> {
    const rows = this.#rows;
    this.#rows = [];
    this.#bytes = 0;
    this.#lastSent = clock.monotonic();
    await this.#channel.rows({ id: this.#id, seq: this.#seq++, rows, done });
  }
}
