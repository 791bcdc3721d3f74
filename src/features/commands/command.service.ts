import { raw } from 'objection';
import type { DeviceHub } from '../../hub/index.ts';
import type { CommandPayload, DurableCommandType, SendableCommandType } from '../../protocol/index.ts';
import { holds, type Context } from '../../platform/context.ts';
import { inTenant } from '../../platform/db/tenant-filter.ts';
import { AppError, notFound } from '../../platform/errors.ts';
import { type Page, toPage } from '../../platform/http/pagination.ts';
import { newId } from '../../platform/ids.ts';
import {
  AWAITS_APPROVAL,
  commandTargets,
  type CommandTarget,
  findDevice,
  supportsCommand,
} from '../devices/index.ts';
import { assertManageable } from '../organizations/index.ts';
import { Command } from './command.model.ts';
import { insertCommands, requestCancel } from './command.queries.ts';
import type {
  Command as CommandAnswer,
  CommandQuery,
  CommandWithHistory,
  NewCommand,
  NewCommands,
  Refusal,
} from './command.schema.ts';
import { insertSecrets, type SecretsToSeal } from './command-secrets.ts';
import { toJobChange } from './job-updates.ts';

/** What a device may take for work that names no time of its own. */
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
    const why = device === undefined ? GONE : misfit(hub, input.type, device);
    if (why !== undefined) refused.push({ deviceId, ...why });
    else if (device !== undefined) fit.push(device);
  }
  if (fit.length === 0) {
    throw new AppError('conflict', 'None of these devices can run this command.', { details: refused });
  }
  return { commands: await addCommands(ctx, fit, input, hub), refused };
}

const GONE = { code: 'NOT_FOUND', message: 'Device not found' };
const PENDING = { code: 'DEVICE_PENDING', message: AWAITS_APPROVAL };

function misfit(
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
    /** The script execution that the commands belong to. */
    execution?: { id: string; scriptId: string };
    /** What the references in the payload stand for. */
    secrets?: SecretsToSeal;
  },
  hub: DeviceHub,
): Promise<CommandAnswer[]> {
  const { type, payload, ttlSeconds, execution, secrets } = work;
  const ids = devices.map(() => newId());
  await insertCommands(ctx.tx, {
    ids,
    devices,
    type,
    payload,
    createdBy: ctx.caller.userId,
    timeoutSeconds: 'timeoutSeconds' in payload ? payload.timeoutSeconds : DEFAULT_TIMEOUT_SECONDS,
    ttlSeconds,
    execution,
  });
  if (secrets !== undefined) {
    const commands = devices.map(({ orgId }, i) => ({ id: ids[i] ?? '', orgId }));
    await insertSecrets(ctx.tx, commands, secrets);
  }
  const made = await visibleCommands(ctx)
    .whereRaw('commands.id = any(?::uuid[])', [ids])
    .orderBy('commands.id');
  ctx.afterCommit(() => {
    hub.jobsChanged(made.map(toJobChange));
    for (const { id } of devices) hub.deliver(id);
  });
  return made.map((command) => toCommand(command, hub));
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
