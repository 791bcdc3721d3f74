import { type Context, assertActsForWholePartner } from '../../platform/context.ts';
import { containing, nameOrder, inTenant } from '../../platform/db/statement.ts';
import { patchRecorded } from '../../platform/db/base-model.ts';
import { invalid, noFields, notFound, AppError } from '../../platform/errors.ts';
import { toPage } from '../../platform/http/pagination.ts';
import { omitUndefined } from '../../platform/omit-undefined.ts';
import { assertManageable, assertOrganizationAccess } from '../organizations/index.ts';
import { Script } from './script.model.ts';
import {
  type NewScript,
  type ScriptPatch,
  type ScriptQuery,
  MAX_DEVICES,
  type ScriptExecution,
} from './script.schema.ts';
import type { DeviceHub } from '../../hub/index.ts';
import { SECRETS_CAPABILITY } from '../../protocol/index.ts';
import { newId } from '../../platform/ids.ts';
import type { Encryptor } from '../../platform/secrets/sealed.ts';
import { addCommands, type Command, type Refusal } from '../commands/index.ts';
import {
  AWAITS_APPROVAL,
  devicesFound,
  commandTargets,
  type CommandTarget,
  supportsCommand,
} from '../devices/index.ts';

const visible = (ctx: Context) =>
  Script.query(ctx.tx).where((either) => {
    void either.whereRaw(inTenant(ctx.caller, 'scripts.org_id'));
    if (ctx.caller.partnerId !== null) void either.orWhere('scripts.partner_id', ctx.caller.partnerId);
  });

export async function listScripts(ctx: Context, query: ScriptQuery) {
  if (query.orgId !== undefined) await assertOrganizationAccess(ctx, query.orgId);
  const scripts = visible(ctx)
    .orderByRaw(`${nameOrder('name')}, id`)
    .page(query.page - 1, query.limit);
  if (query.orgId !== undefined) {
    void scripts.where((of) => void of.where('org_id', query.orgId ?? null).orWhereNotNull('partner_id'));
  }
  if (query.language !== undefined) void scripts.where('language', query.language);
  if (query.search !== undefined) void scripts.whereILike('name', containing(query.search));
  return toPage(query, await scripts);
}

export async function readScript(ctx: Context, id: string): Promise<Script> {
  const script = await visible(ctx).findById(id);
  if (script === undefined) throw notFound('Script');
  return script;
}

export async function createScript(ctx: Context, { orgId, ...fields }: NewScript): Promise<Script> {
  return Script.query(ctx.tx).insertAndFetch({
    ...omitUndefined(fields),
    ...(await ownerOf(ctx, orgId)),
    createdBy: ctx.caller.userId,
  });
}

/** A script belongs to an organization, or to the whole partner if it is created in partner scope without one. */
async function ownerOf(
  ctx: Context,
  orgId: string | undefined,
): Promise<{ orgId: string } | { partnerId: string }> {
  const own = orgId ?? ctx.caller.orgId;
  if (own !== null) {
    await assertOrganizationAccess(ctx, own);
    await assertManageable(ctx, own);
    return { orgId: own };
  }
  if (ctx.caller.partnerId === null) throw invalid('body.orgId', 'is required in system scope');
  assertActsForWholePartner(ctx.caller, 'create partner-wide scripts');
  return { partnerId: ctx.caller.partnerId };
}

export async function updateScript(ctx: Context, id: string, patch: ScriptPatch) {
  const script = await readScriptToChange(ctx, id);
  const changes = omitUndefined(patch);
  const changedFields = Object.keys(changes);
  if (changedFields.length === 0) throw noFields();
  return Object.assign(await patchRecorded(ctx, script, changes), { changedFields });
}

/** Running executions continue: each command has its own copy of the script. */
export async function deleteScript(ctx: Context, id: string) {
  const script = await readScriptToChange(ctx, id);
  await script.$query(ctx.tx).delete();
  return { success: true as const, script };
}

async function readScriptToChange(ctx: Context, id: string): Promise<Script> {
  const script = await readScript(ctx, id);
  if (script.orgId !== null) await assertManageable(ctx, script.orgId);
  else assertActsForWholePartner(ctx.caller, 'edit partner-wide scripts');
  return script;
}

