import { clock, type Timer } from '../../clock.ts';
import { writeInParts } from '../../platform/db/write-in-parts.ts';
import type { Logger } from '../../platform/logger.ts';
import { AgentErrorCode, LANES_CAPABILITY } from '../../protocol/index.ts';
import type { ActorRegistry } from '../device/actor-registry.ts';
import type { CommandEnd, CommandEvent, CommandLedger, JobChange } from '../ports.ts';

type ProgressEvent = Extract<CommandEvent, { kind: 'running' }>;

/** Each command's progress is stored at most once in this time. */
const EVERY_MS = 1000;
/** Commands whose progress is throttled at the same time; progress of further ones is dropped until there is room. */
const MOST_COMMANDS = 50_000;

interface Throttled {
  pending: ProgressEvent | undefined;
  timer: Timer;
}

/**
 * Passes on the progress of each command at once and then at most once a second, and always the last report. Agents
 * throttle as well, but a faulty or hostile one must not be able to make the database write.
 */
export class ProgressThrottle {
  readonly #pass: (event: ProgressEvent) => void;
  readonly #commands = new Map<string, Throttled>();

  constructor(pass: (event: ProgressEvent) => void) {
    this.#pass = pass;
  }

  report(event: ProgressEvent): void {
    const key = keyOf(event);
    const throttled = this.#commands.get(key);
    if (throttled !== undefined) throttled.pending = event;
    else if (this.#commands.size < MOST_COMMANDS) {
      const timer = clock.setTimeout(() => this.#goOn(event), EVERY_MS);
      this.#commands.set(key, { pending: undefined, timer });
      this.#pass(event);
    }
  }

  /** A second is over: what has come meanwhile is passed on and begins the next second. */
  #goOn(command: ProgressEvent): void {
    const key = keyOf(command);
    const pending = this.#commands.get(key)?.pending;
    this.#commands.delete(key);
    if (pending !== undefined) this.report(pending);
  }

  /** Passes on the last report of a command now, so that it precedes the result. */
  flush(command: Pick<CommandEvent, 'id' | 'deviceId'>): void {
    const key = keyOf(command);
    const throttled = this.#commands.get(key);
    if (throttled === undefined) return;
    clock.clear(throttled.timer);
    this.#commands.delete(key);
    if (throttled.pending !== undefined) this.#pass(throttled.pending);
  }

  flushAll(): void {
    for (const { pending, timer } of this.#commands.values()) {
      clock.clear(timer);
      if (pending !== undefined) this.#pass(pending);
    }
    this.#commands.clear();
  }
}

/** Any agent can name any command, so the device is part of the key. */
const keyOf = ({ id, deviceId }: Pick<CommandEvent, 'id' | 'deviceId'>) => `${deviceId} ${id}`;

/** Calls to the ledger within this time are combined. */
const BATCH_MS = 10;
const RETRY_MS = 1000;
const SWEEP_MS = 5000;
const CLAIMS_PER_BATCH = 500;
const EVENTS_PER_BATCH = 500;
/** Further events are refused. Agents keep and resend what is not acknowledged. */
const EVENTS_MAX = 20_000;

interface PendingEvent {
  event: CommandEvent;
  onStored: ((isStored: boolean) => void) | undefined;
  /** The event replaces a result that the database has refused. */
  isSubstitute?: true;
}

/**
 * Connects the actors with the ledger: it takes commands for connected devices and records what the devices report, both
 * in batches. Nothing is polled: a device that connects, a new command and a command that ends each call `wake`.
 */
export class CommandDispatcher {
  readonly #ledger: CommandLedger;
  readonly #registry: ActorRegistry;
  readonly #log: Logger;
  readonly #changed: (jobs: readonly JobChange[]) => void;
  readonly #onRefused: (count: number) => void;
  readonly #sweeper: Timer;
  readonly #progress = new ProgressThrottle((event) => this.#write(event, undefined));
  #awake = new Set<string>();
  /** Devices for which a failed call may have marked commands as dispatched that were never sent. */
  readonly #uncertain = new Set<string>();
  /** Devices that had too much to do. They are woken by the next sweep. */
  readonly #postponed = new Set<string>();
  #events: PendingEvent[] = [];
  #takeTimer: Timer | undefined;
  #recordTimer: Timer | undefined;
  #taking: Promise<boolean> | undefined;
  #recording: Promise<boolean> | undefined;
  #isClosed = false;

