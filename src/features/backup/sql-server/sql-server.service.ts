import type { DeviceHub } from '../../../hub/index.ts';
import type { Context, DetachedContext } from '../../../platform/context.ts';
import { AppError, notFound } from '../../../platform/errors.ts';
import { newId } from '../../../platform/ids.ts';
import { BACKUP_TIMEOUT_SECONDS, type CommandPayload } from '../../../protocol/index.ts';
import { addCommands } from '../../commands/index.ts';
import { commandTargets, supportsCommand } from '../../devices/index.ts';
import { assertManageable } from '../../organizations/index.ts';
import { askDevice } from '../access/ask-device.ts';
import { chainsOf } from './history-chains.ts';
import type { NewSqlBackup, NewSqlRestore, SqlWork } from './sql-server.schema.ts';

interface SqlParts {
  hub: DeviceHub;
}

/** Beyond that, what was asked for may not be wanted any more. */
const TTL_SECONDS = 86_400;

export const backUpDatabase = (
  ctx: Context,
  { deviceId, ...wanted }: NewSqlBackup,
  parts: SqlParts,
): Promise<SqlWork> =>
  send(ctx, { deviceId, type: 'backup', instance: wanted.instance, database: wanted.database }, parts, {
    type: 'backup.mssql-backup',
    payload: { ...wanted, timeoutSeconds: BACKUP_TIMEOUT_SECONDS },
  });

export const restoreDatabaseFile = (
  ctx: Context,
  { deviceId, stopAt, ...wanted }: NewSqlRestore,
  parts: SqlParts,
): Promise<SqlWork> =>
  send(
    ctx,
    { deviceId, type: 'restore', instance: wanted.instance, database: wanted.targetDatabase },
    parts,
    {
      type: 'backup.mssql-restore',
      payload: {
        ...wanted,
        ...(stopAt === undefined ? {} : { stopAt }),
        restoreId: newId(),
        timeoutSeconds: BACKUP_TIMEOUT_SECONDS,
      },
    },
  );

/** Asks the device, because SQL Server keeps the history, of everybody's backups. */
export async function readChains(
  ctx: DetachedContext,
  { deviceId, instance, database }: { deviceId: string; instance: string; database: string },
  { hub, signal }: SqlParts & { signal: AbortSignal },
) {
  const question = { type: 'backup.mssql-history', payload: { instance, database }, signal } as const;
  const { sets, recoveryModel } = await askDevice(ctx, deviceId, question, hub);
  return { data: { deviceId, instance, database, recoveryModel, ...chainsOf(sets) } };
}

type SqlCommand = {
  [T in 'backup.mssql-backup' | 'backup.mssql-restore']: { type: T; payload: CommandPayload<T> };
}['backup.mssql-backup' | 'backup.mssql-restore'];

async function send(
  ctx: Context,
  about: Pick<SqlWork, 'deviceId' | 'type' | 'instance' | 'database'>,
  { hub }: SqlParts,
  work: SqlCommand,
): Promise<SqlWork> {
  const [device] = await commandTargets(ctx, [about.deviceId]);
  if (device === undefined) throw notFound('Device');
  await assertManageable(ctx, device.orgId);
  if (!supportsCommand(hub, device, work.type)) {
    throw new AppError('capability_missing', 'The agent on this device does not know SQL Server.');
  }
  const [command] = await addCommands(ctx, [device], { ...work, ttlSeconds: TTL_SECONDS }, hub);
  if (command === undefined) throw new Error('no command was created');
  return { ...about, id: command.id, orgId: command.orgId, status: command.status };
}
