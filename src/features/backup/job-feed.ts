import type { JobChange, LongWork } from '../../hub/ports.ts';
import { holds } from '../../platform/context.ts';
import { inTenant } from '../../platform/db/statement.ts';
import type { Db } from '../../platform/db/pool.ts';
import { withSystem, withTenant } from '../../platform/db/transaction.ts';
import type { JobUpdate } from '../../protocol/index.ts';
import { rowsOf, WORK_SOURCES, type WorkRow, type WorkSource } from './job-feed.queries.ts';

function toWorkUpdate(kind: string, row: WorkRow): JobUpdate {
  const { id, org_id: orgId, device_id: deviceId, command_id: commandId, state, phase, percent } = row;
  const amounts = {
    done: row.done,
    total: row.total,
    rate: row.rate,
    etaSeconds: row.eta_seconds,
    filesDone: row.files_done,
    filesTotal: row.files_total,
  };
  return {
    id,
    kind,
    orgId,
    ...(deviceId === null ? {} : { deviceId }),
    ...(commandId === null ? {} : { commandId }),
    state,
    phase: state === 'running' ? (phase ?? state) : state,
    percent,
    ...numbers(amounts),
    ...(row.path === null ? {} : { path: row.path }),
    ...(row.message === null ? {} : { message: row.message }),
    ...(row.stalled_since === null ? {} : { stalledSince: row.stalled_since.toISOString() }),
    at: row.updated_at.toISOString(),
  };
}

const numbers = (amounts: Record<string, string | null>) =>
  Object.fromEntries(
    Object.entries(amounts).flatMap(([name, amount]) => (amount === null ? [] : [[name, Number(amount)]])),
  );

/** The channel on which the database announces changes of long work (migrations/0013_backup.sql). */
export const LONG_WORK_CHANNEL = 'muster_long_work';

/** Open work of each kind that a subscriber is shown. */
const SHOWN_MAX = 200;
/** After announcements were missed. Dashboards see the rest with its next change. */
const READ_AGAIN_MAX = 5000;

/**
 * The feed of backups, restores and other long work for dashboards (docs/decisions/backup-jobs.md).
 * @param others  kinds of work of other features
 */
export function createLongWork(db: Db, others: readonly WorkSource[]): LongWork {
  const all = [...WORK_SOURCES, ...others];
  return {
    async read({ kind, ids }) {
      const source = all.find((each) => each.kind === kind);
      // A server of another release may know more kinds.
      if (source === undefined) return [];
      return withSystem(db, 'read work that has changed, for dashboards', async (tx) =>
        changes(source, await rowsOf(tx, source, 'where w.id = any(?::uuid[])', [[...ids]])),
      );
    },

    async since(at) {
      const missed: JobChange[] = [];
      for (const source of all) {
        const rows = await withSystem(db, 'read work that may have changed, for dashboards', (tx) =>
          rowsOf(
            tx,
            source,
            'where w.finished_at is null or w.finished_at >= ? order by w.created_at desc limit ?',
            [at, READ_AGAIN_MAX],
          ),
        );
        missed.push(...changes(source, rows));
      }
      return missed;
    },

    async shown(caller, { orgId = null, deviceId = null, jobId = null }) {
      const sources = all.filter(({ permission }) => holds(caller.permissions, permission));
      if (sources.length === 0) return [];
      return withTenant(
        db,
        caller,
        async (tx) => {
          const updates = [];
          for (const source of sources) {
            const rows = await rowsOf(
              tx,
              source,
              `where ${inTenant(caller, 'w.org_id')}
                and ${jobId === null ? 'w.finished_at is null and ?::uuid is null' : 'w.id = ?::uuid'}
                and (?::uuid is null or w.org_id = ?::uuid) and (?::uuid is null or w.device_id = ?::uuid)
              order by w.created_at desc, w.id desc limit ?`,
              [jobId, orgId, orgId, deviceId, deviceId, SHOWN_MAX],
            );
            updates.push(...rows.map((row) => toWorkUpdate(source.kind, row)));
          }
          return updates;
        },
        { readOnly: true },
      );
    },
  };
}

const changes = ({ kind, permission }: WorkSource, rows: readonly WorkRow[]): JobChange[] =>
  rows.map((row) => ({
    update: toWorkUpdate(kind, row),
    partnerId: row.partner_id,
    permission,
  }));
