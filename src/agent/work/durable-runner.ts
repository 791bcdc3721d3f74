import { clock } from '../../clock.ts';
import {
  AgentErrorCode,
  LANE_LIMITS,
  laneOf,
  LANES_CAPABILITY,
  type CommandFrame,
  type CommandSecrets,
  type CommandResult,
  type Lane,
  secretRefsIn,
  SECRETS_CAPABILITY,
} from '../../protocol/index.ts';
import { AgentError, describeError } from '../core/agent-error.ts';
import { type AnswerChannel, sendable } from '../core/answer-channel.ts';
import type { ServerClock } from '../core/server-clock.ts';
import { type CommandStore, type Entry, ResultOutbox } from './command-store.ts';
import {
  boundHandler,
  AGENT_STOPS,
  stopMsOf,
  type AnyDurableContext,
  type DurableHandlers,
} from './handler.ts';
import { RunningCommand } from './running-command.ts';

export interface DurableRunnerParts {
  store: CommandStore;
  handlers: DurableHandlers;
  serverClock: ServerClock;
  warn: (message: string) => void;
  /** For tests: how long the runner waits before it writes again to a store that could not be written. */
  retryMs?: number;
  /** For tests: how long the actions after a result wait at most for its delivery. */
  afterResultMs?: number;
  /** For tests: another assignment of command types to lanes. */
  laneOf?: (type: string) => Lane;
}

/** How many commands of each lane the agent holds until the hub has their results: this bounds memory and disk. */
const OPEN_LIMITS: Readonly<Record<Lane, number>> = { interactive: 20, work: 200, bulk: 20 };
/** Room for the largest script, if each of its characters takes six bytes, and its parameters. */
const PAYLOAD_MAX_BYTES = 2_000_000;
const RETRY_MS = 5000;
const AFTER_RESULT_MS = 10_000;

type End = Pick<CommandResult, 'status' | 'output' | 'error'>;

/**
 * Runs the commands of the server's ledger. A command is accepted once it is on disk, and is started once, in the
 * order of its lane, with or without a connection. Its result is sent until the hub has acknowledged it.
 */
export class DurableRunner {
  readonly #parts: DurableRunnerParts;
  readonly #outbox: ResultOutbox;
  readonly #accepting = new Map<string, { type: string; kept: Promise<void> }>();
  readonly #running = new Map<string, RunningCommand>();
  /** The secrets of commands that have not started. They are stored nowhere else on this machine. */
  readonly #secrets = new Map<string, CommandSecrets>();
  /** Commands that are being cancelled before they have started. */
  readonly #withdrawn = new Set<string>();
  #channel: AnswerChannel | undefined;
  #opening: Promise<void> | undefined;
  #isOpen = false;
  #stopped = false;
  #isPaused = false;
  #whenIdle: (() => void)[] = [];

  constructor(parts: DurableRunnerParts) {
    this.#parts = parts;
    this.#outbox = new ResultOutbox(parts.store, parts.warn);
  }

