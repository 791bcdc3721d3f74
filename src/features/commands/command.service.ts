import type { DeviceHub } from '../../hub/index.ts';
import type { CommandPayload, DurableCommandType } from '../../protocol/index.ts';
import { holds, type Context } from '../../platform/context.ts';
import type { Query } from '../../platform/db/pool.ts';
import { inTenant } from '../../platform/db/tenant-filter.ts';
import { AppError, notFound } from '../../platform/errors.ts';
import type { Page } from '../../platform/http/pagination.ts';
import { newId } from '../../platform/ids.ts';
import { devicesToManage, type DeviceToManage, mayBeAble, readDevice } from '../devices/index.ts';
import { assertManageable } from '../organizations/index.ts';
import { type JobRow, PARTNER_ID, toJobChange } from './job-updates.ts';
import type {
  Command,
  CommandQuery,
  CommandWithHistory,
  NewCommand,
  NewCommands,
  Refusal,
} from './command.schema.ts';

/** What a device may take for work that names no time of its own. */
const DEFAULT_TIMEOUT_SECONDS = 120;

interface Row extends JobRow {
  payload: unknown;
  reason: string | null;
  is_connected: boolean;
  created_by: string | null;
  attempt: number;
  cancel_requested_at: Date | null;
  output: unknown;
  late_result: unknown;
  created_at: Date;
  expires_at: Date;
  started_at: Date | null;
  finished_at: Date | null;
}

const commandsOf = (ctx: Context): Query =>
  ctx
    .tx('commands as c')
    .leftJoin('device_presence as p', 'p.device_id', 'c.device_id')
    .whereRaw(inTenant(ctx.caller, 'c.org_id'));

const IS_CONNECTED = `p.state is not distinct from 'connected' as is_connected`;

const select = (ctx: Context, query: ReturnType<typeof commandsOf>): Query<Row> =>
  query.select('c.*', ctx.tx.raw(IS_CONNECTED), ctx.tx.raw(PARTNER_ID));

function toCommand(row: Row, hub: DeviceHub): Command {
  const live = hub.live(row.device_id);
  return {
    id: row.id,
    orgId: row.org_id,
    deviceId: row.device_id,
    type: row.type,
    status: row.status,
    reason: row.reason,
    waitsForDevice: row.status === 'queued' && !(live?.isThere ?? row.is_connected),
    createdBy: row.created_by,
    attempt: row.attempt,
    cancelRequestedAt: row.cancel_requested_at,
    progress: row.progress,
    output: row.output,
    error: row.error,
    createdAt: row.created_at,
    expiresAt: row.expires_at,
    startedAt: row.started_at,
    finishedAt: row.finished_at,
  };
}

/** Puts work for one device into the ledger; it is sent when the device is there. */
export async function createCommand(
  ctx: Context,
  deviceId: string,
  input: NewCommand,
  hub: DeviceHub,
): Promise<Command> {
  assertMayStart(ctx, input.type);
  const [device] = await devicesToManage(ctx, [deviceId]);
  if (device === undefined) throw notFound('Device');
  await assertManageable(ctx, device.orgId);
  if (!mayBeAble(hub, device, input.type)) {
    throw new AppError('capability_missing', `The agent on this device cannot do "${input.type}".`);
  }
  const [command] = await addCommands(ctx, [device], input, hub);
  if (command === undefined) throw new Error('a command that was made is not there');
  return command;
}

/** The same work for many devices; those that cannot have it are told apart. */
export async function createCommands(
  ctx: Context,
  { deviceIds, ...input }: NewCommands,
  hub: DeviceHub,
): Promise<{ commands: Command[]; refused: Refusal[] }> {
  assertMayStart(ctx, input.type);
  const found = new Map((await devicesToManage(ctx, deviceIds)).map((device) => [device.id, device]));
  const fit: DeviceToManage[] = [];
  const refused: Refusal[] = [];
  for (const deviceId of deviceIds) {
    const device = found.get(deviceId);
    const why = device === undefined ? GONE : misfit(hub, input.type, device);
    if (why !== undefined) refused.push({ deviceId, ...why });
    else if (device !== undefined) fit.push(device);
  }
  if (fit.length === 0) {
    throw new AppError('conflict', 'None of these devices can be given this work.', { details: refused });
  }
  return { commands: await addCommands(ctx, fit, input, hub), refused };
}

const GONE = { code: 'NOT_FOUND', message: 'Device not found' };

function misfit(
  hub: DeviceHub,
  type: DurableCommandType,
  device: DeviceToManage,
): Omit<Refusal, 'deviceId'> | undefined {
  if (!device.isManageable) {
    return { code: 'TENANT_INACTIVE', message: 'The organization of this device is not active.' };
  }
  if (mayBeAble(hub, device, type)) return undefined;
  return { code: 'CAPABILITY_MISSING', message: `The agent on this device cannot do "${type}".` };
}

