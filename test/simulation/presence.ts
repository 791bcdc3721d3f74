import type { DeviceStore, MisrecordedDevice, PresenceRecord, StoredDevice } from '../../src/hub/ports.ts';
import type { DeviceSummary } from '../../src/protocol/index.ts';
import type { SimulatedDatabase } from './database.ts';
import { ORG_ID, short } from './ledger.ts';
import type { Process, World } from './world.ts';

const SITE_ID = '00000000-0000-7000-8000-00000000cccc';

/** A row of the table of presence. */
export interface PresenceRow {
  deviceId: string;
  epoch: number;
  nodeId: string;
  state: 'connected' | 'disconnected';
  since: string;
  reason: PresenceRecord['presence']['reason'];
  lastSeenAt: string | null;
}

/** The table of presence, with what each statement of `presence.queries.ts` does to it. */
export class SimulatedPresence {
  readonly rows = new Map<string, PresenceRow>();
  readonly #world: World;
  readonly #deviceIds: readonly string[];

  constructor(world: World, deviceIds: readonly string[]) {
    this.#world = world;
    this.#deviceIds = deviceIds;
  }

  write(nodeId: string, records: readonly PresenceRow[]): void {
    for (const record of records) {
      const { deviceId, epoch, state } = record;
      const before = this.rows.get(deviceId);
      if (before !== undefined && before.epoch > epoch) continue;
      this.rows.set(deviceId, { ...record, nodeId });
      if (before?.state === state && before.epoch === epoch) continue;
      this.#world.history.note(
        'presence',
        `${short(deviceId)} ${state} (${record.reason}) at ${nodeId}, epoch ${epoch}`,
      );
    }
  }

  markLost(nodes: Parameters<DeviceStore['markLost']>[0]): Awaited<ReturnType<DeviceStore['markLost']>> {
    const now = this.#world.wallTime();
    const isLost = (row: PresenceRow) => {
      if ('of' in nodes) {
        return row.nodeId === nodes.of && (nodes.deviceIds?.includes(row.deviceId) ?? true);
      }
      if (nodes.allBut.length === 0) return true;
      return !nodes.allBut.includes(row.nodeId) && Math.abs(Date.parse(row.since) - now) > 10_000;
    };
    const lost = [...this.rows.values()].filter((row) => row.state === 'connected' && isLost(row));
    return lost.map((row) => {
      const since = new Date(now).toISOString();
      Object.assign(row, { state: 'disconnected', reason: 'node_lost', since });
      this.#world.history.note(
        'presence',
        `${short(row.deviceId)} disconnected (node_lost) at ${row.nodeId}`,
      );
      const presence = { state: 'disconnected', reason: 'node_lost', since } as const;
      return { deviceId: row.deviceId, epoch: row.epoch, presence };
    });
  }

  misrecorded(claims: readonly { deviceId: string; epoch: number }[]): MisrecordedDevice[] {
    return claims.flatMap(({ deviceId, epoch }): MisrecordedDevice[] => {
      const row = this.rows.get(deviceId);
      if (row === undefined) return [];
      if (row.epoch > epoch) return [{ deviceId, difference: 'outdated' }];
      return row.state === 'connected' ? [] : [{ deviceId, difference: 'disconnected' }];
    });
  }

  greatestEpoch(): number {
    return Math.max(0, ...[...this.rows.values()].map(({ epoch }) => epoch));
  }

  #summary(deviceId: string): DeviceSummary {
    const row = this.rows.get(deviceId);
    const presence =
      row === undefined
        ? ({ state: 'disconnected', since: new Date(0).toISOString(), reason: 'never_seen' } as const)
        : { state: row.state, since: row.since, reason: row.reason };
    return {
      id: deviceId,
      orgId: ORG_ID,
      siteId: SITE_ID,
      hostname: deviceId,
      displayName: null,
      osType: 'linux',
      agentVersion: '1.0.0',
      status: presence.state === 'connected' ? 'online' : 'offline',
      maintenance: null,
      presence,
      lastSeenAt: row?.lastSeenAt ?? null,
      metrics: null,
    };
  }

  stored(deviceId: string): StoredDevice {
    return { device: this.#summary(deviceId), epoch: this.rows.get(deviceId)?.epoch ?? 0 };
  }

  all(): StoredDevice[] {
    return this.#deviceIds.map((deviceId) => this.stored(deviceId));
  }
}

/** The stored state of devices, as one server reads and writes it. */
export function storeOf(
  { owner, nodeId }: { owner: Process; nodeId: string },
  database: SimulatedDatabase,
  presence: SimulatedPresence,
): DeviceStore {
  const run = <T>(work: () => T) => database.run(owner, work);
  return {
    recordPresence(records) {
      // The values are read when the statement is sent. The actors go on changing their records.
      const rows = records.map(
        ({ deviceId, epoch, lastSeenAt, presence: { state, since, reason } }): PresenceRow => ({
          deviceId,
          epoch,
          nodeId,
          state,
          since,
          reason,
          lastSeenAt,
        }),
      );
      return run(() => presence.write(nodeId, rows));
    },
    recordReports: () => run(() => undefined),
    reporting: () => run(() => []),
    recordFacts: () => run(() => []),
    recordConflict: () => run(() => undefined),
    markLost: (nodes) => run(() => presence.markLost(nodes)),
    greatestEpoch: () => run(() => presence.greatestEpoch()),
    misrecorded: (claims) => run(() => presence.misrecorded(claims)),
    askable: (_caller, deviceIds) => run(() => new Map(deviceIds.map((id) => [id, { refusal: undefined }]))),
    found: () => run(() => []),
    summaries: (_caller, _filter, { after }) => run(() => (after === undefined ? presence.all() : [])),
    summariesOf: (deviceIds) =>
      run(() => deviceIds.map((id) => ({ ...presence.stored(id), partnerId: 'partner' }))),
  };
}
