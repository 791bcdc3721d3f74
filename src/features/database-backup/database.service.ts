import { clock } from '../../clock.ts';
import { type DeviceHub, liveQueryError, remainingQueryMs } from '../../hub/index.ts';
import type { Context, DetachedContext } from '../../platform/context.ts';
import { inTenant } from '../../platform/db/statement.ts';
import { toPage } from '../../platform/http/pagination.ts';
import { omitUndefined } from '../../platform/omit-undefined.ts';
import {
  type CommandOutput,
  BACKUP_TIMEOUT_SECONDS,
  CHAIN_PARTS_MAX,
  SqlPath,
} from '../../protocol/index.ts';
import { BackupRepository } from '../backup-store/index.ts';
import {
  BackupSnapshot,
  type Chain,
  type ChainSnapshot,
  type RestoreParts,
  type RestoreSource,
  databaseChains,
  restoreRules,
} from '../backup/index.ts';
import { askableDevice, findAskableDevice, findDevice } from '../devices/index.ts';
import { assertOrganizationAccess } from '../organizations/index.ts';
import { BackupDatabaseInstance } from './database.model.ts';
import type {
  ChainQuery,
  DeviceInstanceQuery,
  InstanceQuery,
  NewDatabaseRestore,
} from './database.schema.ts';
import { AppError, invalid } from '../../platform/errors.ts';
import { newId } from '../../platform/ids.ts';
import { addCommands } from '../commands/index.ts';

type Held = BackupSnapshot & ChainSnapshot;

const BROKEN_MAX = 100;
const OF_DATABASES = `backup_snapshots.removed_at is null and backup_snapshots.details ->> 'kind' = 'database'`;

/** Finds the databases that can be restored, a repository at a time. */
export async function listChains(ctx: Context, query: ChainQuery) {
  const { orgId, deviceId, configId } = query;
  if (orgId !== undefined) await assertOrganizationAccess(ctx, orgId);
  if (deviceId !== undefined) await findDevice(ctx, deviceId);
  const { results, total } = await BackupRepository.query(ctx.tx)
    .whereRaw(inTenant(ctx.caller, 'backup_repositories.org_id'))
    .where(omitUndefined({ org_id: orgId, device_id: deviceId, config_id: configId }))
    .whereRaw(
      `exists (select from backup_snapshots where backup_snapshots.repository_id = backup_repositories.id and ${OF_DATABASES})`,
    )
    .orderBy(['device_id', 'id'])
    .page(query.page - 1, query.limit);
  const snapshots = await BackupSnapshot.query(ctx.tx)
    .whereIn(
      'repository_id',
      results.map(({ id }) => id),
    )
    .whereRaw(OF_DATABASES);
  return toPage(query, {
    total,
    results: results.map((repository) => {
      const { id, isVault } = repository;
      const own = databaseChains.chainSnapshots(snapshots.filter(({ repositoryId }) => repositoryId === id));
      const { chains, broken } = databaseChains.chainsOf(own);
      return {
        repositoryId: id,
        orgId: repository.orgId,
        deviceId: repository.deviceId,
        configId: repository.configId,
        isVault,
        chains: chains.map(toChainResponse),
        brokenTotal: broken.length,
        broken: broken
          .slice(0, BROKEN_MAX)
          .map(({ snapshot, reason }) => ({ snapshotId: snapshot.id, reason })),
      };
    }),
  });
}

function toChainResponse({ full, snapshots, ranges }: Chain<Held>) {
  const { engine, instance, version, branch, databases, databaseCount } = full.details;
  return {
    id: full.id,
    engine,
    instance,
    version,
    branch,
    databases,
    ...omitUndefined({ databaseCount }),
    ranges,
    snapshots: snapshots.map(({ id, receivedAt, sizeBytes, details }) => ({
      id,
      backupType: details.backupType,
      createdAt: receivedAt,
      from: details.from,
      to: details.to,
      recoverableTo: details.recoverableTo,
      sizeBytes: sizeBytes === null ? null : Number(sizeBytes),
    })),
  };
}

// The database servers that devices list.

interface InstanceParts {
  hub: DeviceHub;
}

export async function listInstances(ctx: DetachedContext, query: InstanceQuery, parts: InstanceParts) {
  const asked =
    query.refresh === true && query.deviceId !== undefined
      ? await discover(ctx, query.deviceId, parts)
      : undefined;
  return ctx.withTenant(async (tenant) => {
    const { orgId, deviceId, engine } = query;
    if (orgId !== undefined) await assertOrganizationAccess(tenant, orgId);
    const found = await visible(tenant)
      .where(omitUndefined({ org_id: orgId, device_id: deviceId, engine }))
      .page(query.page - 1, query.limit);
    const page = toPage(query, { total: found.total, results: found.results.map(toInstanceResponse) });
    return { ...page, ...asked };
  });
}

