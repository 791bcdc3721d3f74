import { raw } from 'objection';
import type { Context } from '../../platform/context.ts';
import { inTenant, nameOrder } from '../../platform/db/statement.ts';
import type { TenantScope } from '../../platform/db/tenant-scope.ts';
import type { Tx } from '../../platform/db/transaction.ts';
import type { Page } from '../../platform/http/pagination.ts';
import type { Refusal } from '../commands/index.ts';
import { ScriptRun, type ScriptVersion } from './script-run.model.ts';
import {
  type Counts,
  NAMES_MAX,
  type OutputGroup,
  PREVIEW_MAX,
  type RunDevice,
  type RunDeviceQuery,
  type RunOutcome,
  type RunOutput,
  type ScriptRunQuery,
} from './script-run.schema.ts';

export interface Reader {
  tx: Tx;
  caller: TenantScope;
}

export interface DeviceOfRun {
  id: string;
  orgId: string;
}

const isVisible = ({ caller }: Reader): string =>
  caller.scope === 'system'
    ? 'true'
    : `(script_runs.partner_id = (select app_partner_wide())
        or script_runs.org_ids && (select app_org_ids())::uuid[])`;

const HAS_OPEN = (
  caller: TenantScope,
) => `exists (select from script_run_devices d where d.run_id = script_runs.id
  and d.outcome in ('waiting', 'running') and ${inTenant(caller, 'd.org_id')})`;

/** SQL: the state of a run, as far as the caller sees its devices. */
const stateSql = (caller: TenantScope): string => `case
  when script_runs.error is not null then 'failed'
  when script_runs.started_at is null and script_runs.cancel_requested_at is null then 'starting'
  when ${HAS_OPEN(caller)}
    then case when script_runs.cancel_requested_at is null then 'running' else 'cancelling' end
  when script_runs.cancel_requested_at is not null then 'cancelled'
  else 'completed' end`;

/** The runs of which the caller may see a device, as they stand. */
export const visibleRuns = (ctx: Reader) =>
  ScriptRun.query(ctx.tx)
    .whereRaw(isVisible(ctx))
    .select(
      'script_runs.*',
      raw(`${stateSql(ctx.caller)} as state`),
      // Row-level security hides people of whom the caller knows nothing.
      raw('(select u.name from users u where u.id = script_runs.created_by) as created_by_name'),
      raw(
        `array(select o.id from organizations o where o.id = any(script_runs.org_ids)
          and ${inTenant(ctx.caller, 'o.id')}) as visible_org_ids`,
      ),
    );

export const runsFound = (ctx: Reader, { scriptId, scheduleId, createdBy, orgId, state }: ScriptRunQuery) => {
  const runs = visibleRuns(ctx).orderBy([
    { column: 'script_runs.created_at', order: 'desc' },
    { column: 'script_runs.id', order: 'desc' },
  ]);
  if (scriptId !== undefined) void runs.where('script_runs.script_id', scriptId);
  if (scheduleId !== undefined) void runs.where('script_runs.schedule_id', scheduleId);
  if (createdBy !== undefined) void runs.where('script_runs.created_by', createdBy);
  if (orgId !== undefined) void runs.whereRaw('script_runs.org_ids @> array[?]::uuid[]', [orgId]);
  if (state !== undefined) void runs.whereRaw(`${stateSql(ctx.caller)} = ?`, [state]);
  return runs;
};

export interface Tally {
  counts: Counts;
  total: number;
  finishedAt: Date | null;
}

const NONE: Counts = {
  waiting: 0,
  running: 0,
  completed: 0,
  failed: 0,
  timedOut: 0,
  cancelled: 0,
  expired: 0,
  refused: 0,
};

const COUNT_OF: Record<RunOutcome, keyof Counts> = {
  waiting: 'waiting',
  running: 'running',
  completed: 'completed',
  failed: 'failed',
  timed_out: 'timedOut',
  cancelled: 'cancelled',
  expired: 'expired',
  refused: 'refused',
};

export const emptyTally = (): Tally => ({ counts: { ...NONE }, total: 0, finishedAt: null });

