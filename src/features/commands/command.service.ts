import { raw } from 'objection';
import type { DeviceHub } from '../../hub/index.ts';
import type {
  CommandPayload,
  DurableCommandType,
  SendableCommandType,
  CommandStatus,
} from '../../protocol/index.ts';
import { holds, type Context } from '../../platform/context.ts';
import { inTenant } from '../../platform/db/statement.ts';
import { AppError, notFound } from '../../platform/errors.ts';
import { type Page, toPage } from '../../platform/http/pagination.ts';
import { newId } from '../../platform/ids.ts';
import {
  AWAITS_APPROVAL,
  commandTargets,
  type CommandTarget,
  findDevice,
  supportsCommand,
  type TellAutoUpdate,
} from '../devices/index.ts';
import { assertManageable } from '../organizations/index.ts';
import { Command } from './command.model.ts';
import {
  insertCommands,
  requestCancel,
  toJobChange,
  insertSecrets,
  type SecretsToSeal,
  changeOf,
  changesOf,
} from './command.queries.ts';
import type {
  Command as CommandAnswer,
  CommandQuery,
  CommandWithHistory,
  NewCommand,
  NewCommands,
  Refusal,
} from './command.schema.ts';
import type { JobChange } from '../../hub/ports.ts';
import type { Tx } from '../../platform/db/transaction.ts';

/** The time limit for work that names none. */
const DEFAULT_TIMEOUT_SECONDS = 120;

/** The commands that the caller can see, with what their answers and job updates need beside the record. */
const visibleCommands = (ctx: Context) =>
  Command.query(ctx.tx)
    .joinRelated('organization')
    .leftJoinRelated('presence')
    .whereRaw(inTenant(ctx.caller, 'commands.org_id'))
    .select('commands.*', 'organization.partner_id', raw(IS_CONNECTED), raw(SCRIPT_NAME));

const IS_CONNECTED = `presence.state is not distinct from 'connected' as is_connected`;

/** The row policy hides scripts that the caller may not see. */
const SCRIPT_NAME = `(select s.name from scripts s where s.id = commands.script_id) as script_name`;

function toCommand(command: Command, hub: DeviceHub): CommandAnswer {
  const {
    id,
    orgId,
    deviceId,
    type,
    scriptName,
    status,
    reason,
    createdBy,
    attempt,
    progress,
    output,
    error,
  } = command;
  return {
    id,
    orgId,
    deviceId,
    type,
    scriptName,
    status,
    reason,
    waitsForDevice: status === 'queued' && !(hub.live(deviceId)?.isConnected ?? command.isConnected),
    createdBy,
    attempt,
    cancelRequestedAt: command.cancelRequestedAt,
    progress,
    output,
    error,
    createdAt: command.createdAt,
    expiresAt: command.expiresAt,
    startedAt: command.startedAt,
    finishedAt: command.finishedAt,
  };
}

/** Adds a command for one device. It is sent at once when the device is connected, else when it returns. */
export async function createCommand(
  ctx: Context,
  deviceId: string,
  input: NewCommand,
  hub: DeviceHub,
): Promise<CommandAnswer> {
  assertMayStart(ctx, input.type);
  const [device] = await commandTargets(ctx, [deviceId]);
  if (device === undefined) throw notFound('Device');
  await assertManageable(ctx, device.orgId);
  if (!supportsCommand(hub, device, input.type)) {
    throw new AppError('capability_missing', `The agent on this device cannot do "${input.type}".`);
  }
  const [command] = await addCommands(ctx, [device], input, hub);
  if (command === undefined) throw new Error('no command was created');
  return command;
}

/** Adds the same command for many devices, and lists the devices that cannot take it with the reason. */
export async function createCommands(
  ctx: Context,
  { deviceIds, ...input }: NewCommands,
  hub: DeviceHub,
): Promise<{ commands: CommandAnswer[]; refused: Refusal[] }> {
  assertMayStart(ctx, input.type);
  const found = new Map(
    (await commandTargets(ctx, deviceIds, { withPending: true })).map((device) => [device.id, device]),
  );
  const fit: CommandTarget[] = [];
  const refused: Refusal[] = [];
  for (const deviceId of deviceIds) {
    const device = found.get(deviceId);
    const why = device === undefined ? GONE : capabilityFault(hub, input.type, device);
    if (why !== undefined) refused.push({ deviceId, ...why });
    else if (device !== undefined) fit.push(device);
  }
  if (fit.length === 0) {
    throw new AppError('conflict', 'None of these devices can run this command.', { details: refused });
  }
  return { commands: await addCommands(ctx, fit, input, hub), refused };
}

/** Why a device that the caller cannot see is refused. */
export const GONE = { code: 'NOT_FOUND', message: 'Device not found' };

const PENDING = { code: 'DEVICE_PENDING', message: AWAITS_APPROVAL };

