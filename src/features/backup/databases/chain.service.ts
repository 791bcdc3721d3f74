import type { Context } from '../../../platform/context.ts';
import { inTenant } from '../../../platform/db/tenant-filter.ts';
import { toPage } from '../../../platform/http/pagination.ts';
import { omitUndefined } from '../../../platform/omit-undefined.ts';
import { assertOrganizationAccess } from '../../organizations/index.ts';
import { findDevice } from '../../devices/index.ts';
import { BackupRepository } from '../repositories/repository.model.ts';
import { BackupSnapshot } from '../snapshots/snapshot.model.ts';
import { chainSnapshots } from './chain-state.ts';
import type { ChainSnapshot } from './chains.ts';
import type { ChainQuery } from './databases.schema.ts';
import { type Chain, chainsOf } from './restorable.ts';

type Held = BackupSnapshot & ChainSnapshot;

const BROKEN_MAX = 100;
const OF_DATABASES = `backup_snapshots.removed_at is null and backup_snapshots.details ->> 'kind' = 'database'`;

/** What can be restored of databases, a repository at a time. */
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
      const own = chainSnapshots(snapshots.filter(({ repositoryId }) => repositoryId === id));
      const { chains, broken } = chainsOf(own);
      return {
        repositoryId: id,
        orgId: repository.orgId,
        deviceId: repository.deviceId,
        configId: repository.configId,
        isVault,
        chains: chains.map(shownChain),
        brokenTotal: broken.length,
        broken: broken
          .slice(0, BROKEN_MAX)
          .map(({ snapshot, reason }) => ({ snapshotId: snapshot.id, reason })),
      };
    }),
  });
}

function shownChain({ full, snapshots, ranges }: Chain<Held>) {
  const { engine, instance, version, branch, databases } = full.details;
  return {
    id: full.id,
    engine,
    instance,
    version,
    branch,
    databases,
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
