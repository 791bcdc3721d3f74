import {
  jobColumns,
  openSecrets,
  type JobRow,
  toJobChange,
  toJobUpdate,
  recordPostponed,
} from './command.queries.ts';
import { z } from 'zod';
import { clock } from '../../clock.ts';
import type { CommandEnd, CommandEvent, CommandLedger, DispatchedCommand } from '../../hub/ports.ts';
import { AgentErrorCode, secretRefsIn } from '../../protocol/index.ts';
import type { Db } from '../../platform/db/pool.ts';
import { inTenant } from '../../platform/db/statement.ts';
import { withSystem, withTenant, type Tx } from '../../platform/db/transaction.ts';
import { notFound } from '../../platform/errors.ts';
import type { Encryptor } from '../../platform/secrets/sealed.ts';
import { assertOrganizationAccess } from '../organizations/index.ts';
import {
  type TakenRow,
  takeCommands,
  cancelRequested,
  undeliveredDevices,
  endOverdueCommands,
  recordAccepted,
  recordRunning,
  recordFinished,
} from './command-ledger.queries.ts';

/** Open jobs shown to a user. */
const JOBS_SHOWN = 200;
const OPEN = `c.status in ('queued', 'dispatched', 'accepted', 'running')`;

const isUuid = (id: string) => z.uuid().safeParse(id).success;

/** The ledger in Postgres. Every change says from which states it may come, so what has ended stays as it ended. */
export function createCommandLedger({
  db,
  nodeId,
  encryptor,
  onEnded,
}: {
  db: Db;
  nodeId: string;
  encryptor: Encryptor;
  /** Called with the types of commands whose ends a device has reported, once these are stored. */
  onEnded?: (types: readonly string[]) => void;
}): CommandLedger {
  return {
    async take(claims) {
      const taken = await withSystem(db, 'take the commands of many devices', async (tx) => {
        const rows = await takeCommands(tx, claims, nodeId);
        const cancelled = await cancelRequested(
          tx,
          claims.map(({ deviceId }) => deviceId),
        );
        const { sendable, failed } = await withSecrets(tx, encryptor, rows.map(toDispatched));
        return { dispatched: sendable, cancelled, changed: [...rows, ...failed] };
      });
      return { ...taken, changed: taken.changed.map(toJobChange) };
    },

    async record(events) {
      const known = events.filter(({ id }) => isUuid(id));
      if (known.length === 0) return [];
      let ended: JobRow[] = [];
      const changed = await withSystem(db, 'record command events', async (tx) => {
        const accepted = await recordAccepted(tx, ofKind(known, 'accepted'));
        const postponed = await recordPostponed(tx, ofKind(known, 'postponed'));
        const running = await recordRunning(tx, ofKind(known, 'running'));
        const finished = ofKind(known, 'finished').map(({ id, deviceId, end }) => ({ id, deviceId, ...end }));
        ended = await recordFinished(tx, finished);
        return [...accepted, ...postponed, ...running, ...ended];
      });
      if (ended.length > 0) onEnded?.(ended.map(({ type }) => type));
      return changed.map(toJobChange);
    },

    async undelivered(after, atMost) {
      return withSystem(db, 'find undelivered commands', (tx) => undeliveredDevices(tx, { after, atMost }));
    },

    async sweep() {
      const ended = await withSystem(db, 'end overdue and expired commands', endOverdueCommands);
      return ended.map(toJobChange);
    },

    async jobs(caller, { orgId, deviceId, jobId }) {
      const askedAt = clock.date();
      return withTenant(
        db,
        caller,
        async (tx) => {
          const query = tx('commands as c').whereRaw(inTenant(caller, 'c.org_id'));
          if (orgId !== undefined) {
            await assertOrganizationAccess({ tx, caller }, orgId);
            void query.where('c.org_id', orgId);
          }
          if (deviceId !== undefined) {
            const known = await tx('devices')
              .where({ id: deviceId })
              .whereRaw(inTenant(caller, 'org_id'))
              .first('id');
            if (known === undefined) throw notFound('Device');
            void query.where('c.device_id', deviceId);
          }
          if (jobId === undefined) void query.whereRaw(OPEN);
          else void query.where('c.id', jobId);
          const rows = await query
            .orderBy([
              { column: 'c.created_at', order: 'desc' },
              { column: 'c.id', order: 'desc' },
            ])
            .limit(JOBS_SHOWN)
            .select<JobRow[]>(jobColumns(tx));
          return rows.map((row) => toJobUpdate(row, askedAt));
        },
        { readOnly: true },
      );
    },
  };
}

const ofKind = <K extends CommandEvent['kind']>(events: readonly CommandEvent[], kind: K) =>
  events.filter((event): event is Extract<CommandEvent, { kind: K }> => event.kind === kind);

const toDispatched = (row: TakenRow): DispatchedCommand => ({
  id: row.id,
  deviceId: row.deviceId,
  type: row.type,
  payload: row.payload,
  attempt: row.attempt,
  epoch: Number(row.epoch),
  deadline: row.deadline.toISOString(),
});

/** Puts in the secrets that payloads refer to. A command whose secrets cannot be read fails and is not sent. */
async function withSecrets(
  tx: Tx,
  encryptor: Encryptor,
  commands: readonly DispatchedCommand[],
): Promise<{ sendable: DispatchedCommand[]; failed: JobRow[] }> {
  const referring = new Map(
    commands.flatMap(({ id, payload }) => {
      const refs = secretRefsIn(payload);
      return refs.length === 0 ? [] : [[id, refs] as const];
    }),
  );
  if (referring.size === 0) return { sendable: [...commands], failed: [] };
  const opened = await openSecrets(tx, encryptor, [...referring.keys()]);
  const isComplete = ({ id }: DispatchedCommand) =>
    referring.get(id)?.every((ref) => opened.get(id)?.[ref] !== undefined) ?? true;
  const sendable = commands.filter(isComplete).map((command) => {
    const secrets = opened.get(command.id);
    return secrets === undefined ? command : { ...command, secrets };
  });
  const unreadable = commands.filter((command) => !isComplete(command));
  const failed = await recordFinished(
    tx,
    unreadable.map(({ id, deviceId }) => ({ id, deviceId, ...UNREADABLE })),
  );
  return { sendable, failed };
}

const UNREADABLE: CommandEnd = {
  status: 'failed',
  error: {
    code: AgentErrorCode.secretUnavailable,
    message: 'A secret of this command cannot be read any more.',
  },
};