function capabilityFault(
  hub: DeviceHub,
  type: SendableCommandType,
  device: CommandTarget,
): Omit<Refusal, 'deviceId'> | undefined {
  if (!device.isManageable) {
    return { code: 'TENANT_INACTIVE', message: 'The organization of this device is not active.' };
  }
  if (device.isPending) return PENDING;
  if (supportsCommand(hub, device, type)) return undefined;
  return { code: 'CAPABILITY_MISSING', message: `The agent on this device cannot do "${type}".` };
}

function assertMayStart(ctx: Context, type: SendableCommandType): void {
  if (type === 'script.run' && !holds(ctx.caller.permissions, 'scripts:execute')) {
    throw new AppError('forbidden', 'This needs the permission scripts:execute.');
  }
}

/** Adds the same command for many devices, whose access and capabilities the caller has checked. */
export async function addCommands<T extends DurableCommandType>(
  ctx: Context,
  devices: readonly { id: string; orgId: string }[],
  work: {
    type: T;
    payload: CommandPayload<T>;
    ttlSeconds: number;
    /** The values of the references in the payload. */
    secrets?: SecretsToSeal;
  },
  hub: DeviceHub,
): Promise<CommandAnswer[]> {
  const { payload } = work;
  const added = await addServerCommands(ctx.tx, devices, {
    ...work,
    createdBy: ctx.caller.userId,
    timeoutSeconds: 'timeoutSeconds' in payload ? payload.timeoutSeconds : DEFAULT_TIMEOUT_SECONDS,
  });
  ctx.afterCommit(() => announceCommands(hub, added));
  return readCommands(ctx, added, hub);
}

/** Commands that were added, as answers show them, by their ids. */
export async function readCommands(
  ctx: Context,
  added: readonly Pick<AddedCommand, 'id'>[],
  hub: DeviceHub,
): Promise<CommandAnswer[]> {
  const commands = await visibleCommands(ctx)
    .whereRaw('commands.id = any(?::uuid[])', [added.map(({ id }) => id)])
    .orderBy('commands.id');
  return commands.map((command) => toCommand(command, hub));
}

export async function listCommands(
  ctx: Context,
  deviceId: string,
  query: CommandQuery,
  hub: DeviceHub,
): Promise<Page<CommandAnswer>> {
  await findDevice(ctx, deviceId);
  const commands = visibleCommands(ctx)
    .where('commands.device_id', deviceId)
    .orderBy([
      { column: 'commands.created_at', order: 'desc' },
      { column: 'commands.id', order: 'desc' },
    ])
    .page(query.page - 1, query.limit);
  if (query.status !== undefined) void commands.where('commands.status', query.status);
  const { data, pagination } = toPage(query, await commands);
  return { data: data.map((command) => toCommand(command, hub)), pagination };
}

async function findCommand(ctx: Context, id: string): Promise<Command> {
  const command = await visibleCommands(ctx).findById(id);
  if (command === undefined) throw notFound('Command');
  return command;
}

export async function readCommandWithHistory(
  ctx: Context,
  id: string,
  hub: DeviceHub,
): Promise<CommandWithHistory> {
  const command = await findCommand(ctx, id);
  const transitions = await command.$relatedQuery('transitions', ctx.tx).orderBy('seq');
  return {
    ...toCommand(command, hub),
    payload: holds(ctx.caller.permissions, 'devices:execute') ? command.payload : null,
    lateResult: command.lateResult,
    transitions: transitions.map(({ fromStatus, toStatus, reason, attempt, at }) => ({
      from: fromStatus,
      to: toStatus,
      reason,
      attempt,
      at,
    })),
  };
}

/**
 * Cancels a command. One that was not sent yet ends at once. One that the device may have is stopped by the device, which
 * reports how it ended: work that was done in the meantime is done.
 */
export async function cancelCommand(ctx: Context, id: string, hub: DeviceHub): Promise<CommandAnswer> {
  const before = await findCommand(ctx, id);
  const { orgId, deviceId } = before;
  await assertManageable(ctx, orgId);
  const wasOpen = await requestCancel(ctx.tx, id);
  const command = await findCommand(ctx, id);
  if (!wasOpen) throw new AppError('conflict', `The command has already ended: ${command.status}.`);
  ctx.afterCommit(() => {
    if (command.status === 'cancelled') hub.jobsChanged([toJobChange(command)]);
    else hub.cancelCommand(deviceId, id);
  });
  const { status, cancelRequestedAt } = command;
  ctx.recordChange(
    { status: before.status, cancelRequestedAt: before.cancelRequestedAt },
    { status, cancelRequestedAt },
  );
  return toCommand(command, hub);
}

/** The longest time that a command may wait, so that an agent that was away for long still receives the setting. */
const TTL_SECONDS = 30 * 24 * 3600;

/** Lets the devices feature, which this one builds on, send a device its setting for automatic updates. */
export const autoUpdateCommands =
  (hub: DeviceHub): TellAutoUpdate =>
  (ctx, devices, enabled) =>
    addCommands(
      ctx,
      devices,
      { type: 'agent.set-auto-update', payload: { enabled }, ttlSeconds: TTL_SECONDS },
      hub,
    );

/** Commands that the server makes for a purpose of its own, such as those of backups, also without a request. */

