import { expect } from 'chai';
import { newId } from '../../../../src/platform/ids.ts';
import { buildDevice, giveSecondFactor } from '../../../support/factories.ts';
import { connectDevice } from '../../../support/fake-device.ts';
import { COMMAND_TYPES, SECRETS_CAPABILITY } from '../../../../src/protocol/index.ts';
import { needsRestic } from '../../../support/restic.ts';
import type { TestApp } from '../../../support/test-app.ts';
import { type BackupTenant, buildBackupTenant } from '../../../support/backup/backup-support.ts';
import { createStoreApp, inSystem } from '../../../support/backup/store-support.ts';

const S3 = {
  provider: 's3',
  details: { bucket: 'acme-backups', region: 'eu-central-1', accessKey: 'AKIA', secretKey: 'very-secret' },
};

describe('a backup configuration', () => {
  let app: TestApp & { dataDir: string };
  let tenant: BackupTenant;

  before(async () => {
    app = await createStoreApp();
    tenant = await buildBackupTenant(app);
  });
  after(async () => app?.close());

  const remove = (id: string, query = '') => tenant.send('DELETE', `/backup/configs/${id}${query}`);

  it('is tested on the server, which writes and reads its store', async function () {
    needsRestic(this);
    const { id } = await tenant.createConfig({ name: 'Tested' });
    const answer = await tenant.send('POST', `/backup/configs/${id}/test`, {});
    expect(answer.status, JSON.stringify(answer.body)).to.equal(200);
    expect(answer.body).to.deep.include({
      id,
      status: 'success',
      checks: [
        { name: 'encryption_key', ok: true },
        {
          name: 'sources',
          ok: true,
          message:
            'On Linux, /proc, /sys, /dev, /run and other virtual file systems below the sources are left out, which the job says.',
        },
        { name: 'engine', ok: true },
        { name: 'storage', ok: true },
      ],
    });
  });

  it('of a bucket is tested by a device of the organization, which gets the secret by reference', async () => {
    const { id } = await tenant.createConfig({ name: 'Bucket', ...S3 });
    expect((await tenant.send('POST', `/backup/configs/${id}/test`, {})).status).to.equal(400);
    const stranger = await buildBackupTenant(app);
    const { deviceId: foreign } = await buildDevice(app, stranger.orgId);
    const refused = await tenant.send('POST', `/backup/configs/${id}/test`, { deviceId: foreign });
    expect(refused.status).to.equal(404);

    const { deviceId, token } = await buildDevice(app, tenant.orgId);
    const device = await connectDevice(app, token, { capabilities: [...COMMAND_TYPES, SECRETS_CAPABILITY] });
    const asked = tenant.send('POST', `/backup/configs/${id}/test`, { deviceId });
    const frame = await device.nextCommand();
    expect(frame.type).to.equal('backup.test-destination');
    expect(JSON.stringify(frame.payload)).not.to.include('very-secret');
    expect(Object.values(frame.secrets ?? {})).to.deep.equal(['very-secret']);
    const checks = [{ name: 'write', ok: false, code: 'DESTINATION_DENIED', message: 'Refused.' }];
    await device.succeed(frame, { checks });
    const answer = await asked;
    expect(answer.body, JSON.stringify(answer.body)).to.include({ status: 'failed' });
    const [key, sources, ...ofDevice] = answer.body.checks;
    expect([key.name, sources.name]).to.deep.equal(['encryption_key', 'sources']);
    expect(ofDevice).to.deep.equal(checks);
    device.close();
  });

  it('is deleted, but not while its snapshots are held', async () => {
    const { id } = await tenant.createConfig({ name: 'Old' });
    const { deviceId } = await buildDevice(app, tenant.orgId);
    const repositoryId = newId();
    const { orgId } = tenant;
    await inSystem(app, async (tx) => {
      await tx('backup_repositories').insert({
        id: repositoryId,
        org_id: orgId,
        device_id: deviceId,
        config_id: id,
      });
      await tx('backup_snapshots').insert({
        id: newId(),
        org_id: orgId,
        device_id: deviceId,
        config_id: id,
        repository_id: repositoryId,
        engine_id: 'b'.repeat(64),
        received_at: new Date(),
      });
    });
    const waiting = await tenant.send('POST', `/backup/jobs/run/${deviceId}`, { configId: id });
    expect(waiting.status, JSON.stringify(waiting.body)).to.equal(201);

    const held = await remove(id);
    expect(held.status).to.equal(409);
    expect(held.body.details).to.deep.equal({ snapshots: 1 });
    const deleted = await remove(id, '?keepSnapshots=true');
    expect(deleted.body, JSON.stringify(deleted.body)).to.deep.equal({ success: true, keptSnapshots: 1 });
    const job = await tenant.send('GET', `/backup/jobs/${waiting.body.id}`);
    expect(job.body).to.include({ status: 'cancelled', configId: null });
    const kept = await inSystem(app, (tx) => tx('backup_snapshots').where({ repository_id: repositoryId }));
    expect(kept).to.have.length(1);
  });

  it('is deleted by people with a second factor and the right, of its own organization', async () => {
    const { id } = await tenant.createConfig({ name: 'Guarded' });
    const stranger = await buildBackupTenant(app);
    expect((await stranger.send('DELETE', `/backup/configs/${id}`)).status).to.equal(404);
    expect((await stranger.send('POST', `/backup/configs/${id}/test`, {})).status).to.equal(404);
    await giveSecondFactor(app, tenant.technician);
    expect(
      (await tenant.send('DELETE', `/backup/configs/${id}`, undefined, tenant.technician)).status,
    ).to.equal(403);
    expect((await remove(id)).body).to.deep.equal({ success: true, keptSnapshots: 0 });
    expect((await remove(id)).status).to.equal(404);
  });
});