export async function instancesOfDevice(
  ctx: DetachedContext,
  deviceId: string,
  { engine, refresh = false }: DeviceInstanceQuery,
  parts: InstanceParts,
) {
  const read = () =>
    ctx.withTenant(async (tenant) => {
      await findAskableDevice(tenant, deviceId);
      return visible(tenant).where(omitUndefined({ device_id: deviceId, engine }));
    });
  const stored = refresh ? [] : await read();
  const canAsk = parts.hub.live(deviceId)?.isConnected === true;
  if (!refresh && (stored.length > 0 || !canAsk)) return { data: stored.map(toInstanceResponse) };
  const asked = await discover(ctx, deviceId, parts);
  return { data: (await read()).map(toInstanceResponse), ...asked };
}

const visible = ({ tx, caller }: Pick<Context, 'tx' | 'caller'>) =>
  BackupDatabaseInstance.query(tx)
    .whereRaw(inTenant(caller, 'backup_database_instances.org_id'))
    .orderBy(['device_id', 'engine', 'instance']);

/** Asks a device, and keeps what it answers. Returns the engines that it could not look for. */
async function discover(ctx: DetachedContext, deviceId: string, { hub }: InstanceParts) {
  await askableDevice(ctx, deviceId);
  const outcome = await hub.query(deviceId, {
    type: 'backup.databases',
    payload: {},
    timeoutMs: remainingQueryMs(ctx.arrivedAt),
  });
  if (!outcome.ok) throw liveQueryError(outcome);
  await ctx.withTenant((tenant) => keep(tenant, deviceId, outcome.output));
  const failed = outcome.output.failed ?? [];
  return { failed: failed.map(({ source, message }) => ({ engine: source, message })) };
}

/**
 * Removes servers that a device lists no more, unless it could not look for servers of that engine, or has more than it
 * lists.
 */
async function keep(
  ctx: Context,
  deviceId: string,
  { instances, instanceCount, failed = [] }: CommandOutput<'backup.databases'>,
): Promise<void> {
  const unread = new Map(failed.map(({ source, message }) => [source, message]));
  const { orgId } = await findAskableDevice(ctx, deviceId);
  const listed = new Map(instances.map((each) => [JSON.stringify([each.engine, each.instance]), each]));
  const known = await BackupDatabaseInstance.query(ctx.tx).where('device_id', deviceId);
  for (const { id, engine, facts } of known) {
    const unreadBecause = unread.get(engine);
    if (unreadBecause === undefined) continue;
    await BackupDatabaseInstance.query(ctx.tx)
      .findById(id)
      .patch({ facts: { ...facts, unreadBecause } });
  }
  if (instanceCount === undefined) {
    const gone = known.filter(
      ({ engine, instance }) => !unread.has(engine) && !listed.has(JSON.stringify([engine, instance])),
    );
    await BackupDatabaseInstance.query(ctx.tx)
      .delete()
      .whereIn(
        'id',
        gone.map(({ id }) => id),
      );
  }
  if (listed.size === 0) return;
  const lastDiscoveredAt = clock.date();
  const rows = [...listed.values()].map(({ engine, instance, ...facts }) => ({
    orgId,
    deviceId,
    engine,
    instance,
    facts: omitUndefined({ ...facts, instanceCount }),
    lastDiscoveredAt,
  }));
  await BackupDatabaseInstance.query(ctx.tx)
    .insert(rows)
    .onConflict(['device_id', 'engine', 'instance'])
    .merge(['facts', 'last_discovered_at']);
}

const toInstanceResponse = ({ facts, ...instance }: BackupDatabaseInstance) => ({ ...facts, ...instance });

/** Before the transaction of `restoreDatabase`, because it reads from the store. */
export const prepareDatabaseRestore = (
  ctx: DetachedContext,
  { snapshotId: id, asOf }: NewDatabaseRestore,
  { backupStore }: RestoreParts,
): Promise<RestoreSource> => restoreRules.openSource(ctx, { id, asOf }, backupStore.readers);

