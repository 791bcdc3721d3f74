import { expect } from 'chai';
import { execFileSync } from 'node:child_process';
import { cp, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { listKeys } from '../../../../src/engine/index.ts';
import { withRepository } from '../../../../src/features/backup/access/open-repository.ts';
import { rotateRepository } from '../../../../src/features/backup/rotation/rotate-repository.ts';
import { endRotations, rotateAll } from '../../../../src/features/backup/rotation/rotation.jobs.ts';
import { quietLog } from '../../../support/quiet-log.ts';
import { needsRestic } from '../../../support/restic.ts';
import type { TestApp } from '../../../support/test-app.ts';
import { createStoreApp, end, inSystem, issue } from '../store-support.ts';
import { accessParts, buildCaredRepository, type CaredRepository } from './care-support.ts';

describe('rotation of an encryption key', function () {
  this.timeout(120_000);
  let app: TestApp & { dataDir: string };
  let repository: CaredRepository;
  const never = new AbortController().signal;

  before(async function () {
    needsRestic(this);
    app = await createStoreApp();
    repository = await buildCaredRepository(app);
    await repository.backUp(0);
  });
  after(async () => app?.close());

  const keyPath = () => `/backup/encryption/keys/${repository.tenant.keyId}`;
  const status = async () => (await repository.tenant.send('GET', keyPath())).body.status;
  const round = async () => {
    const parts = accessParts(app);
    const result = await rotateAll(parts, { signal: never, log: quietLog, saveProgress: async () => {} });
    await endRotations(parts.db);
    return result;
  };
  const keysNow = () =>
    withRepository(accessParts(app), { repositoryId: repository.id, role: 'server' }, (engine, opened) =>
      listKeys(engine, opened),
    );

  it('gives the repository the new version first, and ends the old one when no device needs it', async () => {
    const rotated = await repository.tenant.send('POST', `${keyPath()}/rotate`);
    expect(rotated.body).to.include({ version: 2, status: 'rotating' });

    const device = await issue(app, repository.id, 'device');
    expect(await round()).to.deep.equal({ done: 0, postponed: 1 });
    expect((await keysNow()).map(({ hostName }) => hostName)).to.have.members(['v1', 'v2']);
    expect(await status()).to.equal('rotating');

    await end(app, device);
    expect(await round()).to.deep.equal({ done: 1, postponed: 0 });
    expect((await keysNow()).map(({ hostName }) => hostName)).to.deep.equal(['v2']);
    expect(await status()).to.equal('active');
    expect(await round()).to.deep.equal({ done: 0, postponed: 0 });
  });

  it('can be interrupted and repeated', async () => {
    await repository.tenant.send('POST', `${keyPath()}/rotate`);
    for (const after of [50, 600, 1500, 3000]) {
      await rotateRepository(accessParts(app), repository.id, AbortSignal.timeout(after)).catch(
        (error: unknown) => expect(error).to.have.property('code', 'CANCELLED'),
      );
      expect(await keysNow()).to.not.have.length(0);
    }
    await rotateRepository(accessParts(app), repository.id, never);
    expect((await keysNow()).map(({ hostName }) => hostName)).to.deep.equal(['v3']);
  });

  it('leaves a recovery kit with which stock restic restores without Muster', async () => {
    const { tenant } = repository;
    const kit = await tenant.send('GET', `${keyPath()}/recovery-kit`);
    expect(kit.status).to.equal(200);
    const [described] = kit.body.repositories;
    expect(described).to.include({ id: repository.id, provider: 'server', configName: 'Documents' });
    const { password } = kit.body.passwords.find(
      ({ version }: { version: number }) => version === described.keyVersion,
    );
    const copy = path.join(app.dataDir, 'copy');
    await cp(described.location.replace('DATA_FOLDER', app.dataDir), copy, { recursive: true });
    const passwordFile = path.join(app.dataDir, 'password');
    await writeFile(passwordFile, `${password}\n`);
    const target = path.join(app.dataDir, 'target');
    const command = described.commands[2]
      .replace(described.location, copy)
      .replace('PASSWORD_FILE', passwordFile)
      .replace('SNAPSHOT_ID', described.snapshots[0].id)
      .replace('TARGET_FOLDER', target);
    execFileSync('sh', ['-c', `${command} --cache-dir ${app.dataDir}/stock-cache`], { stdio: 'pipe' });
    execFileSync('diff', ['-r', repository.source, path.join(target, repository.source)]);
  });

  it('gives the recovery kit to nobody without its permission, and records who read it', async () => {
    const { tenant } = repository;
    await app.server.auditSealer.flush();
    const entries = await inSystem(app, (tx) =>
      tx('audit_logs').where({ org_id: tenant.orgId, action: 'backup.key.recovery_kit' }),
    );
    expect(entries).to.have.length(1);
    expect(JSON.stringify(entries)).to.not.include('password');
    const other = await buildCaredRepository(app);
    expect((await other.tenant.send('GET', `${keyPath()}/recovery-kit`)).status).to.equal(404);
  });
});
