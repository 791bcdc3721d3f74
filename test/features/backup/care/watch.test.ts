import { expect } from 'chai';
import { recordUsage, watchBackups } from '../../../../src/features/backup/watch/watch.jobs.ts';
import { createRepository } from '../../../../src/features/backup/repositories/repository.service.ts';
import { BackupSnapshot } from '../../../../src/features/backup/snapshots/snapshot.model.ts';
import { newId } from '../../../../src/platform/ids.ts';
import { buildDevice } from '../../../support/factories.ts';
import { createTestApp, type TestApp } from '../../../support/test-app.ts';
import { type BackupTenant, buildBackupTenant } from '../backup-support.ts';
import { inSystem } from '../store-support.ts';

describe('how devices are protected', function () {
  this.timeout(120_000);
  let app: TestApp;
  let tenant: BackupTenant;
  let place: { orgId: string; deviceId: string; configId: string; repositoryId: string };

  before(async () => {
    app = await createTestApp();
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
      tx('backup_jobs').insert({
        id: newId(),
        org_id: place.orgId,
        device_id: place.deviceId,
        config_id: place.configId,
        type: 'manual',
        status,
        error_code: errorCode,
        error_message: errorCode === null ? null : 'It failed.',
        expires_at: new Date(),
        finished_at: new Date(),
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

  it('is judged by the SLA, and its restores are expected to take as long as those before', async () => {
    const [snapshot] = await inSystem(app, (tx) =>
      tx('backup_snapshots').where({ device_id: place.deviceId }),
    );
    const restored = (bytes: number, seconds: number, dryRun = false) =>
      inSystem(app, (tx) =>
        tx('backup_restores').insert({
          id: newId(),
          org_id: place.orgId,
          device_id: place.deviceId,
          snapshot_id: snapshot.id,
          overwrite: 'never',
          command_id: newId(),
          status: 'completed',
          dry_run: dryRun,
          restored_bytes: bytes,
          expires_at: new Date(),
          started_at: new Date(Date.now() - seconds * 1000),
          finished_at: new Date(),
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
    await inSystem(app, (tx) => tx('backup_restores').where({ device_id: place.deviceId }).delete());
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
