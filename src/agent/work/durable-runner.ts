import { setTimeout as delay } from 'node:timers/promises';
import { AgentErrorCode, type CommandFrame, type CommandResult } from '../../protocol/index.ts';
import { AgentError } from '../core/agent-error.ts';
import { type AnswerChannel, sendable } from '../core/connection/answer-channel.ts';
import { boundHandler, describeError } from './bound-handler.ts';
import type { ServerClock } from '../core/server/server-clock.ts';
import type { CommandStore, Entry } from './command-store.ts';
import { Running, type AnyDurableContext, type DurableHandlers } from './running.ts';
import { ResultOutbox } from './result-outbox.ts';

export interface DurableRunnerParts {
  store: CommandStore;
  handlers: DurableHandlers;
  clock: ServerClock;
  warn: (message: string) => void;
  /** For tests: how long until a store that cannot be written is tried again. */
  retryMs?: number;
  /** For tests: how long what waits for a result to be home waits at most. */
  afterResultMs?: number;
}

const AT_ONCE = 2;
/** Work whose result the hub does not have yet; more would be memory and disk without a bound. */
const MAX_OPEN = 200;
/** The largest script, were each of its characters to take six bytes, with room for its parameters. */
const PAYLOAD_MAX_BYTES = 2_000_000;
const RETRY_MS = 5000;
const STOP_MS = 3000;
/** What waits for a result to be home does not wait for ever. */
const AFTER_RESULT_MS = 10_000;

type End = Pick<CommandResult, 'status' | 'output' | 'error'>;

/**
 * Work that the server's ledger keeps: accepted when it is on the disk, begun once, two at a time in the order it
 * came, whatever becomes of the connection, and its result told until the hub has it.
 */
export class DurableRunner {
  readonly #parts: DurableRunnerParts;
  readonly #outbox: ResultOutbox;
  readonly #accepting = new Map<string, Promise<void>>();
  readonly #running = new Map<string, Running>();
  /** Being cancelled before they began. */
  readonly #withdrawn = new Set<string>();
  #channel: AnswerChannel | undefined;
  #opening: Promise<void> | undefined;
  #isOpen = false;
  #stopped = false;

  constructor(parts: DurableRunnerParts) {
    this.#parts = parts;
    this.#outbox = new ResultOutbox(parts.store, parts.warn);
  }

