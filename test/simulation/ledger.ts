import type { CommandEnd, CommandEvent, CommandLedger, JobChange } from '../../src/hub/ports.ts';
import {
  COMMANDS,
  type CommandStatus,
  type DurableCommandType,
  isDurable,
  LANE_LIMITS,
  laneOf,
  LANES,
} from '../../src/protocol/index.ts';
import { postgresRefusal, type SimulatedDatabase } from './database.ts';
import type { SimulatedPresence } from './presence.ts';
import type { Process, World } from './world.ts';

const AT_ONCE_WITHOUT_LANES = 2;
const OVERDUE_MS = 120_000;
export const ORG_ID = '00000000-0000-7000-8000-00000000aaaa';
const PARTNER_ID = '00000000-0000-7000-8000-00000000bbbb';

/** A row of the table of commands. Times are of the clock of the database. */
export interface CommandRow {
  id: string;
  /** The `Idempotency-Key` of the request. */
  key: string;
  deviceId: string;
  type: DurableCommandType;
  payload: unknown;
  status: CommandStatus;
  reason: string | null;
  attempt: number;
  epoch: number | null;
  createdAt: number;
  expiresAt: number;
  timeoutMs: number;
  dueAt: number | undefined;
  cancelRequestedAt: number | undefined;
  finishedAt: number | undefined;
  error: CommandEnd['error'] | undefined;
}

/** A request for a command. */
export type NewCommand = Pick<CommandRow, 'key' | 'deviceId' | 'type' | 'payload' | 'timeoutMs'> & {
  ttlMs: number;
};

export const isOpen = ({ status }: CommandRow) =>
  status === 'queued' || status === 'dispatched' || status === 'accepted' || status === 'running';

/** A result with this text is one that the database refuses to store. */
export const UNSTORABLE = 'unstorable';

/**
 * The table of commands, with what each statement of `command-ledger.queries.ts` does to it. That the statements do it is
 * for their own tests, with a real Postgres.
 */
export class SimulatedCommands {
  readonly rows = new Map<string, CommandRow>();
  readonly #world: World;
  readonly #byKey = new Map<string, CommandRow>();
  readonly #open = new Map<string, CommandRow[]>();

  readonly #presence: Pick<SimulatedPresence, 'rows'>;

  constructor(world: World, presence: Pick<SimulatedPresence, 'rows'>) {
    this.#world = world;
    this.#presence = presence;
  }

  /** The second request with the same key gets the command of the first. */
  insert(command: NewCommand): { row: CommandRow; isNew: boolean } {
    const known = this.#byKey.get(command.key);
    if (known !== undefined) return { row: known, isNew: false };
    const { ttlMs, ...given } = command;
    const row: CommandRow = {
      ...given,
      id: this.#world.newId(),
      status: 'queued',
      reason: null,
      attempt: 0,
      epoch: null,
      createdAt: this.#world.now,
      expiresAt: this.#world.now + ttlMs,
      dueAt: undefined,
      cancelRequestedAt: undefined,
      finishedAt: undefined,
      error: undefined,
    };
    this.rows.set(row.id, row);
    this.#byKey.set(row.key, row);
    const open = this.#open.get(row.deviceId);
    if (open === undefined) this.#open.set(row.deviceId, [row]);
    else open.push(row);
    this.#world.history.note('ledger', `${short(row.id)} queued for ${short(row.deviceId)}`);
    return { row, isNew: true };
  }

  /** The row, or `undefined` if the command has ended. */
  requestCancel(id: string): CommandRow | undefined {
    const row = this.rows.get(id);
    if (row === undefined || !isOpen(row)) return undefined;
    row.cancelRequestedAt ??= this.#world.now;
    if (row.status === 'queued') this.#become(row, 'cancelled', 'not_sent');
    return row;
  }

