import { expect } from 'chai';
import {
  watchDestinationSpace,
  recordUsage,
  watchBackups,
} from '../../../../src/features/backup/watch.work.ts';
import { createRepository } from '../../../../src/features/backup-store/repository.service.ts';
import { BackupSnapshot } from '../../../../src/features/backup/snapshot.model.ts';
import { newId } from '../../../../src/platform/ids.ts';
import { buildDevice } from '../../../support/factories.ts';
import { sharedTestApp, type TestApp } from '../../../support/test-app.ts';
import { type BackupTenant, buildBackupTenant } from '../../../support/backup/backup-support.ts';
import { inSystem } from '../../../support/backup/store-support.ts';
import { insertJob } from '../../../support/backup/job-rows.ts';
import { insertRestore } from '../../../support/backup/restore-rows.ts';

describe('how devices are protected', function () {
  this.timeout(120_000);
  let app: TestApp;
  let tenant: BackupTenant;
  let place: { orgId: string; deviceId: string; configId: string; repositoryId: string };

  before(async () => {
    app = await sharedTestApp();
    tenant = await buildBackupTenant(app);
    const { id: configId } = await tenant.createConfig({ schedule: { frequency: 'daily', time: '02:00' } });
    const { orgId } = tenant;
    const { deviceId } = await buildDevice(app, orgId);
    const repository = await inSystem(app, (tx) =>
      createRepository(tx, { orgId, deviceId, configId, encryptionKeyId: tenant.keyId, keyVersion: 1 }),
    );
    await inSystem(app, (tx) =>
      repository.$query(tx).patch({ initializedAt: new Date(), storedBytes: '4096' }),
    );
    place = { orgId, deviceId, configId, repositoryId: repository.id };
  });
  after(async () => app?.close());

  const watch = () => watchBackups(app.server.database.jobPool, new AbortController().signal);
  const arrive = (daysAgo: number, sizeBytes: number) =>
    inSystem(app, (tx) =>
      BackupSnapshot.query(tx).insert({
        ...place,
        engineId: newId().replaceAll('-', '').repeat(2),
        receivedAt: new Date(Date.now() - daysAgo * 86_400_000),
        sizeBytes: String(sizeBytes),
        fileCount: '10',
        changedFiles: '1',
      }),
    );
  const endJob = (status: string, errorCode: string | null = null) =>
    inSystem(app, (tx) =>
      insertJob(tx, {
        ...place,
        work: {
          status,
          error_code: errorCode,
          error_message: errorCode === null ? null : 'It failed.',
          finished_at: new Date(),
        },
      }),
    );
  const alerts = async () => {
    const { body } = await tenant.send('GET', `/alerts?deviceId=${place.deviceId}&status=active`);
    return body.data.map(({ kind, count }: { kind: string; count: number }) => `${kind} ${count}`).sort();
  };

  it('is watched: a failed backup raises one alert, which a good one ends', async () => {
    await endJob('failed', 'DESTINATION_FULL');
    await arrive(1, 10_000_000);
    await watch();
    await watch();
    expect(await alerts()).to.deep.equal(['backup_failed 1']);
    await endJob('completed');
    await watch();
    expect(await alerts()).to.deep.equal([]);
  });

  it('holds an alert about a size drop until the size is back', async () => {
    await arrive(0.5, 1000);
    await watch();
    expect(await alerts()).to.deep.equal(['backup_size_drop 1']);
    for (const daysAgo of [0.4, 0.3, 0.2]) await arrive(daysAgo, 1000);
    await watch();
    expect(await alerts()).to.deep.equal(['backup_size_drop 1']);
    await arrive(0.1, 9_000_000);
    await watch();
    expect(await alerts()).to.deep.equal([]);
  });

  describe('a destination that is full soon', () => {
    const GB = 1e9;
    let other: BackupTenant;
    let deviceId: string;
    const quota = (organization?: number, partner?: number) => ({
      organizationBytes: organization === undefined ? undefined : organization * GB,
      partnerBytes: partner === undefined ? undefined : partner * GB,
    });
    const watchRoom = (limits = quota(), diskFreeBytes?: number) =>
      watchDestinationSpace({
        db: app.server.database.jobPool,
        storage: { freeBytes: () => Promise.resolve(diskFreeBytes) },
        quota: limits,
      });
    const raised = async () => {
      const { body } = await other.send('GET', '/alerts?status=active');
      return body.data.filter(({ kind }: { kind: string }) => kind === 'backup_destination_full');
    };
    const repositoryAt = async (provider: string) => {
      const { id: configId } = await other.createConfig({
        name: `On ${provider}`,
        ...(provider === 'local' ? { provider, details: { path: '/mnt/disk' } } : {}),
      });
      return inSystem(app, (tx) =>
        createRepository(tx, {
          orgId: other.orgId,
          deviceId,
          configId,
          provider: provider === 'local' ? 'local' : 'server',
          encryptionKeyId: other.keyId,
          keyVersion: 1,
        }),
      );
    };

    before(async () => {
      other = await buildBackupTenant(app);
      ({ deviceId } = await buildDevice(app, other.orgId));
    });

    it('raises one alert of the organization by its quota, which lasts until there is room again', async () => {
      const { id } = await repositoryAt('server');
      const stored = (gigabytes: number) =>
        inSystem(app, (tx) =>
          tx('backup_repositories')
            .where({ id })
            .update({ stored_bytes: gigabytes * GB }),
        );
      await stored(40);
      await watchRoom(quota(100));
      expect(await raised(), 'without a history, with room').to.deep.equal([]);
      // 0.5 GB a day, later 5.5 GB a day.
      await inSystem(app, (tx) =>
        tx.raw(
          `insert into backup_usage_days (org_id, day, provider, bytes, snapshots)
          values (?, (now() at time zone 'UTC')::date - 10, 'server', ?, 1)`,
          [other.orgId, 35 * GB],
        ),
      );
      await watchRoom(quota(100));
      expect(await raised(), 'full in 120 days').to.deep.equal([]);
      await stored(90);
      await watchRoom(quota(190));
      expect(await raised(), 'full in 18 days').to.deep.equal([]);
      await watchRoom(quota(100));
      await watchRoom(quota(100));
      const [alert, ...more] = await raised();
      expect(more).to.deep.equal([]);
      expect(alert).to.include({ deviceId: null, severity: 'critical', count: 1 });
      expect(alert.message).to.match(
        /^The quota of this organization in the backup store is full in about 2 days: 9\.3 GiB are free\./,
      );
      await watchRoom(quota(190));
      expect(await raised(), 'full in 18 days, and raised before').to.have.length(1);
      await watchRoom(quota(300));
      expect(await raised()).to.deep.equal([]);
    });

    it('says nothing of other organizations if the quota of the partner or the disk is the limit', async () => {
      await watchRoom(quota(undefined, 93), 4 * GB);
      const [alert] = await raised();
      expect(alert.details.places).to.deep.equal(['partner_quota', 'store_disk']);
      expect(alert.message).to.contain(
        'The quota of the partner in the backup store is full in about one day.',
      );
      expect(alert.message).to.contain('The disk of the backup store is full in about one day.');
      expect(alert.message).not.to.contain('GiB');
      await watchRoom(quota(undefined, 900), 500 * GB);
      expect(await raised()).to.deep.equal([]);
    });

    it('raises one of the device if its own disk is the limit, by what its snapshots add', async () => {
      const { id, configId } = await repositoryAt('local');
      const free = (gigabytes: number, ofGigabytes = 1000) =>
        inSystem(app, (tx) =>
          tx('backup_repositories')
            .where({ id })
            .update({ destination_free_bytes: gigabytes * GB, destination_total_bytes: ofGigabytes * GB }),
        );
      const arriveThere = (daysAgo: number, addedBytes: number) =>
        inSystem(app, (tx) =>
          BackupSnapshot.query(tx).insert({
            orgId: other.orgId,
            deviceId,
            configId,
            repositoryId: id,
            engineId: newId().replaceAll('-', '').repeat(2),
            receivedAt: new Date(Date.now() - daysAgo * 86_400_000),
            addedBytes: String(addedBytes),
          }),
        );
      // The first snapshot is all that there is, and says nothing of what comes.
      await arriveThere(10, 500 * GB);
      await free(305);
      await watchRoom();
      expect(await raised()).to.deep.equal([]);
      await arriveThere(4, 150 * GB);
      await arriveThere(1, 150 * GB);
      await watchRoom();
      const [alert] = await raised();
      expect(alert).to.include({ deviceId, severity: 'high' });
      expect(alert.details).to.deep.equal({ places: [configId], daysLeft: 10 });
      expect(alert.title).to.match(/: the destination of its backups is full soon$/);
      await free(900);
      await watchRoom();
      expect(await raised()).to.deep.equal([]);
      // A backup did not fit.
      await free(0, 0);
      await watchRoom();
      expect((await raised())[0].message).to.contain('On local: the destination is full.');

      // A vault of it grows by what is backed up.
      await free(900);
      const vault = { deviceId, name: 'Cellar', provider: 'local', details: { path: '/mnt/cellar' } };
      const made = await other.send('POST', '/backup/vault', { ...vault, configId });
      expect(made.status, JSON.stringify(made.body)).to.equal(201);
      const copies = made.body;
      await inSystem(app, (tx) =>
        tx('backup_repositories')
          .where({ id: copies.repositoryId })
          .update({ destination_free_bytes: 205 * GB, destination_total_bytes: 1000 * GB }),
      );
      await watchRoom();
      const [ofVault] = await raised();
      expect(ofVault.message).to.contain('Cellar: the destination is full in about 7 days');
      expect(ofVault.details).to.deep.equal({ places: [copies.id], daysLeft: 6 });
    });
  });

  it('opens one event for each breach of an SLA, and closes it when the SLA is met', async () => {
    const sla = { orgId: place.orgId, name: 'Gold', rpoTargetMinutes: 60, rtoTargetMinutes: 60 };
    expect((await tenant.send('POST', '/backup/sla/configs', sla)).status).to.equal(201);
    await watch();
    await watch();
    const events = async () => (await tenant.send('GET', '/backup/sla/events')).body.data;
    expect(await events()).to.have.length(1);
    expect((await events())[0]).to.include({ eventType: 'rpo_breach', resolvedAt: null });
    expect(await alerts()).to.deep.equal(['backup_sla_breach 1']);
    await arrive(0, 9_000_000);
    await watch();
    expect((await events())[0].resolvedAt).to.be.a('string');
    expect(await alerts()).to.deep.equal([]);
  });

  it('follows an SLA that is changed, and forgets one that is deleted', async () => {
    const other = await buildBackupTenant(app);
    const { orgId, deviceId } = place;
    const [gold] = (await tenant.send('GET', '/backup/sla/configs')).body.data;
    const path = `/backup/sla/configs/${gold.id}`;
    const open = async (of = tenant, query = `?orgId=${orgId}`) => {
      const { status, body } = await of.send('GET', `/backup/sla/events${query}`);
      return status === 200
        ? body.data.filter(({ resolvedAt }: { resolvedAt: string | null }) => resolvedAt === null).length
        : status;
    };
    await inSystem(app, (tx) =>
      tx('backup_snapshots')
        .where({ device_id: deviceId })
        .update({
          received_at: tx.raw("received_at - interval '1 hour'"),
        }),
    );
    const changed = await tenant.send('PATCH', path, { rpoTargetMinutes: 30, targetDevices: [deviceId] });
    expect(changed.body).to.deep.include({ name: 'Gold', rpoTargetMinutes: 30, targetDevices: [deviceId] });
    await watch();
    expect(await open()).to.equal(1);
    expect(await open(other, '')).to.equal(0);
    expect(await open(other)).to.equal(403);

    await tenant.send('PATCH', path, { isActive: false });
    await watch();
    expect(await open()).to.equal(0);
    expect(await alerts()).to.deep.equal([]);

    const foreign = { targetDevices: [(await buildDevice(app, other.orgId)).deviceId] };
    expect((await tenant.send('PATCH', path, foreign)).body.details[0].path).to.equal('body.targetDevices.0');
    expect((await tenant.send('PATCH', path, {})).status).to.equal(400);
    expect((await other.send('PATCH', path, { name: 'Mine' })).status).to.equal(404);
    expect((await other.send('DELETE', path)).status).to.equal(404);

    const silver = { orgId, name: 'Silver', rpoTargetMinutes: 60, rtoTargetMinutes: 60 };
    const { id } = (await tenant.send('POST', '/backup/sla/configs', silver)).body;
    expect((await tenant.send('PATCH', `/backup/sla/configs/${id}`, { name: 'gold' })).status).to.equal(409);
    await watch();
    expect(await open()).to.equal(1);
    expect((await tenant.send('DELETE', `/backup/sla/configs/${id}`)).status).to.equal(200);
    expect(await open()).to.equal(0);
    await watch();
    expect(await alerts()).to.deep.equal([]);

    const back = { isActive: true, rpoTargetMinutes: 60, targetDevices: [] };
    expect((await tenant.send('PATCH', path, back)).status).to.equal(200);
    await inSystem(app, (tx) =>
      tx('backup_snapshots')
        .where({ device_id: deviceId })
        .update({
          received_at: tx.raw("received_at + interval '1 hour'"),
        }),
    );
    await watch();
  });

  it('is judged by the SLA, and its restores are expected to take as long as those before', async () => {
    const [snapshot] = await inSystem(app, (tx) =>
      tx('backup_snapshots').where({ device_id: place.deviceId }),
    );
    const restored = (bytes: number, seconds: number, dryRun = false) =>
      inSystem(app, (tx) =>
        insertRestore(tx, {
          orgId: place.orgId,
          deviceId: place.deviceId,
          work: {
            status: 'completed',
            started_at: new Date(Date.now() - seconds * 1000),
            finished_at: new Date(),
          },
          facts: { snapshot_id: snapshot.id, dry_run: dryRun, restored_bytes: bytes },
        }),
      );
    const figures = async () =>
      (await tenant.send('GET', '/backup/recovery-readiness?refresh=true')).body.data.devices[0];
    expect(await figures()).to.include({ estimatedRtoMinutes: null });
    await restored(9_000_000, 300);
    await restored(9_000_000_000, 1, true);
    const found = await figures();
    // The newest snapshot has 9 MB.
    expect(found.estimatedRtoMinutes).to.equal(10);
    expect(found.riskFactors.map(({ code }: { code: string }) => code)).not.to.include('restore_slow');
    const setTarget = (column: string, minutes: number) =>
      inSystem(app, (tx) =>
        tx('backup_sla_configs')
          .where({ org_id: place.orgId })
          .update({ [column]: minutes }),
      );
    await setTarget('rto_target_minutes', 9);
    const slow = await figures();
    expect(slow.riskFactors.map(({ code }: { code: string }) => code)).to.include('restore_slow');
    expect(slow.readinessScore).to.equal(found.readinessScore - 10);
    await setTarget('rto_target_minutes', 60);
    await inSystem(app, (tx) => tx('work').where({ kind: 'restore', device_id: place.deviceId }).delete());
  });

  it('shows in the overview of the own tenant, and in no other', async () => {
    const other = await buildBackupTenant(app);
    await recordUsage(app.server.database.jobPool);
    const read = async (path: string, of = tenant) => (await of.send('GET', path)).body.data;

    const readiness = await read('/backup/recovery-readiness?refresh=true');
    expect(readiness.summary).to.include({ devices: 1 });
    expect(readiness.devices[0]).to.include({ deviceId: place.deviceId, readinessScore: 75 });
    expect((await read('/backup/recovery-readiness?refresh=true', other)).devices).to.deep.equal([]);
    expect(await read('/backup/health')).to.include({
      status: 'degraded',
      devices: 1,
      critical: 0,
      atRisk: 1,
    });
    expect(await read('/backup/health', other)).to.include({ status: 'healthy', devices: 0 });

    const dashboard = await read('/backup/dashboard');
    expect(dashboard.totals).to.deep.equal({ configs: 1, jobs: 2, snapshots: 7 });
    expect(dashboard.jobsLast24h).to.include({ failed: 1, completed: 1 });
    expect(dashboard.coverage).to.deep.equal({ devices: 1, protectedDevices: 0 });
    expect(dashboard.storage.totalBytes).to.equal(4096);
    expect((await read('/backup/dashboard', other)).latestJobs).to.deep.equal([]);

    const status = await read(`/backup/status/${place.deviceId}`);
    expect(status).to.include({ protected: false, configId: place.configId, lastFailureError: 'It failed.' });
    expect(new Date(status.nextScheduledAt).getTime()).to.be.greaterThan(Date.now());
    expect((await other.send('GET', `/backup/status/${place.deviceId}`)).status).to.equal(404);

    const usage = await read('/backup/usage-history?days=3');
    expect(usage.points).to.have.length(3);
    expect(usage.points.at(-1)).to.include({ totalBytes: 4096 });
    expect((await tenant.send('GET', '/backup/usage-history?days=91')).status).to.equal(400);
  });
});
