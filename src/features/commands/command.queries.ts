import type { Tx } from '../../platform/db/transaction.ts';
import { clock } from '../../clock.ts';
import type { JobChange } from '../../hub/ports.ts';
import type { JobUpdate, CommandSecrets } from '../../protocol/index.ts';
import type { Command } from './command.model.ts';
import { newId } from '../../platform/ids.ts';
import type { SealedColumn } from '../../platform/secrets/secrets.queries.ts';
import { SealBrokenError, sealContext, type Encryptor } from '../../platform/secrets/sealed.ts';
import type { TimelineSource } from '../timeline-source.ts';

/** The row that a job update is made from: a `Command`, or the columns below. */
export type JobRow = Pick<
  Command,
  'id' | 'orgId' | 'deviceId' | 'type' | 'status' | 'progress' | 'error' | 'partnerId'
> & { exit?: { exitCode: number | null } | null };

/** The columns of a `JobRow`, of rows of `commands c`. */
export const JOB_COLUMNS = `c.id, c.org_id as "orgId", c.device_id as "deviceId", c.type, c.status, c.progress, c.error,
  case when c.type = 'script.run' and c.status = 'succeeded'
    then jsonb_build_object('exitCode', c.output -> 'exitCode') end as exit,
  (select o.partner_id from organizations o where o.id = c.org_id) as "partnerId"`;

/**
 * @param at  the state is not older: of an answer, when it was asked for, before it was read; of a change, any time after
 * its commit. So a dashboard that gets both knows which one is newer.
 */
export function toJobUpdate(row: JobRow, at: Date): JobUpdate {
  const { id, orgId, deviceId, type, status, progress, error, exit } = row;
  const message = error?.message ?? progress?.message;
  return {
    ...progress,
    id,
    kind: type,
    orgId,
    deviceId,
    state: status,
    phase: status === 'running' ? (progress?.phase ?? status) : status,
    ...(message === undefined ? {} : { message }),
    ...exit,
    at: at.toISOString(),
  };
}

/** The change that dashboards are shown, made of a row as it has been committed. */
export const toJobChange = (row: JobRow): JobChange => ({
  update: toJobUpdate(row, clock.date()),
  partnerId: row.partnerId,
});

interface NewRows {
  ids: readonly string[];
  devices: readonly { id: string; orgId: string }[];
  type: string;
  payload: object;
  createdBy: string | null;
  timeoutSeconds: number;
  ttlSeconds: number;
  execution: { id: string; scriptId: string | null } | undefined;
}

/** Adds the same command for many devices in one statement; `ids` are in the order of `devices`. */
export async function insertCommands(tx: Tx, rows: NewRows): Promise<void> {
  const { ids, devices, type, payload, createdBy, timeoutSeconds, ttlSeconds, execution } = rows;
  await tx.raw(
    `insert into commands (id, org_id, device_id, type, payload, created_by, timeout_seconds, expires_at, execution_id,
      script_id)
    select u.id, u.org_id, u.device_id, :type, :payload::jsonb, :createdBy::uuid, :timeoutSeconds::int,
      now() + make_interval(secs => :ttlSeconds::int), :executionId::uuid, :scriptId::uuid
    from unnest(:ids::uuid[], :orgIds::uuid[], :deviceIds::uuid[]) as u (id, org_id, device_id)`,
    {
      type,
      payload: JSON.stringify(payload),
      createdBy,
      timeoutSeconds,
      ttlSeconds,
      executionId: execution?.id ?? null,
      scriptId: execution?.scriptId ?? null,
      ids: [...ids],
      orgIds: devices.map(({ orgId }) => orgId),
      deviceIds: devices.map(({ id }) => id),
    },
  );
}

/**
 * Cancels a command that was not sent yet, and notes the request on one that the device may have.
 * @returns whether the command was still open
 */
export async function requestCancel(tx: Tx, id: string): Promise<boolean> {
  const { rowCount } = await tx.raw<{ rowCount: number }>(
    `update commands set cancel_requested_at = coalesce(cancel_requested_at, now()),
      status = case when status = 'queued' then 'cancelled' else status end,
      reason = case when status = 'queued' then 'not_sent' else reason end,
      finished_at = case when status = 'queued' then now() end
    where id = ? and status in ('queued', 'dispatched', 'accepted', 'running')`,
    [id],
  );
  return rowCount > 0;
}

/** Secrets that the payloads of commands refer to (docs/decisions/command-ledger.md). */

export const SEALED_COMMAND_SECRET: SealedColumn = { table: 'command_secrets', column: 'value', id: 'id' };

const contextOf = (rowId: string) => sealContext('command_secrets', 'value', rowId);

/** Values by reference, and what seals them. */
export interface SecretsToSeal {
  values: CommandSecrets;
  encryptor: Encryptor;
}

/** Each command gets its own copy, which ends with it. */
export async function insertSecrets(
  tx: Tx,
  commands: readonly { id: string; orgId: string }[],
  { values, encryptor }: SecretsToSeal,
): Promise<void> {
  const rows = commands.flatMap(({ id: commandId, orgId }) =>
    Object.entries(values).map(([ref, value]) => {
      const id = newId();
      return { id, orgId, commandId, ref, sealed: encryptor.seal(value, contextOf(id)) };
    }),
  );
  await tx.raw(
    `insert into command_secrets (id, org_id, command_id, ref, value)
    select * from unnest(:ids::uuid[], :orgIds::uuid[], :commandIds::uuid[], :refs::uuid[], :values::text[])`,
    {
      ids: rows.map(({ id }) => id),
      orgIds: rows.map(({ orgId }) => orgId),
      commandIds: rows.map(({ commandId }) => commandId),
      refs: rows.map(({ ref }) => ref),
      values: rows.map(({ sealed }) => sealed),
    },
  );
}

