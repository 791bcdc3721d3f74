import { createHash, randomBytes } from 'node:crypto';
import { expect } from 'chai';
import { buildTenant } from '../../../support/factories.ts';
import { sharedTestApp, type TestApp } from '../../../support/test-app.ts';
import { type BackupTenant, buildBackupTenant, storedText } from '../../../support/backup/backup-support.ts';

const KEYS = '/backup/encryption/keys';
const STORED = ['backup_encryption_keys', 'backup_encryption_key_versions', 'audit_logs', 'audit_outbox'];

describe('encryption keys of backups', () => {
  let app: TestApp;
  let tenant: BackupTenant;

  before(async () => {
    app = await sharedTestApp();
    tenant = await buildBackupTenant(app);
  });
  after(async () => app.close());

  it('are made by the server or brought along, and shown by their fingerprint only', async () => {
    const material = randomBytes(32);
    const made = await tenant.send('POST', KEYS, {
      orgId: tenant.orgId,
      name: 'Brought along',
      material: material.toString('base64'),
    });
    expect(made.status).to.equal(201);
    expect(made.body).to.include({
      name: 'Brought along',
      keyType: 'aes_256',
      version: 1,
      status: 'active',
      rotatedAt: null,
      fingerprint: createHash('sha256').update(material).digest('hex'),
    });
    expect(JSON.stringify(made.body)).not.to.include(material.toString('base64'));
    expect(await storedText(app, STORED)).not.to.include(material.toString('base64'));
    expect((await tenant.send('GET', `${KEYS}/${made.body.id}`)).body).to.deep.equal(made.body);
    const { data } = (await tenant.send('GET', `${KEYS}?orgId=${tenant.orgId}`)).body;
    expect(data.map(({ name }: { name: string }) => name)).to.deep.equal(['Brought along', 'Main']);
  });

  it('are rotated to a new version', async () => {
    const { id, fingerprint } = (await tenant.send('POST', KEYS, { orgId: tenant.orgId, name: 'Rotated' }))
      .body;
    const rotated = await tenant.send('POST', `${KEYS}/${id}/rotate`);
    expect(rotated.status).to.equal(200);
    expect(rotated.body).to.include({ version: 2, status: 'rotating' });
    expect(rotated.body.fingerprint).not.to.equal(fingerprint);
    expect(rotated.body.rotatedAt).to.be.a('string');
  });

  it('are made by people with a second factor and the right to recover only', async () => {
    const body = { orgId: tenant.orgId, name: 'Refused' };
    expect((await tenant.send('POST', KEYS, body, tenant.technician)).status).to.equal(403);
    const other = await buildTenant(app);
    expect((await tenant.send('POST', KEYS, { ...body, orgId: other.orgId }, other.admin)).status).to.equal(
      403,
    );
    const key = (await tenant.send('GET', KEYS)).body.data[0];
    expect((await tenant.send('GET', `${KEYS}/${key.id}`, undefined, other.admin)).status).to.equal(404);
    expect((await tenant.send('POST', KEYS, { ...body, orgId: other.orgId })).status).to.equal(403);
    expect((await tenant.send('GET', KEYS, undefined, other.admin)).body.data).to.deep.equal([]);
  });

  it('refuse a name twice, and material that is no key', async () => {
    expect((await tenant.send('POST', KEYS, { orgId: tenant.orgId, name: 'MAIN' })).status).to.equal(409);
    for (const material of [
      '',
      'AAAA',
      randomBytes(31).toString('base64'),
      `${randomBytes(32).toString('base64')} `,
    ]) {
      const answer = await tenant.send('POST', KEYS, { orgId: tenant.orgId, name: 'Bad', material });
      expect([answer.status, answer.body.details?.[0]?.path], material).to.deep.equal([400, 'body.material']);
    }
  });
});
