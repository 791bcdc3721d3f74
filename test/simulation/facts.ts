import type { LiveQueryOutcome } from '../../src/hub/index.ts';
import { type CommandFrame, isDurable } from '../../src/protocol/index.ts';
import { short, type SimulatedCommands } from './ledger.ts';
import type { Process, World } from './world.ts';

/** A live query as the person who asked saw it. */
export interface QueryRecord {
  name: string;
  deviceId: string;
  nodeId: string;
  beganAt: number;
  /** Asked when the world was well, so that it has to succeed if the device is connected. */
  isProbe: boolean;
  /** It was asked for by a person who then went away. */
  isAborted: boolean;
  rows: { at: number; message: string }[];
  ends: { at: number; outcome: LiveQueryOutcome<'eventlogs.query'> }[];
}

/** A live query ends within its limit, and what other servers need to say so. */
const QUERY_MS = 31_000;

/** What has really happened, as nobody within the world sees it; and what must never happen, at the moment at which it does. */
export class Facts {
  /** By command: on which device it took effect how often. */
  readonly effects = new Map<string, number>();
  /** Commands that a server has acknowledged to their sender. */
  readonly acknowledged = new Set<string>();
  /** Commands whose cancellation a server has acknowledged. */
  readonly cancelled = new Set<string>();
  readonly queries = new Map<QueryRecord, { process: Process; frozenMs: number }>();
  /** How often each kind of thing happened, so that a run that tests nothing is noticed. */
  readonly counts = new Map<string, number>();
  /** Set when the world is well again: from then on, epochs only grow. */
  isHealed = false;
  /** A device connects again before it is known that it was connected. */
  isFlapping = false;
  readonly #world: World;
  readonly #commands: SimulatedCommands;
  readonly #epochs = new Map<string, number>();

  constructor(world: World, commands: SimulatedCommands) {
    this.#world = world;
    this.#commands = commands;
  }

  count(what: string): void {
    this.counts.set(what, (this.counts.get(what) ?? 0) + 1);
  }

  effect(deviceId: string, id: string): void {
    const { history } = this.#world;
    const row = this.#commands.rows.get(id);
    const times = (this.effects.get(id) ?? 0) + 1;
    this.effects.set(id, times);
    this.count('effects');
    history.note(short(deviceId), `runs ${short(id)}`);
    if (row === undefined || row.deviceId !== deviceId) {
      history.violated(
        'own-commands',
        `${short(deviceId)} runs ${short(id)}, which is of ${row?.deviceId ?? 'nobody'}`,
      );
    } else if (times > 1) history.violated('at-most-once', `${short(id)} took effect ${times} times`);
    else if (row.status === 'expired' || row.reason === 'not_sent') {
      history.violated('no-effect-after-the-end', `${short(id)} takes effect although it is ${row.status}`);
    }
  }

  /** A command or a query has reached its device. */
  frame(deviceId: string, frame: CommandFrame): void {
    if (!isDurable(frame.type)) return;
    this.count('frames');
    const before = this.#epochs.get(deviceId) ?? 0;
    if (this.isHealed && frame.epoch < before) {
      const text = `${short(deviceId)} was sent a command under ${frame.epoch} after ${before}`;
      this.#world.history.violated('epochs-grow', text);
    }
    this.#epochs.set(deviceId, frame.epoch);
  }

  /** The only connection that a device has was ended for a newer one. With wrong clocks and without Redis that may be. */
  newestSuperseded(deviceId: string): void {
    if (!this.isHealed || this.isFlapping) return;
    this.#world.history.violated(
      'newest-wins',
      `${short(deviceId)} lost its newest connection to an older one`,
    );
  }

  /** A person has gone away, and with that the query ends. */
  aborted(query: QueryRecord): void {
    if (query.ends.length > 0) return;
    this.#world.history.violated('aborted-queries-end', `${query.name} goes on although it was aborted`);
  }

  /** A server says that it has stored a result, and the device forgets it. */
  resultAcknowledged(deviceId: string, id: string): void {
    const row = this.#commands.rows.get(id);
    if (row !== undefined && row.deviceId === deviceId && row.finishedAt !== undefined) return;
    this.#world.history.violated('stored-before-acknowledged', `the result of ${short(id)} is not stored`);
  }

  /** @param process  of the server, with which the query ends */
  asked(query: QueryRecord, process: Process): void {
    this.queries.set(query, { process, frozenMs: process.frozenMs });
  }

  queryRows(query: QueryRecord, messages: readonly string[]): void {
    const { now, history } = this.#world;
    if (query.ends.length > 0) {
      history.violated('nothing-after-the-end', `rows after the end of ${query.name}`);
    }
    for (const message of messages) {
      query.rows.push({ at: now, message });
      if (message === `${query.deviceId} ${query.name}`) continue;
      history.violated('own-answer', `${query.name} of ${short(query.deviceId)} got a row of "${message}"`);
    }
  }

  queryEnded(query: QueryRecord, outcome: LiveQueryOutcome<'eventlogs.query'>): void {
    const { now, history } = this.#world;
    query.ends.push({ at: now, outcome });
    const text = outcome.ok ? 'answered' : outcome.reason;
    this.count(`query ${text}`);
    history.note(query.nodeId, `${query.name} of ${short(query.deviceId)}: ${text}`);
    if (query.ends.length > 1) history.violated('one-outcome', `${query.name} has ended twice`);
    const asked = this.queries.get(query);
    // A server that is frozen cannot count.
    const frozenMs = asked === undefined ? 0 : asked.process.frozenMs - asked.frozenMs;
    if (now - query.beganAt > QUERY_MS + frozenMs) {
      history.violated('within-30-s', `${query.name} took ${Math.round(now - query.beganAt)} ms`);
    }
    if (outcome.ok && outcome.output.scanned !== query.rows.length) {
      const { scanned } = outcome.output;
      history.violated(
        'complete-answer',
        `${query.name} got ${query.rows.length} of ${scanned} rows as complete`,
      );
    }
    this.queries.delete(query);
  }
}
