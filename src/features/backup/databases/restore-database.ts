import { clock } from '../../../clock.ts';
import type { Context, DetachedContext } from '../../../platform/context.ts';
import { AppError, invalid } from '../../../platform/errors.ts';
import { newId } from '../../../platform/ids.ts';
import { omitUndefined } from '../../../platform/omit-undefined.ts';
import { BACKUP_TIMEOUT_SECONDS, CHAIN_PARTS_MAX, SqlPath } from '../../../protocol/index.ts';
import { addCommands } from '../../commands/index.ts';
import { BackupRestore } from '../restores/restore.model.ts';
import { assertFewOpen, findTarget, type RestoreParts, shownRestore } from '../restores/restore.service.ts';
import { accessForDevice, openSource, type RestoreSource, TTL_SECONDS } from '../restores/restore-access.ts';
import { brokenRule } from '../restores/target-path.ts';
import { BackupSnapshot } from '../snapshots/snapshot.model.ts';
import { chainSnapshots } from './chain-state.ts';
import type { ChainSnapshot } from './chains.ts';
import type { NewDatabaseRestore } from './databases.schema.ts';
import { planInstant, planSnapshot } from './restorable.ts';

/** Before the transaction of `restoreDatabase`, because it reads from the store. */
export const prepareDatabaseRestore = (
  ctx: DetachedContext,
  { snapshotId: id, asOf }: NewDatabaseRestore,
  { backupStore }: RestoreParts,
): Promise<RestoreSource> => openSource(ctx, { id, asOf }, backupStore.readers);

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
  const device = await findTarget(ctx, deviceId ?? snapshot.deviceId, snapshot.orgId, {
    hub: parts.hub,
    type: 'backup.database-restore',
    what: 'restore databases',
  });
  const rule = brokenRule(device.osType, targetPath);
  if (rule !== undefined) throw invalid('body.targetPath', rule);
  await assertFewOpen(ctx, device.id);
  const path = await planned(ctx, source, pointInTime);
  const [full] = path;
  if (full === undefined) throw new Error('a plan has a full backup');
  if (noRecovery && full.details.engine === 'mariadb') {
    throw new AppError('conflict', 'A backup of MariaDB is made ready in any case: leave noRecovery out.');
  }
  const id = newId();
  const { repository, values, credentialId } = await accessForDevice(ctx, source, id);
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
      ttlSeconds: TTL_SECONDS,
      secrets: { values, sealer: parts.secrets },
    },
    parts.hub,
  );
  if (command === undefined) throw new Error('no command was created');
  const restore = await BackupRestore.query(ctx.tx).insertAndFetch({
    id,
    orgId: device.orgId,
    deviceId: device.id,
    snapshotId: snapshot.id,
    asOf,
    selectedPaths: null,
    targetPath,
    overwrite: 'never',
    dryRun: false,
    database: {
      engine: full.details.engine,
      pointInTime,
      noRecovery,
      snapshots: path.length,
      ...omitUndefined({ targetDatabase }),
    },
    commandId: command.id,
    credentialId,
    expiresAt: new Date(clock.now() + TTL_SECONDS * 1000),
    createdBy: ctx.caller.userId,
  });
  return shownRestore(restore, parts.hub);
}

/** Of SQL Server one database is restored, and it gets a name; of the others, a whole server. */
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

/** The snapshots that are applied. Throws where one that is needed is not there. */
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
  const snapshots = chainSnapshots(await found);
  const plan =
    pointInTime === null
      ? planSnapshot(snapshots, snapshot.id)
      : planInstant(snapshots, snapshot.id, new Date(pointInTime));
  if ('refusal' in plan) throw new AppError('conflict', plan.refusal);
  if (plan.path.length > CHAIN_PARTS_MAX) {
    throw new AppError(
      'conflict',
      `The restore would apply ${plan.path.length} snapshots, and at most ${CHAIN_PARTS_MAX} are possible.`,
    );
  }
  return plan.path;
}