/** How many devices of each run ended in which way, in one statement for all of them. */
export async function tallies(
  { tx, caller }: Reader,
  runIds: readonly string[],
): Promise<Map<string, Tally>> {
  const { rows } = await tx.raw<{
    rows: { run_id: string; outcome: RunOutcome; devices: number; last: Date | null }[];
  }>(
    `select run_id, outcome, count(*)::int as devices, max(finished_at) as last from script_run_devices
    where run_id = any(?::uuid[]) and ${inTenant(caller, 'org_id')} group by 1, 2`,
    [[...runIds]],
  );
  const found = new Map<string, Tally>();
  for (const { run_id: runId, outcome, devices, last } of rows) {
    const tally = found.get(runId) ?? emptyTally();
    found.set(runId, tally);
    tally.counts[COUNT_OF[outcome]] += devices;
    tally.total += devices;
    if (last !== null && (tally.finishedAt === null || last > tally.finishedAt)) tally.finishedAt = last;
  }
  return found;
}

export async function insertDevices(tx: Tx, runId: string, devices: readonly DeviceOfRun[]): Promise<void> {
  await tx.raw(
    `insert into script_run_devices (run_id, org_id, device_id)
    select ?, u.org_id, u.device_id from unnest(?::uuid[], ?::uuid[]) as u (org_id, device_id)`,
    [runId, devices.map(({ orgId }) => orgId), devices.map(({ id }) => id)],
  );
}

/** Some devices of a run that have no command yet, locked until the end of the transaction. */
export async function lockUnadded(tx: Tx, runId: string, atMost: number): Promise<DeviceOfRun[]> {
  const { rows } = await tx.raw<{ rows: DeviceOfRun[] }>(
    `select device_id as id, org_id as "orgId" from script_run_devices
    where run_id = ? and command_id is null and refusal_code is null and finished_at is null
    order by device_id limit ? for no key update`,
    [runId, atMost],
  );
  return rows;
}

export async function noteCommands(
  tx: Tx,
  runId: string,
  commands: readonly { id: string; deviceId: string }[],
): Promise<void> {
  await tx.raw(
    `update script_run_devices d set command_id = u.id, status = 'queued'
    from unnest(?::uuid[], ?::uuid[]) as u (id, device_id) where d.run_id = ? and d.device_id = u.device_id`,
    [commands.map(({ id }) => id), commands.map(({ deviceId }) => deviceId), runId],
  );
}

export async function noteRefusals(tx: Tx, runId: string, refused: readonly Refusal[]): Promise<void> {
  await tx.raw(
    `update script_run_devices d set refusal_code = u.code, refusal = u.message, finished_at = now()
    from unnest(?::uuid[], ?::text[], ?::text[]) as u (device_id, code, message)
    where d.run_id = ? and d.device_id = u.device_id`,
    [
      refused.map(({ deviceId }) => deviceId),
      refused.map(({ code }) => code),
      refused.map(({ message }) => message),
      runId,
    ],
  );
}

/** Ends the devices that have no command and get none any more. */
export async function cancelUnadded(tx: Tx, runId: string): Promise<void> {
  await tx.raw(
    `update script_run_devices set status = 'cancelled', reason = 'not_sent', finished_at = now()
    where run_id = ? and command_id is null and refusal_code is null and finished_at is null`,
    [runId],
  );
}

/** The run, locked against being cancelled meanwhile; undefined if it is not to go on. */
export async function lockStarting(tx: Tx, runId: string): Promise<ScriptRun | undefined> {
  return ScriptRun.query(tx)
    .findById(runId)
    .whereNull('started_at')
    .whereNull('error')
    .whereNull('cancel_requested_at')
    .forNoKeyUpdate();
}

export async function noteStarted(tx: Tx, runId: string): Promise<void> {
  await tx.raw('update script_runs set started_at = now() where id = ? and started_at is null', [runId]);
}