/**
 * The secrets of commands that are about to be sent, by command and reference. Those of a command of which one does not
 * open are left out altogether.
 */
export async function openSecrets(
  tx: Tx,
  encryptor: Encryptor,
  commandIds: readonly string[],
): Promise<Map<string, CommandSecrets>> {
  const { rows } = await tx.raw(
    'select id, command_id, ref, value from command_secrets where command_id = any(?::uuid[])',
    [[...commandIds]],
  );
  const opened = new Map<string, CommandSecrets>();
  const broken = new Set<string>();
  for (const row of rows as { id: string; command_id: string; ref: string; value: string }[]) {
    const secrets = opened.get(row.command_id) ?? {};
    opened.set(row.command_id, secrets);
    try {
      secrets[row.ref] = encryptor.open(row.value, contextOf(row.id)).text;
    } catch (error) {
      if (!(error instanceof SealBrokenError)) throw error;
      broken.add(row.command_id);
    }
  }
  for (const commandId of broken) opened.delete(commandId);
  return opened;
}

export async function recordPostponed(
  tx: Tx,
  events: readonly { id: string; deviceId: string; attempt: number }[],
): Promise<JobRow[]> {
  if (events.length === 0) return [];
  const { rows } = await tx.raw(
    `update commands c set status = 'queued', reason = 'device_busy', epoch = null
    from unnest(?::uuid[], ?::uuid[], ?::integer[]) as e (id, device_id, attempt)
    where c.id = e.id and c.device_id = e.device_id and c.status = 'dispatched' and c.attempt = e.attempt
    returning ${JOB_COLUMNS}`,
    [
      events.map(({ id }) => id),
      events.map(({ deviceId }) => deviceId),
      events.map(({ attempt }) => attempt),
    ],
  );
  return rows as JobRow[];
}

export async function changeOf(tx: Tx, id: string): Promise<JobChange> {
  const [change] = await changesOf(tx, [id]);
  if (change === undefined) throw new Error(`the command ${id} is not there`);
  return change;
}

/** In no order. */
export async function changesOf(tx: Tx, ids: readonly string[]): Promise<JobChange[]> {
  const { rows } = await tx.raw<{ rows: JobRow[] }>(
    `select ${JOB_COLUMNS} from commands c where c.id = any(?::uuid[])`,
    [[...ids]],
  );
  return rows.map(toJobChange);
}

/**
 * Cancels commands of executions that were not sent yet, for a reason.
 * @param which  SQL: of which executions, as a query of their ids
 */
export async function cancelUnsent(
  tx: Tx,
  which: { sql: string; values: readonly string[] },
  { deviceIds, reason }: { deviceIds: readonly string[]; reason: string },
): Promise<JobChange[]> {
  const unsent = `device_id = any(?::uuid[]) and status = 'queued' and execution_id in (${which.sql})`;
  const values = [[...deviceIds], ...which.values];
  const locked = await tx.raw<{ rows: { id: string }[] }>(
    `select id from commands where ${unsent} order by id for no key update`,
    values as never,
  );
  if (locked.rows.length === 0) return [];
  const { rows } = await tx.raw<{ rows: JobRow[] }>(
    `update commands c set status = 'cancelled', reason = ?, cancel_requested_at = now(), finished_at = now()
    where c.id = any(?::uuid[]) and c.status = 'queued' returning ${JOB_COLUMNS}`,
    [reason, locked.rows.map(({ id }) => id)],
  );
  return rows.map(toJobChange);
}

/**
 * Asks for the end of some commands of an execution for which nobody has asked yet, as `requestCancel` does for one.
 * @returns what has ended, what its device is to be told to end, and how many were asked for
 */
export async function requestCancelOfExecution(
  tx: Tx,
  executionId: string,
  atMost: number,
): Promise<{ ended: JobChange[]; asked: { id: string; deviceId: string }[]; count: number }> {
  const open = await tx.raw<{ rows: { id: string }[] }>(
    `select id from commands where execution_id = ? and cancel_requested_at is null
      and status in ('queued', 'dispatched', 'accepted', 'running')
    order by id limit ? for no key update`,
    [executionId, atMost],
  );
  const { rows } = await tx.raw<{ rows: JobRow[] }>(
    `update commands c set cancel_requested_at = now(),
      status = case when c.status = 'queued' then 'cancelled' else c.status end,
      reason = case when c.status = 'queued' then 'not_sent' else c.reason end,
      finished_at = case when c.status = 'queued' then now() end
    where c.id = any(?::uuid[]) and c.status in ('queued', 'dispatched', 'accepted', 'running')
    returning ${JOB_COLUMNS}`,
    [open.rows.map(({ id }) => id)],
  );
  return {
    ended: rows.filter(({ status }) => status === 'cancelled').map(toJobChange),
    asked: rows.filter(({ status }) => status !== 'cancelled'),
    count: open.rows.length,
  };
}

export const jobColumns = (tx: Tx) => tx.raw(JOB_COLUMNS);

/** Makes work follow the command that it has given to a device (migrations/0011_work.sql). */
export const setWorkOfCommand = async (tx: Tx, id: string, workId: string): Promise<void> => {
  await tx.raw('update commands set work_id = ? where id = ?', [workId, id]);
};

/** Commands of a piece of work are not listed beside that. */
export const commandTimeline: TimelineSource = {
  kind: 'command',
  from: `commands t left join scripts s on s.id = t.script_id
    where t.device_id = :deviceId and t.org_id = :orgId and t.work_id is null`,
  id: 't.id::text',
  at: 't.created_at',
  endedAt: 't.finished_at',
  by: 't.created_by',
  fields: { type: 't.type', scriptName: 's.name', runId: 't.execution_id', status: 't.status' },
};
