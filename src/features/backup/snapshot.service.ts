import { clock, DAY_MS } from '../../clock.ts';
import type { Context } from '../../platform/context.ts';
import { inTenant } from '../../platform/db/statement.ts';
import { AppError, invalid, notFound } from '../../platform/errors.ts';
import { toPage } from '../../platform/http/pagination.ts';
import { omitUndefined } from '../../platform/omit-undefined.ts';
import type { BackupRepository } from '../backup-store/index.ts';
import { assertManageable, assertOrganizationAccess } from '../organizations/index.ts';
import { BackupSnapshot, listedPaths } from './snapshot.model.ts';
import {
  type ImmutabilityChange,
  IMMUTABLE_DAYS_MAX,
  type LegalHoldChange,
  type SnapshotQuery,
} from './snapshot.schema.ts';

type Reading = Pick<Context, 'tx' | 'caller'>;
type FoundSnapshot = BackupSnapshot & Pick<BackupRepository, 'provider'>;

const accessible = ({ tx, caller }: Reading) =>
  BackupSnapshot.query(tx)
    .joinRelated('repository')
    .whereRaw(inTenant(caller, 'backup_snapshots.org_id'))
    .select('backup_snapshots.*', 'repository.provider');

/** Lists the snapshots that are in their repositories now, or were at a given time, the newest first. */
export async function listSnapshots(ctx: Context, query: SnapshotQuery) {
  if (query.orgId !== undefined) await assertOrganizationAccess(ctx, query.orgId);
  const { asOf, from, to = asOf } = query;
  const snapshots = accessible(ctx)
    .where(
      omitUndefined({
        'backup_snapshots.org_id': query.orgId,
        'backup_snapshots.device_id': query.deviceId,
        'backup_snapshots.config_id': query.configId,
        'backup_snapshots.backup_type': query.backupType,
      }),
    )
    .orderBy([
      { column: 'backup_snapshots.received_at', order: 'desc' },
      { column: 'backup_snapshots.id', order: 'desc' },
    ])
    .page(query.page - 1, query.limit);
  if (query.vaultId === undefined) void snapshots.where('repository.is_vault', false);
  else {
    void snapshots.whereRaw(
      'backup_snapshots.repository_id in (select v.repository_id from backup_vaults v where v.id = ?)',
      [query.vaultId],
    );
  }
  if (from !== undefined) void snapshots.where('received_at', '>=', from);
  if (to !== undefined) void snapshots.where('received_at', '<=', to);
  if (asOf === undefined) void snapshots.whereNull('removed_at');
  else {
    void snapshots
      .where('received_at', '<=', asOf)
      .whereRaw('(removed_at is null or removed_at > ?)', [asOf]);
  }
  const { results, total } = await snapshots.castTo<{ results: FoundSnapshot[]; total: number }>();
  return toPage(query, { results: results.map(toSnapshotResponse), total });
}

/** Also one that was removed, which says so. */
export async function findSnapshot(ctx: Reading, id: string): Promise<FoundSnapshot> {
  const snapshot = await accessible(ctx).findById(id).castTo<FoundSnapshot | undefined>();
  if (snapshot === undefined) throw notFound('Backup snapshot');
  return snapshot;
}

export const readSnapshot = async (ctx: Context, id: string) =>
  toSnapshotResponse(await findSnapshot(ctx, id));

/** A hold keeps a snapshot until it is released, whatever the retention says. */
export async function changeLegalHold(ctx: Context, id: string, { enabled, reason }: LegalHoldChange) {
  if (!enabled && !ctx.caller.mfa) {
    throw new AppError('mfa_required', 'To release a legal hold you need a second factor.');
  }
  // One that was removed all the same keeps the trash of its repository, until it is released.
  const snapshot = await findToChange(ctx, id, { isRemovedToo: !enabled });
  const { legalHold, legalHoldReason } = snapshot;
  const change = { legalHold: enabled, legalHoldReason: enabled ? (reason ?? null) : null };
  await snapshot.$query(ctx.tx).patch(change);
  ctx.recordChange({ legalHold, legalHoldReason }, change);
  return readSnapshot(ctx, id);
}

/** Keeps a snapshot until a time, which can be put off and never brought forward. */
export async function extendImmutability(ctx: Context, id: string, change: ImmutabilityChange) {
  const until = immutableUntil(change, clock.now());
  const snapshot = await findToChange(ctx, id);
  if (snapshot.immutableUntil !== null && until < snapshot.immutableUntil) {
    throw new AppError(
      'conflict',
      `The snapshot is immutable until ${snapshot.immutableUntil.toISOString()}, which cannot be shortened.`,
    );
  }
  const { immutableUntil: before } = snapshot;
  await snapshot.$query(ctx.tx).patch({ immutableUntil: until });
  ctx.recordChange({ immutableUntil: before }, { immutableUntil: until });
  return readSnapshot(ctx, id);
}

function immutableUntil({ immutableDays = 0, extendUntil }: ImmutabilityChange, now: number): Date {
  const until = Math.max(now + immutableDays * DAY_MS, extendUntil?.getTime() ?? 0);
  if (until <= now) throw invalid('body.extendUntil', 'must lie in the future');
  if (until > now + IMMUTABLE_DAYS_MAX * DAY_MS) {
    throw invalid('body.extendUntil', `must lie within ${IMMUTABLE_DAYS_MAX} days from now`);
  }
  return new Date(until);
}

/** Locked, because the retention may be about to remove it. */
async function findToChange(
  ctx: Context,
  id: string,
  { isRemovedToo = false }: { isRemovedToo?: boolean } = {},
): Promise<BackupSnapshot> {
  const { orgId } = await findSnapshot(ctx, id);
  await assertManageable(ctx, orgId);
  const snapshot = await BackupSnapshot.query(ctx.tx).findById(id).forNoKeyUpdate();
  if (snapshot === undefined) throw notFound('Backup snapshot');
  if (snapshot.removedAt !== null && !isRemovedToo) {
    throw new AppError(
      'conflict',
      `The snapshot was removed at ${snapshot.removedAt.toISOString()}. Restore it with asOf before it is gone for good.`,
    );
  }
  return snapshot;
}

const numberOf = (bigint: string | null) => (bigint === null ? null : Number(bigint));

function toSnapshotResponse({ receivedAt, ...snapshot }: FoundSnapshot) {
  const isImmutable = snapshot.immutableUntil !== null && snapshot.immutableUntil > clock.date();
  return {
    ...snapshot,
    ...listedPaths(snapshot.paths),
    createdAt: receivedAt,
    sizeBytes: numberOf(snapshot.sizeBytes),
    fileCount: numberOf(snapshot.fileCount),
    addedBytes: numberOf(snapshot.addedBytes),
    changedFiles: numberOf(snapshot.changedFiles),
    isImmutable,
    immutabilityEnforcement: snapshot.provider === 'server' ? ('application' as const) : ('none' as const),
    retentionBlockedReason: blockedReason(snapshot, isImmutable),
  };
}

function blockedReason(
  { legalHold, inUse }: Pick<BackupSnapshot, 'legalHold' | 'inUse'>,
  isImmutable: boolean,
) {
  if (legalHold) return 'legal_hold' as const;
  if (inUse) return 'in_use' as const;
  return isImmutable ? ('immutable' as const) : null;
}
