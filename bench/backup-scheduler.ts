import { runSchedules } from '../src/features/backup/scheduler.ts';
import { WorkStore } from '../src/features/work/work.queries.ts';
import { withSystem } from '../src/platform/db/transaction.ts';
import { newId } from '../src/platform/ids.ts';
import { buildBackupTenant } from '../test/support/backup/backup-support.ts';
import { quietLog } from '../test/support/quiet-log.ts';
import { createTestApp } from '../test/support/test-app.ts';
import { asOwner, stopTestPostgres } from '../test/support/test-postgres.ts';

/**
 * `npm run bench:backup-scheduler` measures rounds of the backup scheduler: 100,000 devices, each a target of one of ten
 * daily configurations that are all due at the same minute. The baseline in the same run inserts as many rows as the
 * largest round into a table without indexes. All devices are offline, so all jobs wait for them; what an idle server
 * looks at each second and each minute is measured then.
 */

const DEVICES = 100_000;
const CONFIGS = 10;
const MINUTES = 31;
const SLOT = new Date(`${new Date(Date.now() + 86_400_000).toISOString().slice(0, 10)}T02:00:00.000Z`);

const app = await createTestApp();
const db = app.server.database.pool;
const tenant = await buildBackupTenant(app);
await asOwner(
  app.database.ownerUrl,
  `insert into devices (id, org_id, site_id, hostname, os_type, os_version, architecture, agent_version, enrolled_at, capabilities)
    select new_row_id(), '${tenant.orgId}', '${tenant.siteId}', 'D-' || n, 'linux', '12', 'x64', '1.0.0', now(), '{backup.run}'
    from generate_series(1, ${DEVICES}) n;
  insert into device_presence (device_id, org_id, epoch, node_id, state, since, reason)
    select id, org_id, 1, 'node', 'disconnected', now(), 'socket_closed' from devices;
  insert into device_groups (id, org_id, name)
    select new_row_id(), '${tenant.orgId}', 'Group ' || n from generate_series(1, ${CONFIGS}) n;
  insert into device_group_members (group_id, device_id, org_id)
    select g.id, d.id, d.org_id from (select id, row_number() over () as n from device_groups) g
    join (select id, org_id, row_number() over () as n from devices) d on d.n % ${CONFIGS} + 1 = g.n;
  analyze`,
);
const groups = await withSystem(db, 'bench', (tx) => tx('device_groups').select<{ id: string }[]>('id'));
for (const [n, { id }] of groups.entries()) {
  await tenant.createConfig({
    name: `Configuration ${n}`,
    schedule: { frequency: 'daily', time: '02:00', timezone: 'UTC' },
    targets: { groupIds: [id] },
  });
}

async function slot(begin: Date): Promise<{ jobs: number; ms: number }[]> {
  await runSchedules({ db, log: quietLog }, new Date(begin.getTime() - 60_000));
  const rounds = [];
  for (let minute = 0; minute < MINUTES; minute++) {
    const now = new Date(begin.getTime() + minute * 60_000);
    const startedAt = performance.now();
    const jobs = await runSchedules({ db, log: quietLog }, now);
    rounds.push({ jobs, ms: Math.round(performance.now() - startedAt) });
  }
  return rounds;
}

// A server in use has the jobs of days before, and Postgres knows how many they are.
await slot(SLOT);
await asOwner(
  app.database.ownerUrl,
  `update work set status = 'completed', stage = 'ended', finished_at = now(); analyze work, backup_job_facts`,
);
const times = await slot(new Date(SLOT.getTime() + 86_400_000));
const most = Math.max(...times.map(({ jobs }) => jobs));
const baseline = performance.now();
await asOwner(
  app.database.ownerUrl,
  `create temp table bare (like backup_jobs); insert into bare select * from backup_jobs limit ${most}`,
);
const bareMs = Math.round(performance.now() - baseline);
await asOwner(app.database.ownerUrl, `analyze work`);
const store = new WorkStore(db, { id: newId(), nodeId: 'bench' });
await store.keepAlive(60_000);
const timed = async (work: () => Promise<unknown>): Promise<number> => {
  const startedAt = performance.now();
  await work();
  return Math.round(performance.now() - startedAt);
};
const lookMs = await timed(() => store.look(['backup']));
const returnedMs = await timed(() => store.unpark());
const sorted = times.map(({ ms }) => ms).sort((left, right) => left - right);
console.log(
  JSON.stringify({
    devices: DEVICES,
    configurations: CONFIGS,
    jobs: times.reduce((sum, { jobs }) => sum + jobs, 0),
    mostInOneMinute: most,
    roundMs: { p50: sorted[Math.floor(sorted.length / 2)], max: sorted.at(-1) },
    bareInsertMs: bareMs,
    lookMs,
    lookForReturnedMs: returnedMs,
  }),
);
await app.close();
await stopTestPostgres();
