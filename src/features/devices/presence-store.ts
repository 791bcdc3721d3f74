import {
  disconnectHeldBy,
  selectActingStatus,
  selectGreatestEpoch,
  selectMisrecorded,
  selectReporting,
  type Changed,
  skippedAddressChanges,
  noteMoves,
  presenceValues,
  reportValues,
  WRITE_PRESENCE,
  WRITE_REPORTS,
} from './presence.queries.ts';
import type { DeviceStore, AddressHistory, PresenceRecord } from '../../hub/ports.ts';
import type { Caller } from '../../platform/context.ts';
import type { Db } from '../../platform/db/pool.ts';
import { type Statement } from '../../platform/db/statement.ts';
import { ExpensiveWork } from '../../platform/concurrency.ts';
import type { AuditTrail } from '../../platform/http/audit.ts';
import type { Logger } from '../../platform/logger.ts';
import {
  type Tx,
  withSystem,
  withSystemStatement,
  withTenant,
  runPrepared,
} from '../../platform/db/transaction.ts';
import { PRESENCE_JOIN, visibleDevices } from '../conditions/index.ts';
import { assertOrganizationAccess, isManageable } from '../organizations/index.ts';
import { raiseConnectionConflict, writeMachineFacts } from './machine-identity.ts';
import { selectSummaries, type SummaryRow, toSummary, AWAITS_APPROVAL } from './device.queries.ts';
import { devicesFound } from './device.service.ts';

const NONE_PASSED: AddressHistory = new Map();

/** What a device has sent, over its connection or over HTTP, which has no presence. */
type HeardRecord = Pick<PresenceRecord, 'deviceId' | 'lastIp' | 'metrics'> &
  Partial<Pick<PresenceRecord, 'presence'>>;

