import { writeInParts } from '../../platform/db/bulk/write-in-parts.ts';
import type { Logger } from '../../platform/logger.ts';
import { AgentErrorCode, LANES_CAPABILITY } from '../../protocol/index.ts';
import type { ActorRegistry } from '../device/actor-registry.ts';
import { ProgressThrottle } from './progress-throttle.ts';
import type { CommandEnd, CommandEvent, CommandLedger, JobChange } from '../ports.ts';

/** What is asked of the ledger within this time goes there together. */
const GATHER_MS = 10;
const RETRY_MS = 1000;
const SWEEP_MS = 5000;
const CLAIMS_AT_ONCE = 500;
const EVENTS_AT_ONCE = 500;
/** More than this is refused, and comes again: agents keep what is not acknowledged. */
const MAX_EVENTS = 20_000;

interface Waiting {
  event: CommandEvent;
  kept: ((isKept: boolean) => void) | undefined;
  /** It stands for a result that the database has refused. */
  isSubstitute?: true;
}

/**
 * Between the actors and the ledger: brings devices their work when it is there and they are, and what they say of it
 * back, both in batches, however many devices there are. Nothing is polled: a device that connects, a command that is
 * made and a command that ends each say so.
 */
export class CommandDesk {
  readonly #ledger: CommandLedger;
  readonly #registry: ActorRegistry;
  readonly #log: Logger;
  readonly #changed: (jobs: readonly JobChange[]) => void;
  readonly #onRefused: (count: number) => void;
  readonly #sweeper: NodeJS.Timeout;
  readonly #progress = new ProgressThrottle((event) => this.#write(event, undefined));
  #awake = new Set<string>();
  /** Devices for which the ledger may have marked commands without an answer to us: these were not sent. */
  readonly #uncertain = new Set<string>();
  /** Devices that had too much to do: they are asked again with the next sweep. */
  readonly #later = new Set<string>();
  #events: Waiting[] = [];
  #takeTimer: NodeJS.Timeout | undefined;
  #recordTimer: NodeJS.Timeout | undefined;
  #taking: Promise<void> | undefined;
  #recording: Promise<void> | undefined;
  #closed = false;