/** Orders the restore of a database server with all that it needs. It lives on as other restores do. */
export async function restoreDatabase(
  ctx: Context,
  wanted: NewDatabaseRestore,
  source: RestoreSource,
  parts: RestoreParts,
) {
  const { deviceId, targetPath, targetDatabase, pointInTime = null, noRecovery } = wanted;
  const { snapshot, asOf } = source;
  assertNamed(snapshot, wanted);
  const device = await restoreRules.findRestoreTarget(ctx, deviceId ?? snapshot.deviceId, snapshot.orgId, {
    hub: parts.hub,
    type: 'backup.database-restore',
    what: 'restore databases',
  });
  const rule = restoreRules.targetPathFault(device.osType, targetPath);
  if (rule !== undefined) throw invalid('body.targetPath', rule);
  await restoreRules.assertFewOpenRestores(ctx, device.id);
  const path = await planned(ctx, source, pointInTime);
  const [full] = path;
  if (full === undefined) throw new Error('a plan has a full backup');
  if (noRecovery && full.details.engine === 'mariadb') {
    throw new AppError('conflict', 'A backup of MariaDB is made ready in any case: leave noRecovery out.');
  }
  const id = newId();
  const { repository, values } = await restoreRules.accessForDevice(ctx, source, id);
  const [command] = await addCommands(
    ctx,
    [device],
    {
      type: 'backup.database-restore',
      payload: {
        restoreId: id,
        repository,
        engine: full.details.engine,
        instance: full.details.instance,
        version: full.details.version,
        branch: full.details.branch,
        parts: path.map(({ engineId, details, sizeBytes }) => ({
          snapshotId: engineId,
          backupType: details.backupType,
          from: details.from,
          to: details.to,
          sizeBytes: sizeBytes === null ? null : Number(sizeBytes),
        })),
        databases: full.details.databases,
        targetPath,
        ...omitUndefined({ targetDatabase }),
        ...(pointInTime === null ? {} : { pointInTime }),
        noRecovery,
        timeoutSeconds: BACKUP_TIMEOUT_SECONDS,
      },
      ttlSeconds: restoreRules.RESTORE_TTL_SECONDS,
      secrets: { values, encryptor: parts.secrets },
    },
    parts.hub,
  );
  if (command === undefined) throw new Error('no command was created');
  const restore = await restoreRules.addRestore(
    ctx.tx,
    {
      id,
      orgId: device.orgId,
      deviceId: device.id,
      snapshotId: snapshot.id,
      asOf,
      targetPath,
      overwrite: 'never',
      database: {
        engine: full.details.engine,
        pointInTime,
        noRecovery,
        snapshots: path.length,
        ...omitUndefined({ targetDatabase }),
      },
      createdBy: ctx.caller.userId,
    },
    { command, ttlSeconds: restoreRules.RESTORE_TTL_SECONDS },
  );
  return restoreRules.toRestoreResponse(restore, parts.hub);
}

/** SQL Server restores one database, which gets a name; the other engines restore a whole server. */
function assertNamed(
  { details }: Pick<BackupSnapshot, 'details'>,
  { targetDatabase, targetPath }: NewDatabaseRestore,
): void {
  const isSqlServer = details?.kind === 'database' && details.engine === 'mssql';
  if (isSqlServer && targetDatabase === undefined) throw invalid('body.targetDatabase', 'is required');
  if (!isSqlServer && targetDatabase !== undefined) {
    throw invalid('body.targetDatabase', 'belongs to snapshots of SQL Server');
  }
  if (isSqlServer && !SqlPath.safeParse(targetPath).success) {
    throw invalid('body.targetPath', 'must be an absolute path of Windows, without ..');
  }
}

/** The snapshots that are applied. Throws if one that is needed is not there. */
async function planned(
  { tx }: Pick<Context, 'tx'>,
  { snapshot, asOf }: RestoreSource,
  pointInTime: string | null,
): Promise<(BackupSnapshot & ChainSnapshot)[]> {
  const found = BackupSnapshot.query(tx)
    .where('repository_id', snapshot.repositoryId)
    .whereRaw(`details ->> 'kind' = 'database'`);
  if (asOf === null) void found.whereNull('removed_at');
  else {
    void found.where('received_at', '<=', asOf).whereRaw('(removed_at is null or removed_at > ?)', [asOf]);
  }
  const snapshots = databaseChains.chainSnapshots(await found);
  const plan =
    pointInTime === null
      ? databaseChains.planSnapshot(snapshots, snapshot.id)
      : databaseChains.planInstant(snapshots, snapshot.id, new Date(pointInTime));
  if ('refusal' in plan) throw new AppError('conflict', plan.refusal);
  if (plan.path.length > CHAIN_PARTS_MAX) {
    throw new AppError(
      'conflict',
      `The restore would apply ${plan.path.length} snapshots, and at most ${CHAIN_PARTS_MAX} are possible.`,
    );
  }
  return plan.path;
}
