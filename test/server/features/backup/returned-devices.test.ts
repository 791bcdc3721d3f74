import { expect } from 'chai';
import { RunMissedBackups } from '../../../../src/features/backup/scheduler.ts';
import { type Db, openPool } from '../../../../src/platform/db/pool.ts';
import { newId } from '../../../../src/platform/ids.ts';
import { buildDevice } from '../../../support/factories.ts';
import { eventually } from '../../../support/eventually.ts';
import { recordingLog } from '../../../support/quiet-log.ts';
import { sentStatements } from '../../../support/sent-statements.ts';
import { createTestApp, type TestApp } from '../../../support/test-app.ts';
import { testClock } from '../../../support/test-clock.ts';
import { asOwner } from '../../../support/test-postgres.ts';
import { type BackupTenant, buildBackupTenant } from '../../../support/backup/backup-support.ts';

const FLEET = 10_000;
const BATCH = 100;
const COLLECT_MS = 20;
/** Of the connections whose statements are counted. */
const POOL = 'returned-devices';

describe('devices that return', function () {
  this.timeout(60_000);
  let app: TestApp;
  let tenant: BackupTenant;
  let deviceId: string;
  let db: Db;

  before(async () => {
    app = await createTestApp();
    tenant = await buildBackupTenant(app);
    await tenant.createConfig();
    ({ deviceId } = await buildDevice(app, tenant.orgId));
    // Its own round of the hand-over would take the backup that waits.
    await app.server.close();
    db = openPool(app.database.appUrl, { max: 2, name: POOL });
  });
  after(async () => {
    await db?.destroy();
    await app?.close();
  });

  const present = (state: string) =>
    asOwner(
      app.database.ownerUrl,
      `insert into device_presence (device_id, org_id, epoch, node_id, state, since, reason, last_seen_at)
      values ($1, $2, 1, 'n', $3, now(), 'connected', now()) on conflict (device_id) do update set state = excluded.state`,
      [deviceId, tenant.orgId, state],
    );

  /** A whole fleet returns within a moment, in the batches in which presence is written. */
  async function storm(): Promise<{ rounds: number; statements: number }> {
    let rounds = 0;
    const returned = new RunMissedBackups({
      db,
      jobs: {
        enqueue: async () => {
          rounds += 1;
          return { id: newId(), added: true };
        },
      },
      log: recordingLog().log,
      collectMs: COLLECT_MS,
    });
    const fleet = [deviceId, ...Array.from({ length: FLEET - 1 }, () => newId())];
    const sent = await sentStatements([POOL], async () => {
      while (fleet.length > 0) returned.turned(fleet.splice(0, BATCH));
      await testClock.advance(COLLECT_MS);
      await returned.settle();
      // Nothing is left to look up.
      await testClock.advance(10 * COLLECT_MS);
      await returned.close();
    });
    return { rounds, statements: sent.filter((text) => text.includes('from backup_jobs j')).length };
  }

  it('cost one statement together, and no round of the hand-over if nothing waits for them', async () => {
    expect(await storm()).to.deep.equal({ rounds: 0, statements: 1 });
    await asOwner(
      app.database.ownerUrl,
      `insert into backup_jobs (id, org_id, device_id, config_id, type, expires_at)
      select new_row_id(), $1, $2, id, 'manual', now() + interval '1 day' from backup_configs where org_id = $1`,
      [tenant.orgId, deviceId],
    );
    await present('disconnected');
    expect(await storm(), 'they went').to.deep.equal({ rounds: 0, statements: 1 });
    await present('connected');
    expect(await storm(), 'they came').to.deep.equal({ rounds: 1, statements: 1 });
  });

  it('are looked up again when more come meanwhile, and a database that fails does no harm', async () => {
    const { log, lines } = recordingLog();
    let rounds = 0;
    const returned = new RunMissedBackups({
      db,
      jobs: {
        enqueue: async () => {
          rounds += 1;
          if (rounds === 1) throw new Error('the database is away');
          return { id: newId(), added: true };
        },
      },
      log,
      collectMs: 5,
    });
    returned.turned([deviceId]);
    await eventually(
      () => lines.filter((line) => JSON.stringify(line).includes('backup.returned_devices_not_read')).length,
      (count) => count === 1,
    );
    returned.turned([deviceId]);
    await eventually(
      () => rounds,
      (count) => count === 2,
    );
    await returned.close();
  });
});