/** Ends runs whose commands could not all be added: their other devices get none. */
export async function failStarting(tx: Tx, runIds: readonly string[], error: string): Promise<string[]> {
  await tx.raw('select from script_runs where id = any(?::uuid[]) order by id for no key update', [
    [...runIds],
  ]);
  const { rows } = await tx.raw<{ rows: { id: string }[] }>(
    `update script_runs set error = ? where id = any(?::uuid[]) and started_at is null and error is null
    returning id`,
    [error, [...runIds]],
  );
  const failed = rows.map(({ id }) => id);
  await tx.raw(
    `update script_run_devices set refusal_code = 'NOT_STARTED', refusal = ?, finished_at = now()
    where run_id = any(?::uuid[]) and command_id is null and refusal_code is null and finished_at is null`,
    [error, failed],
  );
  return failed;
}

/** Runs that began so long ago that their job has given up. */
export async function stuckRuns(tx: Tx, minutes: number): Promise<string[]> {
  const { rows } = await tx.raw<{ rows: { id: string }[] }>(
    `select id from script_runs where started_at is null and error is null and cancel_requested_at is null
      and created_at < now() - make_interval(mins => ?) order by id limit 100`,
    [minutes],
  );
  return rows.map(({ id }) => id);
}

/** The devices of a run that the caller sees and that are still in an organization of it. */
export async function devicesToRepeat(
  { tx, caller }: Reader,
  { id, orgIds }: ScriptRun,
  outcomes: readonly RunOutcome[] | undefined,
): Promise<DeviceOfRun[]> {
  const devices = tx('script_run_devices as r')
    .join('devices as d', (on) => void on.on('d.org_id', 'r.org_id').andOn('d.id', 'r.device_id'))
    .where('r.run_id', id)
    .whereNot('d.condition', 'decommissioned')
    .whereRaw(inTenant(caller, 'r.org_id'))
    .whereRaw('r.org_id = any(?::uuid[])', [orgIds])
    .orderBy('d.id')
    .select<DeviceOfRun[]>('d.id', 'd.org_id as orgId');
  if (outcomes !== undefined) void devices.whereRaw('r.outcome = any(?::text[])', [[...outcomes]]);
  return devices;
}

const NAME = 'coalesce(d.display_name, d.hostname)';

export async function pageOfDevices(
  { tx, caller }: Context,
  runId: string,
  { page, limit, outcome, outputHash }: RunDeviceQuery,
): Promise<Page<RunDevice>> {
  const matching = tx('script_run_devices as r')
    .where('r.run_id', runId)
    .whereRaw(inTenant(caller, 'r.org_id'));
  if (outcome !== undefined) void matching.where('r.outcome', outcome);
  if (outputHash !== undefined) void matching.where('r.output_hash', outputHash);
  const counted = matching.clone().count<{ total: string }[]>({ total: '*' });
  const rows = await matching
    .join('devices as d', (on) => void on.on('d.org_id', 'r.org_id').andOn('d.id', 'r.device_id'))
    .orderByRaw(`${nameOrder(NAME)}, d.id`)
    .offset((page - 1) * limit)
    .limit(limit)
    .select<DeviceRow[]>('r.*', tx.raw(`${NAME} as device_name`));
  const [count] = await counted;
  return { data: rows.map(toDevice), pagination: { page, limit, total: Number(count?.total ?? 0) } };
}

interface DeviceRow {
  device_id: string;
  org_id: string;
  device_name: string;
  outcome: RunOutcome;
  command_id: string | null;
  status: RunDevice['status'];
  reason: string | null;
  /** As the driver reads 64 bits. */
  exit_code: string | null;
  output_hash: string | null;
  started_at: Date | null;
  finished_at: Date | null;
  refusal_code: string | null;
  refusal: string | null;
}

const toDevice = (row: DeviceRow): RunDevice => ({
  deviceId: row.device_id,
  orgId: row.org_id,
  deviceName: row.device_name,
  outcome: row.outcome,
  commandId: row.command_id,
  status: row.status,
  reason: row.reason,
  exitCode: row.exit_code === null ? null : Number(row.exit_code),
  outputHash: row.output_hash,
  startedAt: row.started_at,
  finishedAt: row.finished_at,
  durationMs:
    row.started_at === null || row.finished_at === null
      ? null
      : Math.max(0, row.finished_at.getTime() - row.started_at.getTime()),
  refusal: row.refusal_code === null ? null : { code: row.refusal_code, message: row.refusal ?? '' },
});

