import { z } from 'zod';
import { clock } from '../../../clock.ts';
import type { Db } from '../../../platform/db/pool.ts';
import { withSystem } from '../../../platform/db/transaction.ts';
import { defineJob } from '../../../platform/jobs/definition.ts';
import type { Jobs } from '../../../platform/jobs/jobs.ts';
import { followCauses, type NewAlert, standingCauses } from '../../alerts/index.ts';
import {
  BROKEN_CHAIN,
  EMPTY,
  FAILED,
  MISSED,
  SIZE_DROP,
  VAULT_BEHIND,
  VERIFICATION_FAILED,
} from '../core/alert-kinds.ts';
import { readDeviceFacts } from '../overview/device-facts.ts';
import { storeReadiness } from '../overview/readiness.service.ts';
import { followBreaches } from '../sla/breaches.ts';
import { watchDestinationRoom } from './destination-room.ts';
import { watchStalled } from './stalled.ts';
import { vaultAlerts } from '../vaults/vault-alerts.ts';
import {
  anomalyAlert,
  chainAlert,
  emptyAlert,
  failedAlert,
  missedAlert,
  verificationAlert,
} from './alerts.ts';

const Nothing = z.object({});
const WATCH = defineJob({ name: 'backup.watch', input: Nothing, attempts: 1, inCluster: 1 });
const STALLED_WORK = defineJob({ name: 'backup.watch-stalled', input: Nothing, attempts: 1, inCluster: 1 });
const DESTINATION_ROOM = defineJob({
  name: 'backup.watch-destination-room',
  input: Nothing,
  attempts: 1,
  inCluster: 1,
});
const USAGE = defineJob({ name: 'backup.usage', input: Nothing, inCluster: 1 });

export function addWatchJobs(jobs: Jobs, parts: Parameters<typeof watchDestinationRoom>[0]): void {
  const { db } = parts;
  jobs.handle(WATCH, ({ signal }) => watchBackups(db, signal));
  jobs.handle(STALLED_WORK, () => watchStalled(db));
  jobs.handle(DESTINATION_ROOM, () => watchDestinationRoom(parts));
  jobs.handle(USAGE, () => recordUsage(db));
  jobs.schedule(WATCH, { cron: '*/10 * * * *', timeZone: 'UTC' }, {});
  jobs.schedule(STALLED_WORK, { cron: '* * * * *', timeZone: 'UTC' }, {});
  jobs.schedule(DESTINATION_ROOM, { cron: '*/10 * * * *', timeZone: 'UTC' }, {});
  jobs.schedule(USAGE, { cron: '55 23 * * *', timeZone: 'UTC' }, {});
}

const AT_ONCE = 500;
const NONE = '00000000-0000-0000-0000-000000000000';

/** Computes how every device is protected, and makes the alerts follow. */
export async function watchBackups(db: Db, signal: AbortSignal): Promise<void> {
  const open = await withSystem(db, 'read which size drops are known', (tx) => standingCauses(tx, SIZE_DROP));
  const wanted: Record<string, NewAlert[]> = {
    [FAILED]: [],
    [EMPTY]: [],
    [MISSED]: [],
    [SIZE_DROP]: [],
    [VERIFICATION_FAILED]: [],
    [BROKEN_CHAIN]: [],
  };
  for (let after = NONE; !signal.aborted; ) {
    const now = clock.date();
    const page = await withSystem(db, 'compute how devices are protected', async (tx) => {
      const facts = await readDeviceFacts(tx, { after, limit: AT_ONCE });
      await storeReadiness(tx, facts);
      return facts;
    });
    for (const facts of page) {
      const found = [
        failedAlert(facts),
        emptyAlert(facts),
        missedAlert(facts, now),
        anomalyAlert(facts, open.get(facts.deviceId)),
        verificationAlert(facts),
        chainAlert(facts),
      ];
      for (const alert of found) if (alert !== undefined) wanted[alert.kind]?.push(alert);
    }
    if (page.length < AT_ONCE) break;
    after = page.at(-1)?.deviceId ?? after;
  }
  // Half a round says nothing about the devices that it did not reach.
  if (signal.aborted) return;
  await withSystem(db, 'make the alerts about backups follow', async (tx) => {
    for (const [kind, alerts] of Object.entries(wanted)) {
      await followCauses(tx, { kind, alerts, why: ENDED[kind] ?? 'The cause has ended.' });
    }
  });
  await withSystem(db, 'make the alerts about vaults follow', async (tx) => {
    await followCauses(tx, {
      kind: VAULT_BEHIND,
      alerts: await vaultAlerts(tx),
      why: 'The vaults of the device have what they should have again.',
    });
  });
  await followBreaches(
    db,
    (wanted[MISSED] ?? []).flatMap(({ deviceId }) => deviceId ?? []),
  );
}

const ENDED: Readonly<Record<string, string>> = {
  [FAILED]: 'The backups of the device have succeeded again.',
  [EMPTY]: 'The newest backups have files again.',
  [MISSED]: 'A backup has arrived, or none is expected any more.',
  [SIZE_DROP]: 'The backup has its former size again, or a user has accepted the change.',
  [VERIFICATION_FAILED]: 'A verification has passed.',
  [BROKEN_CHAIN]: 'The newest backups of the databases can be restored again.',
};

/** What every organization has stored at the end of the day. Repeated, it replaces what it wrote. */
export const recordUsage = (db: Db): Promise<void> =>
  withSystem(db, 'record what backups take', async (tx) => {
    await tx.raw(
      `insert into backup_usage_days (org_id, day, provider, bytes, snapshots)
      select r.org_id, (now() at time zone 'UTC')::date, r.provider, sum(r.stored_bytes), coalesce(sum(s.n), 0)
      from backup_repositories r
      left join lateral (select count(*) as n from backup_snapshots s
        where s.repository_id = r.id and s.removed_at is null) s on true
      group by r.org_id, r.provider
      on conflict (org_id, day, provider) do update set bytes = excluded.bytes, snapshots = excluded.snapshots`,
    );
  });
