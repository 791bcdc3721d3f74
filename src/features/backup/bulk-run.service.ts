import type { DeviceHub } from '../../hub/index.ts';
import type { Context, DetachedContext } from '../../platform/context.ts';
import { AppError, notFound } from '../../platform/errors.ts';
import type { Refusal } from '../commands/index.ts';
import { awaitsApproval, type CommandTarget, commandTargets } from '../devices/index.ts';
import { addJobs } from './add-job.ts';
import type { BackupConfig } from './config.model.ts';
import type { RunBackups } from './job.schema.ts';
import {
  assertCanBackUp,
  defaultConfigs,
  inFlight,
  type JobParts,
  withoutConfig,
  withoutRepository,
} from './job.service.ts';
import { mapEngineErrors } from './repository-readers.ts';

/** Why the backups of some devices cannot be started. It does not stop the others. */
type Refused = ReadonlyMap<string, AppError>;

/**
 * As `prepareRun` for many devices.
 * @returns those that need the engine of the server, if that is missing
 */
export async function prepareRuns(
  ctx: DetachedContext,
  { deviceIds }: RunBackups,
  { backupEngine, hub }: Pick<JobParts, 'backupEngine' | 'hub'>,
): Promise<Refused> {
  const needEngine = await ctx.withTenant(async (tenant) =>
    withoutRepository(tenant, (await decide(tenant, deviceIds, hub)).fit),
  );
  if (needEngine.size === 0) return new Map();
  try {
    await mapEngineErrors(() => backupEngine.open());
    return new Map();
  } catch (error) {
    const refusal = refusalIn(error);
    return new Map([...needEngine].map((id) => [id, refusal]));
  }
}

/** Starts a backup of each device that can be backed up, by the default configuration of its organization. */
export async function runBackups(
  ctx: Context,
  { deviceIds }: RunBackups,
  withoutEngine: Refused,
  { hub, work }: Pick<JobParts, 'hub' | 'work'>,
) {
  const { fit, refused } = await decide(ctx, deviceIds, hub);
  const wanted = fit.filter(({ device }) => !withoutEngine.has(device.id));
  const more = { sources: null, wantedType: null, createdBy: ctx.caller.userId };
  const jobs = await addJobs(
    ctx.tx,
    work,
    wanted.map((pair) => ({ ...pair, ...more })),
  );
  const started = new Set(jobs.map(({ deviceId }) => deviceId));
  const faultOf = (id: string) =>
    refused.get(id) ?? withoutEngine.get(id) ?? (started.has(id) ? undefined : inFlight(undefined));
  return {
    jobs,
    refused: deviceIds.flatMap((deviceId): Refusal[] => {
      const fault = faultOf(deviceId);
      return fault === undefined ? [] : [{ deviceId, code: fault.wireCode, message: fault.message }];
    }),
  };
}

interface Pair {
  device: CommandTarget;
  config: BackupConfig;
}

/** Which of the devices can be backed up, and by what, and why the others cannot be. */
async function decide(
  ctx: Pick<Context, 'tx' | 'caller'>,
  deviceIds: readonly string[],
  hub: DeviceHub,
): Promise<{ fit: Pair[]; refused: Map<string, AppError> }> {
  const devices = await commandTargets(ctx, deviceIds, { withPending: true });
  const found = new Map(devices.map((device) => [device.id, device]));
  const configs = await defaultConfigs(ctx, [...new Set(devices.map(({ orgId }) => orgId))]);
  const fit: Pair[] = [];
  const refused = new Map<string, AppError>();
  for (const deviceId of deviceIds) {
    try {
      fit.push(fitting(found.get(deviceId), configs, hub));
    } catch (error) {
      refused.set(deviceId, refusalIn(error));
    }
  }
  return { fit, refused };
}

/** Throws if no backup of the device can be started. */
function fitting(
  device: CommandTarget | undefined,
  configs: Awaited<ReturnType<typeof defaultConfigs>>,
  hub: DeviceHub,
): Pair {
  if (device === undefined) throw notFound('Device');
  if (!device.isManageable) {
    throw new AppError('tenant_inactive', 'The organization of this device is not active.');
  }
  if (device.isPending) throw awaitsApproval();
  const config = configs.get(device.orgId);
  if (config === undefined) throw withoutConfig();
  if (config === 'unclear') {
    throw new AppError(
      'conflict',
      'The organization has several backup configurations, and none of them is the default.',
    );
  }
  assertCanBackUp(hub, device, config);
  return { device, config };
}

/** What was thrown, if it is an expected failure. Anything else is thrown again. */
function refusalIn(error: unknown): AppError {
  if (error instanceof AppError) return error;
  throw error;
}