  get capabilities(): string[] {
    return [...Object.keys(this.#parts.handlers), LANES_CAPABILITY, SECRETS_CAPABILITY];
  }

  get running(): number {
    return this.#running.size;
  }

  /**
   * From now on no command is accepted: the server keeps commands that it sends, and sends them again later. Commands
   * that were accepted before still run.
   */
  pause(): void {
    this.#isPaused = true;
  }

  resume(): void {
    this.#isPaused = false;
  }

  /** Whether nothing runs and nothing waits to be started. */
  get isIdle(): boolean {
    const unfinished = this.#parts.store.entries().filter(({ result }) => result === undefined);
    return this.#running.size + this.#accepting.size + unfinished.length === 0;
  }

  /** Resolves when nothing runs and nothing waits, even if more commands are accepted right afterwards. */
  async idle(): Promise<void> {
    if (!this.isIdle) await new Promise<void>((resolve) => this.#whenIdle.push(resolve));
  }

  /** Resumes the work of the last process. If the store cannot be opened, the next frame tries again. */
  async start(): Promise<void> {
    await this.#open().catch((error: unknown) => {
      this.#parts.warn(`The journal of commands could not be opened: ${String(error)}`);
    });
  }

  /** Rejects if the journal cannot be opened and written, so that no command would be accepted. */
  async check(): Promise<void> {
    await this.#open();
    await this.#parts.store.check();
  }

  /**
   * Ends the running commands and their processes, and waits for each as long as its handler has declared. Commands
   * that have not ended by then are reported as interrupted after the next start.
   */
  async stop(): Promise<void> {
    this.#stopped = true;
    const ending = [...this.#running.values()];
    for (const command of ending) command.cancel(AGENT_STOPS);
    await Promise.all(ending.map(async ({ over, stopMs }) => settledWithin(over, stopMs)));
    if (this.#isOpen) await this.#parts.store.close();
  }

  attach(channel: AnswerChannel): void {
    this.#channel = channel;
    for (const command of this.#running.values()) command.reportRunning();
    this.#outbox.attach(channel);
  }

  detach(): void {
    this.#channel = undefined;
    this.#outbox.detach();
  }

  /** Resolves when the command is on disk. If it rejects (with `AgentError`), the command is never started. */
  async accept(frame: CommandFrame): Promise<void> {
    const { store } = this.#parts;
    await this.#open().catch(unavailable);
    while (this.#accepting.has(frame.id)) await this.#written(frame.id);
    // No await between the check above and the entry in `#accepting`, so that another frame with this id finds it.
    if (store.isDone(frame.id)) return;
    const hasSecrets = secretRefsIn(frame.payload).length > 0;
    const known = store.get(frame.id);
    if (known !== undefined) {
      store.renew(known, frame.epoch);
      if (known.result !== undefined) this.#outbox.retry(known.id);
      if (hasSecrets) await this.#assertStarted(known.id);
      return;
    }
    if (Buffer.byteLength(JSON.stringify(frame.payload ?? null)) > PAYLOAD_MAX_BYTES) {
      throw new AgentError(
        AgentErrorCode.invalidPayload,
        `The payload is larger than ${PAYLOAD_MAX_BYTES} bytes.`,
      );
    }
    if (this.#stopped || this.#isPaused || this.#isFull(this.#laneOf(frame.type))) {
      throw new AgentError(
        AgentErrorCode.busy,
        'The agent holds as many commands as it can; send this one again later.',
      );
    }
    if (hasSecrets && !this.#mayStartNow(frame.type)) throw notStartable();
    const kept = store.accept(frame).catch(unavailable);
    this.#accepting.set(frame.id, { type: frame.type, kept });
    try {
      await kept;
    } finally {
      this.#accepting.delete(frame.id);
    }
    if (frame.secrets !== undefined) this.#secrets.set(frame.id, frame.secrets);
    this.#startNext();
    // The receipt promises that the command needs no second delivery. Secrets do not survive this process, so for a
    // command with secrets that is true only once its start is on disk.
    if (hasSecrets) await this.#assertStarted(frame.id);
  }

  /** Resolves when the cancellation outlives a restart. A finished or unknown command stays as it is. */
  async cancel(id: string): Promise<void> {
    const { store } = this.#parts;
    while (this.#accepting.has(id)) await this.#written(id);
    const running = this.#running.get(id);
    if (running !== undefined) return running.cancel();
    const entry = store.get(id);
    if (entry === undefined || entry.result !== undefined || this.#withdrawn.has(id)) return;
    this.#withdrawn.add(id);
    try {
      await store.finish(this.#result(entry, { status: 'cancelled' })).catch(unavailable);
    } finally {
      this.#withdrawn.delete(id);
      this.#startNext();
    }
    this.#outbox.wake();
  }

  #laneOf(type: string): Lane {
    return (this.#parts.laneOf ?? laneOf)(type);
  }

  /** Resolves when the start is on disk. Rejects if the agent stops or the command is cancelled before. */
  async #assertStarted(id: string): Promise<void> {
    const entry = this.#parts.store.get(id);
    await this.#running.get(id)?.started;
    if (entry !== undefined && entry.startedAt === undefined && entry.result === undefined) {
      throw notStartable();
    }
  }

  #mayStartNow(type: string): boolean {
    const lane = this.#laneOf(type);
    const open = [...this.#parts.store.entries(), ...this.#accepting.values()];
    const unfinished = open.filter((command) => !('result' in command) || command.result === undefined);
    return unfinished.filter((command) => this.#laneOf(command.type) === lane).length < LANE_LIMITS[lane];
  }

  #isFull(lane: Lane): boolean {
    const open = [...this.#parts.store.entries(), ...this.#accepting.values()];
    return open.filter(({ type }) => this.#laneOf(type) === lane).length >= OPEN_LIMITS[lane];
  }

  /** Resolves when the frame that is being accepted under this id is on disk or has failed. */
  async #written(id: string): Promise<void> {
    await this.#accepting.get(id)?.kept.catch(() => {});
  }

  #open(): Promise<void> {
    this.#opening ??= this.#resume().catch((error: unknown) => {
      this.#opening = undefined;
      throw error;
    });
    return this.#opening;
  }

  async #resume(): Promise<void> {
    const { store } = this.#parts;
    const { interrupted } = await store.open();
    this.#isOpen = true;
    const error = {
      code: AgentErrorCode.interrupted,
      message: 'The agent or its machine stopped while the command ran. It is not started again.',
    };
    for (const entry of interrupted) await this.#finish(entry, { status: 'failed', error });
    await store.compactIfLarge().catch((error: unknown) => {
      this.#parts.warn(`The journal of commands could not be compacted: ${String(error)}`);
    });
    this.#outbox.wake();
    this.#startNext();
  }

  #startNext(): void {
    if (this.#stopped) return;
    if (this.isIdle) for (const resolve of this.#whenIdle.splice(0)) resolve();
    const unfinished = this.#parts.store.entries().filter(({ result }) => result === undefined);
    const running = unfinished.filter(({ id }) => this.#running.has(id));
    const waiting = unfinished.filter(({ id }) => !this.#running.has(id) && !this.#withdrawn.has(id));
    for (const entry of startable(waiting, running, ({ type }) => this.#laneOf(type))) this.#start(entry);
  }

  #start(entry: Entry): void {
    const stopMs = stopMsOf(this.#parts.handlers, entry.type);
    const command = new RunningCommand({
      id: entry.id,
      stopMs,
      channel: () => this.#channel,
      secrets: this.#secrets.get(entry.id) ?? {},
    });
    this.#secrets.delete(entry.id);
    this.#running.set(entry.id, command);
    command.over = this.#run(entry, command).finally(() => {
      this.#running.delete(entry.id);
      this.#startNext();
    });
  }

  async #run(entry: Entry, command: RunningCommand): Promise<void> {
    const isStarted = this.#markStarted(entry, command);
    command.started = isStarted.then(() => undefined);
    if (!(await isStarted)) {
      if (!this.#stopped) await this.#finish(entry, { status: 'cancelled' });
      return;
    }
    command.reportRunning();
    const end = await this.#perform(entry, command);
    // The next start reports what this stop has interrupted.
    if (this.#stopped && end.status !== 'succeeded') return;
    command.flushProgress();
    const delivered = this.#outbox.delivered(entry.id);
    await this.#finish(entry, end);
    if (end.status !== 'succeeded') return;
    for (const act of command.afterResult) void this.#afterResult(delivered, act);
  }

  /** A command starts only after its start is on disk. `false` if it was cancelled meanwhile. */
  async #markStarted(entry: Entry, command: RunningCommand): Promise<boolean> {
    const { store, serverClock, warn, retryMs = RETRY_MS } = this.#parts;
    for (;;) {
      if (command.signal.aborted) return false;
      try {
        await store.start(entry.id, serverClock.timestamp());
        return !command.signal.aborted;
      } catch (error) {
        warn(`Command ${entry.id} waits, because the journal could not be written: ${String(error)}`);
        await clock.sleep(retryMs, { signal: command.signal }).catch(() => {});
      }
    }
  }

  async #perform(entry: Entry, command: RunningCommand): Promise<End> {
    try {
      const handle = boundHandler<AnyDurableContext>(this.#parts.handlers, entry);
      return { status: 'succeeded', output: await handle(command.context()) };
    } catch (error) {
      const output =
        error instanceof AgentError && error.output !== undefined ? { output: error.output } : {};
      if (command.signal.aborted) return { status: 'cancelled', ...output };
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
    const result = { id, epoch, ...this.#parts.serverClock.spanFrom(startedAt), ...end };
    // Before the result is written, because a result that cannot be sent must not be stored.
    return sendable(result);
  }

  async #afterResult(delivered: Promise<void>, act: () => Promise<void>): Promise<void> {
    const { afterResultMs = AFTER_RESULT_MS } = this.#parts;
    await Promise.race([delivered, clock.sleep(afterResultMs, { unref: true })]);
    if (this.#stopped) return;
    await act().catch((error: unknown) => this.#parts.warn(String(error)));
  }
}

/** Resolves when the promise has settled, or after `ms`. */
async function settledWithin(promise: Promise<void>, ms: number): Promise<void> {
  const timer = new AbortController();
  const late = clock.sleep(ms, { signal: timer.signal }).catch(() => {});
  await Promise.race([promise.catch(() => {}), late]);
  timer.abort();
}

const notStartable = () =>
  new AgentError(
    AgentErrorCode.busy,
    'The agent accepts a command with secrets when it can start it at once.',
  );

function unavailable(error: unknown): never {
  const reason = error instanceof Error ? error.message : String(error);
  throw new AgentError('STORE_UNAVAILABLE', `The agent cannot store commands at the moment: ${reason}`);
}

/**
 * The waiting commands that may start now: in the order in which they were accepted, as many per lane as it has free
 * places. A lane never waits for another one.
 */
function startable<C>(waiting: Iterable<C>, running: Iterable<C>, laneOf: (command: C) => Lane): C[] {
  const free: Record<Lane, number> = { ...LANE_LIMITS };
  for (const command of running) free[laneOf(command)] -= 1;
  const next: C[] = [];
  for (const command of waiting) {
    const lane = laneOf(command);
    if (free[lane] <= 0) continue;
    free[lane] -= 1;
    next.push(command);
  }
  return next;
}
