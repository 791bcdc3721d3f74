import {
  AgentErrorCode,
  COMMANDS,
  ROWS_PER_FRAME,
  type CommandFrame,
  type CommandOutput,
  type CommandPayload,
  type CommandResult,
  type CommandRow,
  type CommandRows,
  type CommandType,
} from '../protocol/index.ts';
import { AgentError } from './agent-error.ts';

/** What a handler gets beside its payload. */
export interface HandlerContext<T extends CommandType> {
  /** Aborted when the server cancels or the connection ends: nobody waits for the answer any more. */
  signal: AbortSignal;
  /** Aborted when the time is nearly up: stop reading, and answer with what there is. */
  timeUp: AbortSignal;
  /** Sends a row; resolves when the server has taken those before it, so that memory stays flat. */
  row: (row: CommandRow<T>) => Promise<void>;
}

export type Handlers = {
  [T in CommandType]?: (payload: CommandPayload<T>, context: HandlerContext<T>) => Promise<CommandOutput<T>>;
};

/** How results and rows travel; each resolves when the hub has acknowledged. */
export interface AnswerChannel {
  rows(frame: CommandRows): Promise<void>;
  result(result: CommandResult): Promise<void>;
}

const MAX_AT_ONCE = 8;
const FRAME_BYTES = 250_000;
/** The answer must be home before the server gives up. */
const TRAVEL_MS = 1000;

/** Runs what the server asks, several at once, each with an end: done, failed, cancelled or out of time. */
export class CommandRunner {
  readonly #handlers: Handlers;
  readonly #running = new Map<string, AbortController>();

  constructor(handlers: Handlers) {
    this.#handlers = handlers;
  }

  get capabilities(): string[] {
    return Object.keys(this.#handlers);
  }

  get running(): number {
    return this.#running.size;
  }

  async run(frame: CommandFrame, channel: AnswerChannel): Promise<void> {
    const startedAt = new Date().toISOString();
    const finish = (end: Pick<CommandResult, 'status' | 'output' | 'error'>) =>
      channel.result({
        id: frame.id,
        epoch: frame.epoch,
        startedAt,
        finishedAt: new Date().toISOString(),
        ...end,
      });
    const controller = new AbortController();
    try {
      if (this.#running.size >= MAX_AT_ONCE) {
        throw new AgentError('BUSY', 'The agent has as much to do as it takes on at once.');
      }
      this.#running.set(frame.id, controller);
      const output = await this.#answer(frame, controller.signal, channel);
      await finish(controller.signal.aborted ? CANCELLED : { status: 'succeeded', output });
    } catch (error) {
      await finish(controller.signal.aborted ? CANCELLED : { status: 'failed', error: describe(error) });
    } finally {
      this.#running.delete(frame.id);
      // Whatever the handler still holds on to ends with it.
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
    const { type } = frame;
    if (!isKnown(type) || this.#handlers[type] === undefined) {
      throw new AgentError(AgentErrorCode.capabilityMissing, `This agent cannot do "${type}".`);
    }
    const payload = COMMANDS[type].payload.safeParse(frame.payload);
    if (!payload.success) {
      const issue = payload.error.issues[0];
      throw new AgentError(
        AgentErrorCode.invalidPayload,
        `${issue?.path.join('.') || 'payload'}: ${issue?.message ?? 'not valid'}`,
      );
    }
    const rows = new RowStream(frame.id, channel);
    const timeUp = AbortSignal.timeout(Math.max(0, Date.parse(frame.deadline) - Date.now() - TRAVEL_MS));
    // The table pairs each type with the schema that has just parsed its payload.
    const handler = this.#handlers[type] as (
      payload: unknown,
      context: HandlerContext<CommandType>,
    ) => Promise<unknown>;
    const output = await handler(payload.data, {
      signal,
      timeUp,
      row: (row) => rows.add(row),
    });
    if (!signal.aborted) await rows.end();
    return output;
  }
}

const CANCELLED = { status: 'cancelled' } as const;

/** Gathers rows into frames of bounded count and size. */
class RowStream {
  readonly #id: string;
  readonly #channel: AnswerChannel;
  #rows: unknown[] = [];
  #bytes = 0;
  #seq = 0;
  #lastSent = Date.now();

  constructor(id: string, channel: AnswerChannel) {
    this.#id = id;
    this.#channel = channel;
  }

  async add(row: unknown): Promise<void> {
    this.#rows.push(row);
    this.#bytes += JSON.stringify(row).length;
    // A slow trickle is shown as it comes, a flood in full frames.
    const isWaitedFor = Date.now() - this.#lastSent > 250;
    if (this.#rows.length >= ROWS_PER_FRAME || this.#bytes >= FRAME_BYTES || isWaitedFor) {
      await this.#send(false);
    }
  }

  async end(): Promise<void> {
    if (this.#rows.length > 0 || this.#seq > 0) await this.#send(true);
  }

  async #send(done: boolean): Promise<void> {
    const rows = this.#rows;
    this.#rows = [];
    this.#bytes = 0;
    this.#lastSent = Date.now();
    await this.#channel.rows({ id: this.#id, seq: this.#seq++, rows, done });
  }
}

function describe(error: unknown): { code: string; message: string } {
  if (error instanceof AgentError) return { code: error.code, message: error.message.slice(0, 2000) };
  return {
    code: AgentErrorCode.failed,
    message: (error instanceof Error ? error.message : String(error)).slice(0, 2000),
  };
}

function isKnown(type: string): type is CommandType {
  return Object.hasOwn(COMMANDS, type);
}