interface ServerCommand<T extends DurableCommandType> {
  type: T;
  payload: CommandPayload<T>;
  /** How long the command waits to be sent. */
  ttlSeconds: number;
  timeoutSeconds: number;
  secrets: SecretsToSeal;
  /** The person who wanted it, if there is one. */
  createdBy: string | null;
}

export interface AddedCommand {
  id: string;
  deviceId: string;
  change: JobChange;
}

/** Adds a command. After the commit, hand what is returned to `announceCommands`. */
export async function addServerCommand<T extends DurableCommandType>(
  tx: Tx,
  device: { id: string; orgId: string },
  command: ServerCommand<T>,
): Promise<AddedCommand> {
  const [added] = await addServerCommands(tx, [device], command);
  if (added === undefined) throw new Error('no command was added');
  return added;
}

/** The same for many devices, in a few statements. The order is that of the devices. */
export async function addServerCommands<T extends DurableCommandType>(
  tx: Tx,
  devices: readonly { id: string; orgId: string }[],
  {
    type,
    payload,
    ttlSeconds,
    timeoutSeconds,
    secrets,
    createdBy,
    execution,
  }: Omit<ServerCommand<T>, 'secrets'> & {
    secrets?: SecretsToSeal | undefined;
    /** The script run that the commands belong to. */
    execution?: { id: string; scriptId: string | null };
  },
): Promise<AddedCommand[]> {
  const commands = devices.map(({ id: deviceId, orgId }) => ({ id: newId(), deviceId, orgId }));
  const ids = commands.map(({ id }) => id);
  const work = { type, payload, ttlSeconds, timeoutSeconds, createdBy, execution };
  await insertCommands(tx, { ids, devices, ...work });
  if (secrets !== undefined) await insertSecrets(tx, commands, secrets);
  const changes = new Map((await changesOf(tx, ids)).map((change) => [change.update.id, change]));
  return commands.map(({ id, deviceId }) => {
    const change = changes.get(id);
    if (change === undefined) throw new Error(`the command ${id} is not there`);
    return { id, deviceId, change };
  });
}

/** Publishes the commands to dashboards, and notifies their devices of the work. */
export function announceCommands(hub: DeviceHub, commands: readonly AddedCommand[]): void {
  hub.jobsChanged(commands.map(({ change }) => change));
  for (const { deviceId } of commands) hub.deliver(deviceId);
}

/**
 * Asks for the end of a command of the server. One that was not sent ends at once. After the commit, `announce` must be
 * called.
 */
export async function cancelServerCommand(
  tx: Tx,
  id: string,
  hub: DeviceHub,
): Promise<{ hasEnded: boolean; announce: () => void }> {
  if (!(await requestCancel(tx, id))) return { hasEnded: false, announce: () => {} };
  const change = await changeOf(tx, id);
  const { deviceId, state } = change.update;
  const hasEnded = state === 'cancelled';
  return {
    hasEnded,
    announce() {
      if (hasEnded) hub.jobsChanged([change]);
      else if (deviceId !== undefined) hub.cancelCommand(deviceId, id);
    },
  };
}

/** How a command has ended, with what came after its end. */
export interface EndedCommand {
  type: string;
  status: Extract<CommandStatus, 'succeeded' | 'failed' | 'cancelled' | 'timed_out' | 'expired'>;
  reason: string | null;
  payload: unknown;
  output: unknown;
  error: { code: string; message: string } | null;
  lateResult: unknown;
  startedAt: Date | null;
  finishedAt: Date;
}

/** `undefined` while the command is open, and if it does not exist any more. */
export async function findEndOfCommand(tx: Tx, id: string): Promise<EndedCommand | undefined> {
  return tx('commands').where({ id }).whereNotNull('finished_at').first<EndedCommand | undefined>({
    type: 'type',
    status: 'status',
    reason: 'reason',
    payload: 'payload',
    output: 'output',
    error: 'error',
    lateResult: 'late_result',
    startedAt: 'started_at',
    finishedAt: 'finished_at',
  });
}

/** The same for many, by id: `gone` if a command does not exist any more. Open ones are not in the map. */
export async function endsOfCommands(
  tx: Tx,
  ids: readonly string[],
): Promise<Map<string, EndedCommand | 'gone'>> {
  if (ids.length === 0) return new Map();
  const rows = await tx('commands')
    .whereIn('id', [...ids])
    .select<(Omit<EndedCommand, 'finishedAt'> & { id: string; finishedAt: Date | null })[]>({
      id: 'id',
      type: 'type',
      status: 'status',
      reason: 'reason',
      payload: 'payload',
      output: 'output',
      error: 'error',
      lateResult: 'late_result',
      startedAt: 'started_at',
      finishedAt: 'finished_at',
    });
  const found = new Map(rows.map(({ id, ...row }) => [id, row]));
  const ends = new Map<string, EndedCommand | 'gone'>();
  for (const id of ids) {
    const row = found.get(id);
    if (row === undefined) ends.set(id, 'gone');
    else if (row.finishedAt !== null) ends.set(id, { ...row, finishedAt: row.finishedAt });
  }
  return ends;
}