  get capabilities(): string[] {
    return Object.keys(this.#parts.handlers);
  }

  get running(): number {
    return this.#running.size;
  }

  /** Takes up what the last process left. A store that cannot be opened is tried again with the next frame. */
  async start(): Promise<void> {
    await this.#open().catch((error: unknown) => {
      this.#parts.warn(`The journal of commands could not be opened: ${String(error)}`);
    });
  }

  /** Ends what runs, with its processes; it is told as interrupted after the next start. */
  async stop(): Promise<void> {
    this.#stopped = true;
    const ending = [...this.#running.values()];
    for (const running of ending) running.cancel();
    await Promise.race([
      Promise.all(ending.map(({ over }) => over)),
      delay(STOP_MS, undefined, { ref: false }),
    ]);
    if (this.#isOpen) await this.#parts.store.close();
  }

  attach(channel: AnswerChannel): void {
    this.#channel = channel;
    for (const running of this.#running.values()) running.reportRunning();
    this.#outbox.attach(channel);
  }

  detach(): void {
    this.#channel = undefined;
    this.#outbox.detach();
  }

  /** Resolves when the work is kept. Rejects with `AgentError` when it is not, and then nothing comes of it. */
  async accept(frame: CommandFrame): Promise<void> {
    const { store } = this.#parts;
    await this.#open().catch(unavailable);
    // Nothing is awaited between this and the entry that the next frame with this id will find.
    while (this.#accepting.has(frame.id)) await this.#accepting.get(frame.id)?.catch(() => {});
    if (store.isDone(frame.id)) return;
    const known = store.get(frame.id);
    if (known !== undefined) {
      store.renew(known, frame.epoch);
      if (known.result !== undefined) this.#outbox.retry(known.id);
      return;
    }
    if (Buffer.byteLength(JSON.stringify(frame.payload ?? null)) > PAYLOAD_MAX_BYTES) {
      throw new AgentError(
        AgentErrorCode.invalidPayload,
        `The payload is larger than ${PAYLOAD_MAX_BYTES} bytes.`,
      );
    }
    if (this.#stopped || store.openCount + this.#accepting.size >= MAX_OPEN) {
      throw new AgentError(
        AgentErrorCode.busy,
        'The agent already has as much work as it takes on; send it again later.',
      );
    }
    const kept = store.accept(frame).catch(unavailable);
    this.#accepting.set(frame.id, kept);
    try {
      await kept;
    } finally {
      this.#accepting.delete(frame.id);
    }
    this.#begin();
  }

  /** Resolves when the cancellation will last. What is over, or was never kept here, stays as it is. */
  async cancel(id: string): Promise<void> {
    const { store } = this.#parts;
    while (this.#accepting.has(id)) await this.#accepting.get(id)?.catch(() => {});
    const running = this.#running.get(id);
    if (running !== undefined) return running.cancel();
    const entry = store.get(id);
    if (entry === undefined || entry.result !== undefined || this.#withdrawn.has(id)) return;
    this.#withdrawn.add(id);
    try {
      await store.finish(this.#result(entry, { status: 'cancelled' })).catch(unavailable);
    } finally {
      this.#withdrawn.delete(id);
      this.#begin();
    }
    this.#outbox.wake();
  }

  #open(): Promise<void> {
    this.#opening ??= this.#takeUp().catch((error: unknown) => {
      this.#opening = undefined;
      throw error;
    });
    return this.#opening;
  }

  async #takeUp(): Promise<void> {
    const { store } = this.#parts;
    const { interrupted } = await store.open();
    this.#isOpen = true;
    const error = {
      code: AgentErrorCode.interrupted,
      message: 'The agent or its machine ended while the work ran. It is not begun again.',
    };
    for (const entry of interrupted) await this.#finish(entry, { status: 'failed', error });
    await store.compactIfLarge().catch((error: unknown) => {
      this.#parts.warn(`The journal of commands could not be compacted: ${String(error)}`);
    });
    this.#outbox.wake();
    this.#begin();
  }

  #begin(): void {
    const { store, clock } = this.#parts;
    for (const entry of store.entries()) {
      if (this.#stopped || this.#running.size >= AT_ONCE) return;
      const { id, result } = entry;
      if (result !== undefined || this.#running.has(id) || this.#withdrawn.has(id)) continue;
      const running = new Running(id, () => this.#channel);
      this.#running.set(id, running);
      running.over = this.#run(entry, running, clock).finally(() => {
        this.#running.delete(id);
        this.#begin();
      });
    }
  }

  async #run(entry: Entry, running: Running, clock: ServerClock): Promise<void> {
    if (!(await this.#markStarted(entry, running, clock))) {
      if (!this.#stopped) await this.#finish(entry, { status: 'cancelled' });
      return;
    }
    running.reportRunning();
    const end = await this.#perform(entry, running);
    // What the stop has cut off is told as interrupted after the next start.
    if (this.#stopped && end.status !== 'succeeded') return;
    const isHome = this.#outbox.delivered(entry.id);
    await this.#finish(entry, end);
    if (end.status !== 'succeeded') return;
    for (const act of running.afterwards) void this.#afterResult(isHome, act);
  }

  /** Nothing begins before it is written that it does. `false` when it was cancelled meanwhile. */
  async #markStarted(entry: Entry, running: Running, clock: ServerClock): Promise<boolean> {
    for (;;) {
      if (running.signal.aborted) return false;
      try {
        await this.#parts.store.start(entry.id, clock.timestamp());
        return !running.signal.aborted;
      } catch (error) {
        this.#parts.warn(`Command ${entry.id} waits, for the journal could not be written: ${String(error)}`);
        const { retryMs = RETRY_MS } = this.#parts;
        await delay(retryMs, undefined, { signal: running.signal }).catch(() => {});
      }
    }
  }

  async #perform(entry: Entry, running: Running): Promise<End> {
    try {
      const handle = boundHandler<AnyDurableContext>(this.#parts.handlers, entry);
      return { status: 'succeeded', output: await handle(running.context()) };
    } catch (error) {
      const output =
        error instanceof AgentError && error.output !== undefined ? { output: error.output } : {};
      if (running.signal.aborted) return { status: 'cancelled', ...output };
      return { status: 'failed', error: describeError(error), ...output };
    }
  }

  async #finish(entry: Entry, end: End): Promise<void> {
    const { store, warn } = this.#parts;
    const result = this.#result(entry, end);
    try {
      await store.finish(result);
    } catch (error) {
      warn(`The result of command ${entry.id} could not be written: ${String(error)}`);
      store.finishUnwritten(result);
    }
    this.#outbox.wake();
  }

  #result({ id, epoch, startedAt }: Entry, end: End): CommandResult {
    const finishedAt = this.#parts.clock.timestamp();
    const result = { id, epoch, startedAt: startedAt ?? finishedAt, finishedAt, ...end };
    // Before it is written: what cannot be sent is not kept either.
    return sendable(result);
  }

  async #afterResult(isHome: Promise<void>, act: () => Promise<void>): Promise<void> {
    const { afterResultMs = AFTER_RESULT_MS } = this.#parts;
    await Promise.race([isHome, delay(afterResultMs, undefined, { ref: false })]);
    if (this.#stopped) return;
    await act().catch((error: unknown) => this.#parts.warn(String(error)));
  }
}

function unavailable(error: unknown): never {
  const reason = error instanceof Error ? error.message : String(error);
  throw new AgentError('STORE_UNAVAILABLE', `The agent cannot keep work at the moment: ${reason}`);
}