/** How long a command waits for a device that is offline. */
const TTL_SECONDS = 24 * 3600;

/** Starts a script on devices, each of which runs it once, and lists the devices that cannot run it with the reason. */
export async function executeScript(
  ctx: Context,
  id: string,
  { parameters, secrets = {}, ...targets }: ScriptExecution,
  { hub, secrets: encryptor }: { hub: DeviceHub; secrets: Encryptor },
) {
  const script = await readScript(ctx, id);
  const deviceIds = await targeted(ctx, targets);
  const found = new Map(
    (await commandTargets(ctx, deviceIds, { withPending: true })).map((device) => [device.id, device]),
  );
  const fit: CommandTarget[] = [];
  const refused: Refusal[] = [];
  for (const deviceId of deviceIds) {
    const device = found.get(deviceId);
    const why = device === undefined ? GONE : misfit(hub, script, device, Object.keys(secrets).length > 0);
    if (why !== undefined) refused.push({ deviceId, ...why });
    else if (device !== undefined) fit.push(device);
  }
  if (fit.length === 0) {
    throw new AppError('conflict', 'None of these devices can run the script.', { details: refused });
  }
  const executionId = newId();
  const named = Object.entries(secrets).map(([name, value]) => ({ name, value, ref: newId() }));
  const refs = Object.fromEntries(named.map(({ name, ref }) => [name, { secretRef: ref }]));
  const values = Object.fromEntries(named.map(({ ref, value }) => [ref, value]));
  const { language, content, timeoutSeconds } = script;
  const commands: Command[] = await addCommands(
    ctx,
    fit,
    {
      type: 'script.run',
      payload: {
        language,
        content,
        timeoutSeconds,
        ...(parameters === undefined ? {} : { parameters }),
        ...(named.length === 0 ? {} : { secrets: refs }),
      },
      ...(named.length === 0 ? {} : { secrets: { values, encryptor } }),
      ttlSeconds: TTL_SECONDS,
      execution: { id: executionId, scriptId: script.id },
    },
    hub,
  );
  return { executionId, commands, refused, script };
}

async function targeted(
  ctx: Context,
  { deviceIds, filterId }: Pick<ScriptExecution, 'deviceIds' | 'filterId'>,
): Promise<string[]> {
  if (deviceIds !== undefined && filterId === undefined) return deviceIds;
  if (deviceIds !== undefined || filterId === undefined) {
    throw invalid('body.filterId', 'Provide exactly one of deviceIds or filterId.');
  }
  const found = await devicesFound(ctx, filterId, { atMost: MAX_DEVICES, path: 'body.filterId' });
  if (found.length === 0) throw new AppError('conflict', 'The filter matches no device.', { details: [] });
  return found;
}

const GONE = { code: 'NOT_FOUND', message: 'Device not found' };

function misfit(
  hub: DeviceHub,
  script: Script,
  device: CommandTarget,
  hasSecrets: boolean,
): Omit<Refusal, 'deviceId'> | undefined {
  if (script.orgId !== null && script.orgId !== device.orgId) {
    return { code: 'FORBIDDEN', message: 'The script belongs to another organization.' };
  }
  if (!device.isManageable) {
    return { code: 'TENANT_INACTIVE', message: 'The organization of this device is not active.' };
  }
  if (device.isPending) return { code: 'DEVICE_PENDING', message: AWAITS_APPROVAL };
  if (script.osTypes.length > 0 && !script.osTypes.includes(device.osType)) {
    return { code: 'CONFLICT', message: `The script is not for ${device.osType}.` };
  }
  if (!supportsCommand(hub, device, 'script.run')) {
    return { code: 'CAPABILITY_MISSING', message: 'The agent on this device cannot run scripts.' };
  }
  if (hasSecrets && !supportsCommand(hub, device, SECRETS_CAPABILITY)) {
    return { code: 'CAPABILITY_MISSING', message: 'The agent on this device does not support secrets.' };
  }
  return undefined;
}
