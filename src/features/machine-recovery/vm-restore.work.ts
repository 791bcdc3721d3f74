import { z } from 'zod';
import { clock } from '../../clock.ts';
import type { DeviceHub } from '../../hub/index.ts';
import type { Db } from '../../platform/db/pool.ts';
import { type Tx, withSystem } from '../../platform/db/transaction.ts';
import { defineJob } from '../../platform/jobs/definition.ts';
import type { Jobs } from '../../platform/jobs/jobs.ts';
import type { CommandOutput } from '../../protocol/index.ts';
import { endCredentialsOfJob, extendCredentialsOfJob } from '../backup-store/index.ts';
import { VmRestore } from './machine-recovery.model.ts';
import { HOLD_MS } from './vm-restore.service.ts';

/** Follows machines that run from snapshots: their hosts are asked every minute. */

const REFRESH = defineJob({ name: 'backup.vm-refresh', input: z.object({}), attempts: 1, inCluster: 1 });
const AT_ONCE = 20;
const HOSTS_MAX = 1000;
const ASK_MS = 15_000;

interface RefreshParts {
  db: Db;
  hub: DeviceHub;
  jobs: Jobs;
}

export function addVmRefreshJob(parts: RefreshParts): void {
  parts.jobs.handle(REFRESH, ({ signal }) => refreshAll(parts, signal));
  parts.jobs.schedule(REFRESH, { cron: '* * * * *', timeZone: 'UTC' }, {});
}

export async function refreshAll(parts: Omit<RefreshParts, 'jobs'>, signal: AbortSignal): Promise<void> {
  const hosts = await withSystem(parts.db, 'find the hosts of machines that run from snapshots', (tx) =>
    VmRestore.query(tx)
      .where({ status: 'active' })
      .distinct('device_id')
      .orderBy('device_id')
      .limit(HOSTS_MAX)
      .castTo<{ deviceId: string }[]>(),
  );
  for (let at = 0; at < hosts.length && !signal.aborted; at += AT_ONCE) {
    await Promise.all(
      hosts.slice(at, at + AT_ONCE).map(({ deviceId }) => refreshHost(parts, deviceId, signal)),
    );
  }
}

/** A host that cannot be asked leaves everything as it is. */
async function refreshHost(
  { db, hub }: Omit<RefreshParts, 'jobs'>,
  deviceId: string,
  signal: AbortSignal,
): Promise<void> {
  const askedAt = clock.date();
  const answer = await hub.query(deviceId, {
    type: 'backup.vm-boots',
    payload: {},
    timeoutMs: ASK_MS,
    signal,
  });
  if (!answer.ok) return;
  await withSystem(db, 'note what machines that run from snapshots are doing', (tx) =>
    takeOver(tx, { deviceId, askedAt, ...answer.output }),
  );
}

interface Answer extends CommandOutput<'backup.vm-boots'> {
  deviceId: string;
  askedAt: Date;
}

async function takeOver(tx: Tx, { deviceId, askedAt, boots, isCut = false }: Answer): Promise<void> {
  // Changes by a command that runs, or that has ended since the host was asked, are recorded by the end of that
  // command.
  const restores = await VmRestore.query(tx)
    .where({ device_id: deviceId, status: 'active', is_operating: false })
    .where('updated_at', '<', askedAt)
    .forUpdate()
    .skipLocked();
  for (const restore of restores) {
    const found = boots.find(({ restoreId }) => restoreId === restore.id);
    // It may be one of those that are not listed.
    if (found === undefined && isCut) continue;
    await restore.$query(tx).patch(found === undefined ? MACHINE_GONE() : changeBy(restore, found));
    const isOver = found === undefined || found.isPermanent;
    if (isOver) await endCredentialsOfJob(tx, restore.id);
    else await extendCredentialsOfJob(tx, restore.id, new Date(clock.now() + HOLD_MS));
  }
}

const MACHINE_GONE = (): Partial<VmRestore> => ({
  status: 'failed',
  vmState: null,
  holdsSnapshot: false,
  errorCode: 'MACHINE_MISSING',
  errorMessage: 'The machine is not on its host any more.',
  finishedAt: clock.date(),
});

const LOST = {
  errorCode: 'SNAPSHOT_UNREADABLE',
  errorMessage:
    'The machine has lost its snapshot and waits, or will when it reads from it. Start it again; it has everything that it has written.',
};

function changeBy({ errorCode }: VmRestore, found: Answer['boots'][number]): Partial<VmRestore> {
  const { state: vmState, isPermanent, isBaseThere } = found;
  const stateAt = clock.date();
  if (isPermanent) {
    return { vmState, stateAt, status: 'completed', holdsSnapshot: false, finishedAt: stateAt };
  }
  if (!isBaseThere) return { vmState, stateAt, ...LOST };
  return {
    vmState,
    stateAt,
    ...(errorCode === LOST.errorCode ? { errorCode: null, errorMessage: null } : {}),
  };
}