function assertMayStart(ctx: Context, type: DurableCommandType): void {
  if (type === 'script.run' && !holds(ctx.caller.permissions, 'scripts:execute')) {
    throw new AppError('forbidden', 'This needs the permission scripts:execute.');
  }
}

/** The same work for many devices, which the caller has found to be theirs and fit for it. */
export async function addCommands<T extends DurableCommandType>(
  ctx: Context,
  devices: readonly { id: string; orgId: string }[],
  work: {
    type: T;
    payload: CommandPayload<T>;
    ttlSeconds: number;
    /** What it was started as a part of. */
    execution?: { id: string; scriptId: string };
  },
  hub: DeviceHub,
): Promise<Command[]> {
  const { type, payload, ttlSeconds, execution } = work;
  const timeout = 'timeoutSeconds' in payload ? payload.timeoutSeconds : DEFAULT_TIMEOUT_SECONDS;
  const ids = devices.map(() => newId());
  await ctx.tx.raw(
    `insert into commands (id, org_id, device_id, type, payload, created_by, timeout_seconds, expires_at, execution_id,
      script_id)
    select u.id, u.org_id, u.device_id, ?, ?::jsonb, ?::uuid, ?::int, now() + make_interval(secs => ?::int), ?::uuid,
      ?::uuid
    from unnest(?::uuid[], ?::uuid[], ?::uuid[]) as u (id, org_id, device_id)`,
    [
      type,
      JSON.stringify(payload),
      ctx.caller.userId,
      timeout,
      ttlSeconds,
      execution?.id ?? null,
      execution?.scriptId ?? null,
      ids,
      devices.map(({ orgId }) => orgId),
      devices.map(({ id }) => id),
    ],
  );
  const made = await select(ctx, commandsOf(ctx).whereRaw('c.id = any(?::uuid[])', [ids]).orderBy('c.id'));
  ctx.afterCommit(() => {
    hub.jobsChanged(made.map(toJobChange));
    for (const { id } of devices) hub.deliver(id);
  });
  return made.map((row) => toCommand(row, hub));
}

export async function listCommands(
  ctx: Context,
  deviceId: string,
  { page, limit, status }: CommandQuery,
  hub: DeviceHub,
): Promise<Page<Command>> {
  await readDevice(ctx, deviceId);
  const matching = commandsOf(ctx).where('c.device_id', deviceId);
  if (status !== undefined) void matching.where('c.status', status);
  const [counted] = await matching.clone().count<{ count: string }[]>('* as count');
  const rows = await select(
    ctx,
    matching
      .orderBy([
        { column: 'c.created_at', order: 'desc' },
        { column: 'c.id', order: 'desc' },
      ])
      .offset((page - 1) * limit)
      .limit(limit),
  );
  return {
    data: rows.map((row) => toCommand(row, hub)),
    pagination: { page, limit, total: Number(counted?.count ?? 0) },
  };
}

async function findCommand(ctx: Context, id: string): Promise<Row> {
  const [row] = await select(ctx, commandsOf(ctx).where('c.id', id));
  if (row === undefined) throw notFound('Command');
  return row;
}

export async function readCommandWithHistory(
  ctx: Context,
  id: string,
  hub: DeviceHub,
): Promise<CommandWithHistory> {
  const row = await findCommand(ctx, id);
  const transitions = await ctx
    .tx('command_transitions')
    .where({ command_id: id })
    .orderBy('seq')
    .select<CommandWithHistory['transitions']>(
      'from_status as from',
      'to_status as to',
      'reason',
      'attempt',
      'at',
    );
  const payload = holds(ctx.caller.permissions, 'devices:execute') ? row.payload : null;
  return { ...toCommand(row, hub), payload, lateResult: row.late_result, transitions };
}

/**
 * Ends work. What was not sent yet is over at once; what the device may have, it is asked to stop, and how it then ended
 * is what it says: work that was done in the meantime is done.
 */
export async function cancelCommand(ctx: Context, id: string, hub: DeviceHub): Promise<Command> {
  const { org_id: orgId } = await findCommand(ctx, id);
  await assertManageable(ctx, orgId);
  const { rows } = await ctx.tx.raw(
    `update commands set cancel_requested_at = coalesce(cancel_requested_at, now()),
      status = case when status = 'queued' then 'cancelled' else status end,
      reason = case when status = 'queued' then 'not_sent' else reason end,
      finished_at = case when status = 'queued' then now() end
    where id = ? and status in ('queued', 'dispatched', 'accepted', 'running')
    returning device_id`,
    [id],
  );
  const command = await findCommand(ctx, id);
  const [cancelled] = rows as { device_id: string }[];
  if (cancelled === undefined) {
    throw new AppError('conflict', `The command has ended: ${command.status}.`);
  }
  ctx.afterCommit(() => {
    if (command.status === 'cancelled') hub.jobsChanged([toJobChange(command)]);
    else hub.cancelCommand(cancelled.device_id, id);
  });
  return toCommand(command, hub);
}
