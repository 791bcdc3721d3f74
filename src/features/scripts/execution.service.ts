import type { DeviceHub } from '../../hub/index.ts';
import type { Context } from '../../platform/context.ts';
import { SECRETS_CAPABILITY } from '../../protocol/index.ts';
import { AppError, invalid } from '../../platform/errors.ts';
import { newId } from '../../platform/ids.ts';
import type { Sealer } from '../../platform/secrets/sealed.ts';
import { addCommands, type Command, type Refusal } from '../commands/index.ts';
import {
  AWAITS_APPROVAL,
  devicesFound,
  commandTargets,
  type CommandTarget,
  supportsCommand,
} from '../devices/index.ts';
import type { Script } from './script.model.ts';
import { MAX_DEVICES, type ScriptExecution } from './script.schema.ts';
import { readScript } from './script.service.ts';

/** How long a command waits for a device that is offline. */
const TTL_SECONDS = 24 * 3600;

/** Starts a script on devices, each of which runs it once, and lists the devices that cannot run it with the reason. */
export async function executeScript(
  ctx: Context,
  id: string,
  { parameters, secrets = {}, ...targets }: ScriptExecution,
  { hub, secrets: sealer }: { hub: DeviceHub; secrets: Sealer },
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
      ...(named.length === 0 ? {} : { secrets: { values, sealer } }),
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