  constructor(parts: {
    ledger: CommandLedger;
    registry: ActorRegistry;
    /** Called with jobs whose state in the ledger has changed. */
    changed: (jobs: readonly JobChange[]) => void;
    /** Called when the database has refused single events. */
    onRefused?: (count: number) => void;
    log: Logger;
  }) {
    this.#ledger = parts.ledger;
    this.#registry = parts.registry;
    this.#changed = parts.changed;
    this.#onRefused = parts.onRefused ?? (() => {});
    this.#log = parts.log;
    this.#sweeper = clock.setInterval(() => {
      void this.#sweep();
    }, SWEEP_MS);
    this.#sweeper.unref();
  }

  /** The number of events that are not in the ledger yet. */
  get unwritten(): number {
    return this.#events.length;
  }

  /** Takes commands for the device soon, if it is connected to this node. */
  wake(deviceId: string): void {
    if (this.#isClosed) return;
    this.#awake.add(deviceId);
    this.#scheduleTake(BATCH_MS);
  }

  /** @param onStored  called with `true` when the event is in the ledger, or with `false` when it has to be sent again */
  record(event: CommandEvent, onStored?: (isStored: boolean) => void): void {
    if (this.#isClosed) return onStored?.(false);
    // No caller waits for progress to be stored.
    if (event.kind === 'running') return this.#progress.report(event);
    if (event.kind === 'finished') this.#progress.flush(event);
    this.#write(event, onStored);
  }

  /** Takes commands and records events that wait for their batch, now. They go on waiting while the ledger fails. */
  async settle(): Promise<void> {
    await this.#sweep();
    this.#progress.flushAll();
    let isWorking = true;
    while (isWorking && this.#awake.size + this.#events.length > 0) {
      clock.clear(this.#takeTimer);
      clock.clear(this.#recordTimer);
      this.#takeTimer = undefined;
      this.#recordTimer = undefined;
      const [isTaken, isRecorded] = await Promise.all([this.#beginTake(), this.#beginRecord()]);
      isWorking = isTaken && isRecorded;
    }
  }

  async #sweep(): Promise<void> {
    for (const deviceId of this.#postponed) this.wake(deviceId);
    this.#postponed.clear();
    try {
      this.#changed(await this.#ledger.sweep());
    } catch (error) {
      this.#log.warn({ err: error }, 'commands.sweep_failed');
    }
  }

  #write(event: CommandEvent, onStored: ((isStored: boolean) => void) | undefined): void {
    if (this.#events.length >= EVENTS_MAX) return onStored?.(false);
    this.#events.push({ event, onStored });
    this.#scheduleRecord(BATCH_MS);
  }

  /** Records the remaining events and takes no more commands. */
  async close(): Promise<void> {
    this.#isClosed = true;
    this.#progress.flushAll();
    clock.clear(this.#sweeper);
    clock.clear(this.#takeTimer);
    clock.clear(this.#recordTimer);
    await this.#taking;
    await this.#recording;
    while (this.#events.length > 0 && (await this.#recordBatch()));
    for (const { onStored } of this.#events.splice(0)) onStored?.(false);
  }

  #scheduleTake(ms: number): void {
    this.#takeTimer ??= clock.setTimeout(() => {
      this.#takeTimer = undefined;
      void this.#beginTake();
    }, ms);
  }

  #beginTake(): Promise<boolean> {
    this.#taking ??= this.#take().finally(() => {
      this.#taking = undefined;
      if (this.#awake.size > 0 && !this.#isClosed) this.#scheduleTake(BATCH_MS);
    });
    return this.#taking;
  }

  /** False when the ledger is unavailable. */
  async #take(): Promise<boolean> {
    const deviceIds = [...this.#awake].slice(0, CLAIMS_PER_BATCH);
    for (const id of deviceIds) this.#awake.delete(id);
    const claims = deviceIds.flatMap((deviceId) => {
      const actor = this.#registry.get(deviceId);
      if (actor?.isConnected !== true || actor.state !== 'online') return [];
      const knowsLanes = actor.capabilities.includes(LANES_CAPABILITY);
      const claim = { deviceId, epoch: actor.epoch, knowsLanes };
      return [this.#uncertain.has(deviceId) ? { ...claim, isUncertain: true } : claim];
    });
    // A device that is not connected returns under a later epoch, for which the ledger returns unsent commands anyway.
    for (const id of deviceIds) this.#uncertain.delete(id);
    if (claims.length === 0) return true;
    try {
      const { dispatched, cancelled, changed } = await this.#ledger.take(claims);
      // They are marked as dispatched: one that is not sent now is not sent again on this connection.
      for (const command of dispatched) {
        this.#safely(() => this.#registry.get(command.deviceId)?.sendCommand(command));
      }
      for (const { id, deviceId } of cancelled) {
        this.#safely(() => this.#registry.get(deviceId)?.cancelCommand(id));
      }
      this.#safely(() => this.#changed(changed));
      return true;
    } catch (error) {
      this.#log.warn({ err: error, devices: claims.length }, 'commands.not_taken');
      for (const id of deviceIds) this.#awake.add(id);
      for (const { deviceId } of claims) this.#uncertain.add(deviceId);
      clock.clear(this.#takeTimer);
      this.#takeTimer = undefined;
      if (!this.#isClosed) this.#scheduleTake(RETRY_MS);
      return false;
    }
  }

  #scheduleRecord(ms: number): void {
    this.#recordTimer ??= clock.setTimeout(() => {
      this.#recordTimer = undefined;
      void this.#beginRecord();
    }, ms);
  }

  #beginRecord(): Promise<boolean> {
    this.#recording ??= this.#recordBatch()
      .catch((error: unknown) => {
        this.#log.error({ err: error }, 'commands.recording_failed');
        return false;
      })
      .then((isWritten) => {
        this.#recording = undefined;
        if (this.#events.length > 0 && !this.#isClosed) this.#scheduleRecord(isWritten ? 0 : RETRY_MS);
        return isWritten;
      });
    return this.#recording;
  }

  /** Writes the oldest events. False when the rest has to wait because the database is unavailable. */
  async #recordBatch(): Promise<boolean> {
    const batch = this.#events.slice(0, EVENTS_PER_BATCH);
    const { written, refused, unwritten, failure } = await writeInParts(batch, async (part) => ({
      part,
      changed: await this.#ledger.record(part.map(({ event }) => event)),
    }));
    const substitutes = refused.flatMap(({ record, error }) => this.#replaceRefused(record, error));
    this.#events.splice(0, batch.length, ...substitutes, ...unwritten);
    if (failure !== undefined) {
      this.#log.warn({ err: failure, waiting: this.#events.length }, 'commands.not_recorded');
    }
    for (const { part, changed } of written) {
      this.#safely(() => this.#changed(changed));
      for (const pending of part) this.#safely(() => this.#recorded(pending));
    }
    return failure === undefined;
  }

  #recorded({ event, onStored }: PendingEvent): void {
    if (event.kind === 'finished') this.wake(event.deviceId);
    if (event.kind === 'postponed') this.#postponed.add(event.deviceId);
    onStored?.(true);
  }

  /**
   * The database would refuse the same event again however often the agent sent it, so the command fails instead. If that
   * is refused as well, the command ends by its time-out.
   */
  #replaceRefused({ event, onStored, isSubstitute }: PendingEvent, error: unknown): PendingEvent[] {
    const { id, deviceId, kind } = event;
    this.#log.error({ err: error, commandId: id, deviceId, kind }, 'commands.event_refused');
    this.#onRefused(1);
    if (kind === 'finished' && isSubstitute === undefined) {
      return [{ event: { kind, id, deviceId, end: NOT_STORED }, onStored, isSubstitute: true }];
    }
    this.#safely(() => onStored?.(true));
    return [];
  }

  /** A callback that throws must not keep the others from being called. */
  #safely(notify: () => void): void {
    try {
      notify();
    } catch (error) {
      this.#log.error({ err: error }, 'commands.callback_failed');
    }
  }
}

const NOT_STORED: CommandEnd = {
  status: 'failed',
  error: {
    code: AgentErrorCode.notStored,
    message: 'The agent sent a result that the database cannot store.',
  },
};

/** The shortest time between two scans. Each pause is up to twice as long, so that nodes do not scan together. */
const TAKE_EVERY_MS = 10_000;
const DEVICES_PER_READ = 1000;

interface Parts {
  ledger: Pick<CommandLedger, 'undelivered'>;
  registry: ActorRegistry;
  wake: (deviceId: string) => void;
  log: Logger;
  everyMs?: number | undefined;
}

/**
 * Finds undelivered commands whose device is connected to this node. The node that accepted the command may have failed
 * before it could notify this one, or Redis may have been unavailable. Normally a notice brings each command to its
 * device at once; the scan makes sure that a lost notice delays a command and does not lose it.
 */
export class UndeliveredWork {
  readonly #parts: Parts;
  #timer: Timer | undefined;
  #scanning: Promise<void> | undefined;
  #isClosed = false;

  constructor(parts: Parts) {
    this.#parts = parts;
    this.#schedule();
  }

  /** Scans now. A scan that is under way is not repeated. */
  async scan(): Promise<void> {
    if (this.#isClosed) return;
    this.#scanning ??= this.#scanAll().finally(() => (this.#scanning = undefined));
    await this.#scanning;
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    clock.clear(this.#timer);
    await this.#scanning;
  }

  #schedule(): void {
    const everyMs = this.#parts.everyMs ?? TAKE_EVERY_MS;
    this.#timer = clock
      .setTimeout(
        () => void this.scan().then(() => this.#isClosed || this.#schedule()),
        everyMs * (1 + Math.random()),
      )
      .unref();
  }

  async #scanAll(): Promise<void> {
    const { ledger, registry, wake, log } = this.#parts;
    let after: string | undefined;
    try {
      while (!this.#isClosed && registry.size > 0) {
        const deviceIds = await ledger.undelivered(after, DEVICES_PER_READ);
        for (const deviceId of deviceIds) if (registry.get(deviceId)?.isConnected === true) wake(deviceId);
        if (deviceIds.length < DEVICES_PER_READ) return;
        after = deviceIds.at(-1);
      }
    } catch (error) {
      // The next scan follows in any case.
      log.warn({ err: error }, 'commands.undelivered_work_not_read');
    }
  }
}