/** Groups are made by hashes; only the outputs of the groups of the page are read, one each. */
export async function pageOfOutputs(
  { tx, caller }: Context,
  runId: string,
  { page, limit }: { page: number; limit: number },
): Promise<Page<OutputGroup>> {
  const { rows } = await tx.raw<{
    rows: {
      total: number;
      output_hash: string | null;
      exit_code: string | null;
      devices: number;
      names: string[];
      preview: string | null;
      size: number;
    }[];
  }>(
    `with alike as (
      select output_hash, min(exit_code) as exit_code, count(*)::int as devices, min(command_id::text)::uuid as command_id
      from script_run_devices where run_id = :runId and output_hash is not null and ${inTenant(caller, 'org_id')}
      group by output_hash
    ),
    shown as (select * from alike order by devices desc, output_hash offset :offset limit :limit)
    select counted.total, shown.output_hash, shown.exit_code, shown.devices, names.names,
      left(coalesce(nullif(c.output ->> 'stdout', ''), nullif(c.output ->> 'stderr', ''), c.error ->> 'message', ''),
        ${PREVIEW_MAX}) as preview,
      coalesce(length(c.output ->> 'stdout'), 0) + coalesce(length(c.output ->> 'stderr'), 0) as size
    from (select count(*)::int as total from alike) counted
    left join shown on true
    left join commands c on c.id = shown.command_id
    left join lateral (select array_agg(first.name) as names from (
      select ${NAME} as name from script_run_devices r
      join devices d on d.org_id = r.org_id and d.id = r.device_id
      where r.run_id = :runId and r.output_hash = shown.output_hash and ${inTenant(caller, 'r.org_id')}
      order by ${nameOrder(NAME)}, d.id limit ${NAMES_MAX}) first) names on true
    order by shown.devices desc, shown.output_hash`,
    { runId, offset: (page - 1) * limit, limit },
  );
  const data = rows.flatMap((row) =>
    row.output_hash === null
      ? []
      : {
          outputHash: row.output_hash,
          exitCode: row.exit_code === null ? null : Number(row.exit_code),
          devices: row.devices,
          deviceNames: row.names ?? [],
          preview: row.preview ?? '',
          size: row.size,
        },
  );
  return { data, pagination: { page, limit, total: rows[0]?.total ?? 0 } };
}

/** What the devices of a group have reported; undefined if there is no such group, or its commands are gone. */
export async function findOutput(
  { tx, caller }: Context,
  runId: string,
  outputHash: string,
): Promise<RunOutput | undefined> {
  const { rows } = await tx.raw<{
    rows: { exit_code: string | null; output: Partial<RunOutput> | null; error: RunOutput['error'] }[];
  }>(
    `select r.exit_code, c.output, c.error from script_run_devices r
    join commands c on c.org_id = r.org_id and c.id = r.command_id
    where r.run_id = ? and r.output_hash = ? and ${inTenant(caller, 'r.org_id')} limit 1`,
    [runId, outputHash],
  );
  const [row] = rows;
  if (row === undefined) return undefined;
  return {
    outputHash,
    exitCode: row.exit_code === null ? null : Number(row.exit_code),
    stdout: row.output?.stdout ?? '',
    stderr: row.output?.stderr ?? '',
    truncated: row.output?.truncated ?? false,
    error: row.error === null ? null : { code: row.error.code, message: row.error.message },
  };
}

export type NewRun = ScriptVersion &
  Pick<
    ScriptRun,
    | 'id'
    | 'partnerId'
    | 'orgIds'
    | 'parameters'
    | 'secretNames'
    | 'target'
    | 'againOf'
    | 'scheduleId'
    | 'slotAt'
    | 'createdBy'
    | 'expiresAt'
  >;

export async function insertRun(tx: Tx, run: NewRun): Promise<void> {
  await ScriptRun.query(tx).insert(run);
}