  take(claims: Parameters<CommandLedger['take']>[0]): Awaited<ReturnType<CommandLedger['take']>> {
    const { now } = this.#world;
    const taken: CommandRow[] = [];
    for (const { deviceId, epoch, knowsLanes, isUncertain = false } of claims) {
      const sentFrom = isUncertain ? epoch + 1 : epoch;
      const open = this.#openOf(deviceId);
      const places = knowsLanes
        ? LANES.map((lane) => ({ lane, limit: LANE_LIMITS[lane] }))
        : [{ lane: undefined, limit: AT_ONCE_WITHOUT_LANES }];
      for (const { lane, limit } of places) {
        const ofLane = open.filter(({ type }) => lane === undefined || laneOf(type) === lane);
        const busy = ofLane.filter(
          (row) =>
            row.status === 'accepted' ||
            row.status === 'running' ||
            (row.status === 'dispatched' && (row.epoch ?? 0) >= sentFrom),
        ).length;
        const chosen = ofLane
          .filter(
            (row) =>
              row.expiresAt > now &&
              (row.status === 'queued' || (row.status === 'dispatched' && (row.epoch ?? 0) < sentFrom)),
          )
          .slice(0, Math.max(0, limit - busy));
        for (const row of chosen) {
          row.attempt += 1;
          row.epoch = epoch;
          this.#become(row, 'dispatched', null);
          taken.push(row);
        }
      }
    }
    const devices = new Set(claims.map(({ deviceId }) => deviceId));
    const cancelled = [...devices].flatMap((deviceId) =>
      this.#openOf(deviceId)
        .filter(({ status, cancelRequestedAt }) => status !== 'queued' && cancelRequestedAt !== undefined)
        .map(({ id }) => ({ id, deviceId })),
    );
    return {
      dispatched: taken.map((row) => ({
        id: row.id,
        deviceId: row.deviceId,
        type: row.type,
        payload: row.payload,
        attempt: row.attempt,
        epoch: row.epoch ?? 0,
        deadline: new Date(this.#world.wallTime() + row.timeoutMs).toISOString(),
      })),
      cancelled,
      changed: taken.map((row) => this.changeOf(row)),
    };
  }

  record(events: readonly CommandEvent[]): JobChange[] {
    if (events.some((event) => event.kind === 'finished' && isUnstorable(event.end))) {
      throw postgresRefusal('22P05', 'unsupported Unicode escape sequence');
    }
    const changed: CommandRow[] = [];
    const apply = <K extends CommandEvent['kind']>(
      kind: K,
      from: readonly CommandStatus[],
      change: (row: CommandRow, event: Extract<CommandEvent, { kind: K }>) => void,
    ) => {
      for (const event of events) {
        if (event.kind !== kind) continue;
        const row = this.rows.get(event.id);
        // An event of an unknown, finished or another device's command changes nothing.
        if (row === undefined || row.deviceId !== event.deviceId || !from.includes(row.status)) continue;
        change(row, event as Extract<CommandEvent, { kind: K }>);
        changed.push(row);
      }
    };
    const dueIn = (row: CommandRow) => this.#world.now + row.timeoutMs + OVERDUE_MS;
    apply('accepted', ['queued', 'dispatched'], (row) => {
      row.dueAt = dueIn(row);
      this.#become(row, 'accepted', row.reason);
    });
    apply('postponed', ['dispatched'], (row, { attempt }) => {
      if (row.attempt !== attempt) return;
      row.epoch = null;
      this.#become(row, 'queued', 'device_busy');
    });
    apply('running', ['queued', 'dispatched', 'accepted', 'running'], (row) => {
      row.dueAt ??= dueIn(row);
      this.#become(row, 'running', row.reason);
    });
    apply('finished', ['queued', 'dispatched', 'accepted', 'running'], (row, { end }) => {
      const conforming = conformingEnd(row.type, end);
      row.error = conforming.error;
      this.#become(row, conforming.status, null);
    });
    return changed.map((row) => this.changeOf(row));
  }

  undelivered(after: string | undefined, atMost: number): string[] {
    const found: string[] = [];
    for (const deviceId of this.#open.keys()) {
      const claim = this.#presence.rows.get(deviceId);
      const waits = this.#openOf(deviceId).some(
        ({ status, cancelRequestedAt, epoch }) =>
          status === 'queued' ||
          cancelRequestedAt !== undefined ||
          (status === 'dispatched' && claim?.state === 'connected' && (epoch ?? 0) < claim.epoch),
      );
      if (waits && (after === undefined || deviceId > after)) found.push(deviceId);
    }
    return found.sort().slice(0, atMost);
  }

  sweep(): JobChange[] {
    const ended: CommandRow[] = [];
    const { now } = this.#world;
    for (const deviceId of this.#open.keys()) {
      for (const row of this.#openOf(deviceId)) {
        const isUnsent = row.status === 'queued' || row.status === 'dispatched';
        const isLate = isUnsent ? row.expiresAt <= now : row.dueAt !== undefined && row.dueAt <= now;
        if (!isLate) continue;
        if (row.status === 'queued') this.#become(row, 'expired', null);
        else this.#become(row, 'timed_out', row.status === 'dispatched' ? 'no_receipt' : 'no_result');
        ended.push(row);
      }
    }
    return ended.map((row) => this.changeOf(row));
  }

  changeOf(row: CommandRow): JobChange {
    const { id, type, deviceId, status } = row;
    const at = new Date(this.#world.wallTime()).toISOString();
    return {
      update: { id, kind: type, orgId: ORG_ID, deviceId, state: status, phase: status, at },
      partnerId: PARTNER_ID,
    };
  }

  #openOf(deviceId: string): CommandRow[] {
    const open = (this.#open.get(deviceId) ?? []).filter(isOpen);
    this.#open.set(deviceId, open);
    return open;
  }

  #become(row: CommandRow, status: CommandStatus, reason: string | null): void {
    const { id, status: before, epoch } = row;
    row.status = status;
    row.reason = reason;
    if (!isOpen(row)) row.finishedAt = this.#world.now;
    if (before === status) return;
    this.#world.history.note(
      'ledger',
      `${short(id)} ${before} -> ${status} (epoch ${epoch ?? '-'}, ${reason ?? '-'})`,
    );
  }
}

/** The part of an id of this world that differs. */
export const short = (id: string) => id.slice(-6).replace(/^0+/, '#');

const isUnstorable = ({ output }: CommandEnd) =>
  typeof output === 'object' && output !== null && 'stdout' in output && output.stdout === UNSTORABLE;

function conformingEnd(type: string, end: CommandEnd): CommandEnd {
  const parsed = isDurable(type) ? COMMANDS[type].output.safeParse(end.output) : undefined;
  if (parsed?.success === true || end.status !== 'succeeded') return end;
  return {
    status: 'failed',
    error: { code: 'INVALID_OUTPUT', message: 'The output is not of the agreed form.' },
  };
}

/** The ledger of one server. */
export const ledgerOf = (
  owner: Process,
  database: SimulatedDatabase,
  commands: SimulatedCommands,
): CommandLedger => ({
  take: (claims) => {
    const sent = claims.map((claim) => ({ ...claim }));
    return database.run(owner, () => commands.take(sent));
  },
  record: (events) => {
    const sent = [...events];
    return database.run(owner, () => commands.record(sent));
  },
  undelivered: (after, atMost) => database.run(owner, () => commands.undelivered(after, atMost)),
  sweep: () => database.run(owner, () => commands.sweep()),
  jobs: async () => [],
});