  constructor(parts: {
    ledger: CommandLedger;
    registry: ActorRegistry;
    /** What the ledger now says of jobs. */
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
    this.#sweeper = setInterval(() => {
      for (const deviceId of this.#later) this.wake(deviceId);
      this.#later.clear();
      this.#ledger
        .sweep()
        .then(this.#changed)
        .catch((error: unknown) => this.#log.warn({ err: error }, 'commands.sweep_failed'));
    }, SWEEP_MS);
    this.#sweeper.unref();
  }

  /** Events that are not in the ledger yet. */
  get unwritten(): number {
    return this.#events.length;
  }

  /** There may be work for this device, if it is here. */
  wake(deviceId: string): void {
    if (this.#closed) return;
    this.#awake.add(deviceId);
    this.#takeIn(GATHER_MS);
  }

  /** @param kept  called when the event is in the ledger, or with `false` when it has to be told again */
  record(event: CommandEvent, kept?: (isKept: boolean) => void): void {
    if (this.#closed) return kept?.(false);
    // Nobody waits for progress to be kept.
    if (event.kind === 'running') return this.#progress.report(event);
    if (event.kind === 'finished') this.#progress.flush(event);
    this.#write(event, kept);
  }

  #write(event: CommandEvent, kept: ((isKept: boolean) => void) | undefined): void {
    if (this.#events.length >= MAX_EVENTS) return kept?.(false);
    this.#events.push({ event, kept });
    this.#recordIn(GATHER_MS);
  }

  /** Writes what waits; nothing is taken any more. */
  async close(): Promise<void> {
    this.#closed = true;
    this.#progress.flushAll();
    clearInterval(this.#sweeper);
    clearTimeout(this.#takeTimer);
    clearTimeout(this.#recordTimer);
    await this.#taking;
    await this.#recording;
    while (this.#events.length > 0 && (await this.#recordSome()));
    for (const { kept } of this.#events.splice(0)) kept?.(false);
  }

  #takeIn(ms: number): void {
    this.#takeTimer ??= setTimeout(() => {
      this.#takeTimer = undefined;
      this.#taking ??= this.#take().finally(() => {
        this.#taking = undefined;
        if (this.#awake.size > 0 && !this.#closed) this.#takeIn(GATHER_MS);
      });
    }, ms);
  }

  async #take(): Promise<void> {
    const deviceIds = [...this.#awake].slice(0, CLAIMS_AT_ONCE);
    for (const id of deviceIds) this.#awake.delete(id);
    const claims = deviceIds.flatMap((deviceId) => {
      const actor = this.#registry.get(deviceId);
      if (actor?.isConnected !== true || actor.state !== 'online') return [];
      const knowsLanes = actor.capabilities.includes(LANES_CAPABILITY);
      const claim = { deviceId, epoch: actor.epoch, knowsLanes };
      return [this.#uncertain.has(deviceId) ? { ...claim, isUncertain: true } : claim];
    });
    // A device that is not connected comes back under a later claim, by which it gets what was not sent.
    for (const id of deviceIds) this.#uncertain.delete(id);
    if (claims.length === 0) return;
    try {
      const { dispatched, cancelled, changed } = await this.#ledger.take(claims);
      // They are marked as dispatched: what is not sent now is sent no more on this connection.
      for (const command of dispatched) {
        this.#safely(() => this.#registry.get(command.deviceId)?.send(command));
      }
      for (const { id, deviceId } of cancelled) {
        this.#safely(() => this.#registry.get(deviceId)?.cancelCommand(id));
      }
      this.#safely(() => this.#changed(changed));
    } catch (error) {
      this.#log.warn({ err: error, devices: claims.length }, 'commands.not_taken');
      for (const id of deviceIds) this.#awake.add(id);
      for (const { deviceId } of claims) this.#uncertain.add(deviceId);
      clearTimeout(this.#takeTimer);
      this.#takeTimer = undefined;
      if (!this.#closed) this.#takeIn(RETRY_MS);
    }
  }

  #recordIn(ms: number): void {
    this.#recordTimer ??= setTimeout(() => {
      this.#recordTimer = undefined;
      this.#recording ??= this.#recordSome()
        .catch((error: unknown) => {
          this.#log.error({ err: error }, 'commands.recording_failed');
          return false;
        })
        .then((isWritten) => {
          this.#recording = undefined;
          if (this.#events.length > 0 && !this.#closed) this.#recordIn(isWritten ? 0 : RETRY_MS);
        });
    }, ms);
  }

  /** Writes the oldest events. False when the rest must wait, because the database is away. */
  async #recordSome(): Promise<boolean> {
    const batch = this.#events.slice(0, EVENTS_AT_ONCE);
    const { written, refused, unwritten, failure } = await writeInParts(batch, async (part) => ({
      part,
      changed: await this.#ledger.record(part.map(({ event }) => event)),
    }));
    const substitutes = refused.flatMap(({ record, error }) => this.#setAside(record, error));
    this.#events.splice(0, batch.length, ...substitutes, ...unwritten);
    if (failure !== undefined) {
      this.#log.warn({ err: failure, waiting: this.#events.length }, 'commands.not_recorded');
    }
    for (const { part, changed } of written) {
      this.#safely(() => this.#changed(changed));
      for (const waiting of part) this.#safely(() => this.#recorded(waiting));
    }
    return failure === undefined;
  }

  #recorded({ event, kept }: Waiting): void {
    if (event.kind === 'finished') this.wake(event.deviceId);
    if (event.kind === 'postponed') this.#later.add(event.deviceId);
    kept?.(true);
  }

  /**
   * What the database refuses it would refuse again, however often the agent sends it: the command fails instead, and
   * where even that is refused, its time-out ends it.
   */
  #setAside({ event, kept, isSubstitute }: Waiting, error: unknown): Waiting[] {
    const { id, deviceId, kind } = event;
    this.#log.error({ err: error, commandId: id, deviceId, kind }, 'commands.event_refused');
    this.#onRefused(1);
    if (kind === 'finished' && isSubstitute === undefined) {
      return [{ event: { kind, id, deviceId, end: NOT_STORED }, kept, isSubstitute: true }];
    }
    this.#safely(() => kept?.(true));
    return [];
  }

  /** One that fails keeps the others from nothing. */
  #safely(tell: () => void): void {
    try {
      tell();
    } catch (error) {
      this.#log.error({ err: error }, 'commands.not_told');
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
