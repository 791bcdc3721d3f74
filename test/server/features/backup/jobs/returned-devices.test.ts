import { expect } from 'chai';
import { ReturnedDevices } from '../../../../../src/features/backup/jobs/returned-devices.ts';
import { newId } from '../../../../../src/platform/ids.ts';
import { buildDevice } from '../../../../support/factories.ts';
import { eventually } from '../../../../support/eventually.ts';
import { recordingLog } from '../../../../support/quiet-log.ts';
import { sentStatements } from '../../../../support/sent-statements.ts';
import { sharedTestApp, type TestApp } from '../../../../support/test-app.ts';
import { type BackupTenant, buildBackupTenant } from '../../../../support/backup/backup-support.ts';
import { inSystem } from '../../../../support/backup/store-support.ts';

const FLEET = 10_000;
const BATCH = 100;

describe('devices that return', function () {
  this.timeout(60_000);
  let app: TestApp;
  let tenant: BackupTenant;
  let deviceId: string;

  before(async () => {
    app = await sharedTestApp();
    tenant = await buildBackupTenant(app);
    await tenant.createConfig();
    ({ deviceId } = await buildDevice(app, tenant.orgId));
  });
  after(async () => app?.close());

  const present = (state: string) =>
    inSystem(app, (tx) =>
      tx.raw(
        `insert into device_presence (device_id, org_id, epoch, node_id, state, since, reason, last_seen_at)
        values (?, ?, 1, 'n', ?, now(), 'connected', now()) on conflict (device_id) do update set state = excluded.state`,
        [deviceId, tenant.orgId, state],
      ),
    );

  /** A whole fleet returns within a moment, in the batches in which presence is written. */
  async function storm(): Promise<{ rounds: number; statements: number }> {
    let rounds = 0;
    const returned = new ReturnedDevices({
      db: app.server.database.hubPool,
      jobs: {
        enqueue: async () => {
          rounds += 1;
          return { id: newId(), added: true };
        },
      },
      log: recordingLog().log,
      collectMs: 20,
    });
    const fleet = [deviceId, ...Array.from({ length: FLEET - 1 }, () => newId())];
    const sent = await sentStatements(['muster-hub'], async () => {
      while (fleet.length > 0) returned.turned(fleet.splice(0, BATCH));
      await new Promise((resolve) => setTimeout(resolve, 200));
      await returned.close();
    });
    return { rounds, statements: sent.filter((text) => text.includes('from backup_jobs j')).length };
  }

  it('cost one statement together, and no round of the hand-over where nothing waits for them', async () => {
    expect(await storm()).to.deep.equal({ rounds: 0, statements: 1 });
    await inSystem(app, (tx) =>
      tx.raw(
        `insert into backup_jobs (id, org_id, device_id, config_id, type, expires_at)
        select new_row_id(), ?, ?, id, 'manual', now() + interval '1 day' from backup_configs where org_id = ?`,
        [tenant.orgId, deviceId, tenant.orgId],
      ),
    );
    await present('disconnected');
    expect(await storm(), 'they went').to.deep.equal({ rounds: 0, statements: 1 });
    await present('connected');
    expect(await storm(), 'they came').to.deep.equal({ rounds: 1, statements: 1 });
  });

  it('are looked up again when more come meanwhile, and a database that fails harms nobody', async () => {
    const { log, lines } = recordingLog();
    let rounds = 0;
    const db = app.server.database.hubPool;
    const returned = new ReturnedDevices({
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