/** The reads and writes of the hub about devices. */
export function createDeviceStore({
  db,
  nodeId,
  audit,
  log,
  expensive = new ExpensiveWork({ poolSize: 2 }),
  onHeard,
  onPresence,
}: {
  db: Db;
  nodeId: string;
  audit: AuditTrail;
  log: Logger;
  /** Limits how many connections reads of whole fleets may hold, so that presence always finds one. */
  expensive?: ExpensiveWork;
  /** Called with the records of a batch once it is written. */
  onHeard?: (records: readonly HeardRecord[]) => void;
  /** Called with those of them that connected or disconnected. */
  onPresence?: (deviceIds: readonly string[]) => void;
}): DeviceStore {
  const write = async (
    why: string,
    statement: Statement,
    records: readonly HeardRecord[],
    values: readonly string[],
    passed: AddressHistory = NONE_PASSED,
  ) => {
    const hasMoved = (device: Changed) => device.hasMoved;
    // Addresses rarely change. If one did, the write is repeated in a transaction that also audits the change.
    const restless = passed.size === 0 ? [] : records.filter(({ deviceId }) => passed.has(deviceId));
    const written =
      restless.length > 0
        ? undefined
        : await withSystemStatement<Changed>(
            db,
            why,
            { ...statement, values },
            (rows) => !rows.some(hasMoved),
          );
    const changed =
      written ??
      (await withSystem(db, why, async (tx) => {
        const overPassed = restless.length === 0 ? [] : await skippedAddressChanges(tx, restless, passed);
        const rows = await runPrepared<Changed>(tx, statement, values);
        const direct = rows.filter((row) => row.hasMoved && !passed.has(row.device_id));
        await noteMoves(tx, [...direct, ...overPassed], { audit, log });
        return rows;
      }));
    if (written === undefined) audit.committed();
    onHeard?.(records);
    const turned = changed.filter(({ hasTurned }) => hasTurned);
    if (turned.length > 0) onPresence?.(turned.map(({ device_id: deviceId }) => deviceId));
  };

  // It waits for its turn without a limit: how much a caller can ask for at once is limited elsewhere.
  const ofPerson = <T>(caller: Caller, work: (tx: Tx) => Promise<T>) =>
    expensive.run(caller, () => withTenant(db, caller, work, { readOnly: true }), { isPatient: true });

  return {
    recordPresence: (records, passed) =>
      write(
        'write presence of many devices',
        WRITE_PRESENCE,
        records,
        presenceValues(nodeId, records),
        passed,
      ),

    recordReports: (records, passed) =>
      write(
        'write what devices without a connection report',
        WRITE_REPORTS,
        records,
        reportValues(nodeId, records),
        passed,
      ),

    async reporting(deviceIds) {
      const rows = await withSystem(db, 'which devices report without a connection', (tx) =>
        selectReporting(tx, deviceIds),
      );
      return rows.map((row) => ({
        deviceId: row.device_id,
        until: row.reports_until?.getTime() ?? null,
      }));
    },

    async recordFacts(facts, onPostponed) {
      const { changed, postponed, isAudited } = await withSystem(
        db,
        'write what agents report about their machines',
        (tx) => writeMachineFacts(tx, facts, { audit, log }),
      );
      if (isAudited) audit.committed();
      if (postponed.length > 0) onPostponed?.(postponed);
      return changed;
    },

    async recordConflict(conflict) {
      await withSystem(db, 'raise an alert for two machines with one identity', (tx) =>
        raiseConnectionConflict(tx, conflict),
      );
    },

    async markLost(nodes) {
      const [condition, values] = heldBy(nodes);
      const lost = await withSystem(db, 'mark the devices of lost nodes as disconnected', async (tx) => {
        const marked = await disconnectHeldBy(tx, condition, values);
        return marked.map(({ device_id: deviceId, since, epoch }) => ({
          deviceId,
          epoch,
          presence: {
            state: 'disconnected' as const,
            since: since.toISOString(),
            reason: 'node_lost' as const,
          },
        }));
      });
      if (lost.length > 0) onPresence?.(lost.map(({ deviceId }) => deviceId));
      return lost;
    },

    async misrecorded(claims) {
      return withSystem(db, 'compare what is stored of connected devices', (tx) =>
        selectMisrecorded(tx, claims),
      );
    },

    async greatestEpoch() {
      return withSystem(db, 'the greatest epoch of all claims', selectGreatestEpoch);
    },

    async askable(caller, deviceIds) {
      const rows = await withTenant(
        db,
        caller,
        (tx) =>
          visibleDevices(tx, caller)
            .join('organizations as o', 'o.id', 'd.org_id')
            .whereRaw('d.id = any(?::uuid[])', [[...deviceIds]])
            .select<{ id: string; condition: string; status: string }[]>(
              'd.id',
              'd.condition',
              selectActingStatus(tx),
            ),
        { readOnly: true },
      );
      return new Map(
        rows.map(({ id, condition, status }) => [
          id,
          {
            refusal: isManageable(status)
              ? pendingRefusal(condition)
              : `The organization of this device is ${status}.`,
          },
        ]),
      );
    },

    async found(caller, filterId, atMost) {
      return ofPerson(caller, (tx) => devicesFound({ tx, caller }, filterId, { atMost, path: 'filterId' }));
    },

    async summaries(caller, filter, { after, atMost }) {
      return ofPerson(caller, async (tx) => {
        if (filter.orgId !== undefined) await assertOrganizationAccess({ tx, caller }, filter.orgId);
        const query = visibleDevices(tx, caller)
          .join('organizations as o', 'o.id', 'd.org_id')
          .whereNull('o.deleted_at');
        if (filter.orgId !== undefined) void query.where('d.org_id', filter.orgId);
        if (filter.siteId !== undefined) void query.where('d.site_id', filter.siteId);
        if (after !== undefined) void query.whereRaw('(d.org_id, d.id) > (?, ?)', [after.orgId, after.id]);
        const page = selectSummaries(query).orderByRaw('d.org_id, d.id').limit(atMost);
        return (await page).map(toStored);
      });
    },

    async summariesOf(deviceIds) {
      return withSystem(db, 'read changed devices for their watchers', async (tx) => {
        const query = tx('devices as d')
          .join('organizations as o', 'o.id', 'd.org_id')
          .joinRaw(PRESENCE_JOIN)
          .whereRaw('d.id = any(?::uuid[])', [[...deviceIds]])
          .where('d.condition', '<>', 'decommissioned')
          .whereNull('o.deleted_at')
          .select('o.partner_id');
        const rows = (await selectSummaries(query)) as (SummaryRow & { partner_id: string })[];
        return rows.map((row) => ({ ...toStored(row), partnerId: row.partner_id }));
      });
    },
  };
}

const toStored = (row: SummaryRow) => ({ device: toSummary(row), epoch: row.epoch });

const pendingRefusal = (condition: string) => (condition === 'pending' ? AWAITS_APPROVAL : undefined);

function heldBy(nodes: Parameters<DeviceStore['markLost']>[0]): [sql: string, values: unknown[]] {
  if ('of' in nodes) {
    const { of, deviceIds } = nodes;
    if (deviceIds === undefined) return ['node_id = ?', [of]];
    return ['node_id = ? and device_id = any(?::uuid[])', [of, [...deviceIds]]];
  }
  if (nodes.allBut.length === 0) return ['true', []];
  // A node that has just started may not be known to this one yet. A time to come is of a clock that was wrong.
  return [
    `not node_id = any(?::text[]) and since not between now() - interval '10 seconds' and now() + interval '10 seconds'`,
    [[...nodes.allBut]],
  ];
}
