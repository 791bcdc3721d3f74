import { expect } from 'chai';
import { execFileSync } from 'node:child_process';
import { cp, readdir, readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { listSnapshots } from '../../../../src/engine/index.ts';
import { withRepository } from '../../../../src/features/backup/repository-access.ts';
import {
  sealedVersion,
  EncryptionKey,
  EncryptionKeyVersion,
} from '../../../../src/features/backup/key.model.ts';
import { rotateRepository, rotateAll } from '../../../../src/features/backup/key-rotation.work.ts';
import { endRotations } from '../../../../src/features/backup/key.queries.ts';
import { quietLog } from '../../../support/quiet-log.ts';
import { needsRestic } from '../../../support/restic.ts';
import type { TestApp } from '../../../support/test-app.ts';
import { createStoreApp, end, inSystem, issue, objectRows } from '../../../support/backup/store-support.ts';
import { accessParts, buildCaredRepository, type CaredRepository, DyingStorage } from './care-support.ts';

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
    await inSystem(app, endRotations);
    return result;
  };
  /** As a rotation makes it, but without the job that begins at once: the rounds are those of the test. */
  const newVersion = () =>
    inSystem(app, async (tx) => {
      const { secrets } = accessParts(app);
      const key = await EncryptionKey.query(tx).findById(repository.tenant.keyId).throwIfNotFound();
      const { id: keyId, orgId } = key;
      const version = key.version + 1;
      await EncryptionKeyVersion.query(tx).insert(
        sealedVersion(secrets, { orgId, keyId, version, material: undefined }),
      );
      await key.$query(tx).patch({ version, status: 'rotating', rotatedAt: new Date() });
    });
  /** As stock restic would read them; the names are in the clear. */
  const keysNow = async () => {
    const folder = path.join(app.dataDir, 'backups', repository.id, 'keys');
    const names = await readdir(folder);
    const files = await Promise.all(names.map((name) => readFile(path.join(folder, name), 'utf8')));
    return files.map((file) => JSON.parse(file).hostname as string);
  };

  it('gives the repository the new version first, and ends the old one when no device needs it', async () => {
    await newVersion();

    const device = await issue(app, repository.id, 'device');
    expect(await round()).to.deep.equal({ done: 0, postponed: 1 });
    expect(await keysNow()).to.have.members(['v1', 'v2']);
    expect(await status()).to.equal('rotating');

    await end(app, device);
    expect(await round()).to.deep.equal({ done: 1, postponed: 0 });
    expect(await keysNow()).to.deep.equal(['v2']);
    expect(await status()).to.equal('active');
    expect(await round()).to.deep.equal({ done: 0, postponed: 0 });
  });

  it('can be interrupted at each step, and repeated', async () => {
    const parts = accessParts(app);
    for (const step of ['before write', 'after write', 'before setAside', 'after setAside'] as const) {
      await newVersion();
      const storage = new DyingStorage(path.join(app.dataDir, 'backups'), step);
      const failure = await rotateRepository({ ...parts, storage }, repository.id, never).catch(String);
      expect(failure).to.equal(`Error: ${step}`);
      // What the record names opens it.
      const opened = { repositoryId: repository.id, role: 'reader' } as const;
      const snapshots = await withRepository(parts, opened, (engine, access) =>
        listSnapshots(engine, access),
      );
      expect(snapshots, step).to.have.length(1);
      expect(await round(), step).to.deep.equal({ done: 1, postponed: 0 });
      const keys = (await objectRows(app.server.database.pool, repository.id)).filter(
        ({ type, trashed_at: trashedAt }) => type === 'keys' && trashedAt === null,
      );
      expect(keys, step).to.have.length(1);
      expect(await status()).to.equal('active');
    }
    const stopped = await rotateRepository(parts, repository.id, AbortSignal.abort()).catch(String);
    expect(stopped).to.include('cancelled');
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
    await app.server.chainWriter.flush();
    const entries = await inSystem(app, (tx) =>
      tx('audit_logs')
        .where({ org_id: tenant.orgId, resource_type: 'backup_encryption_key' })
        .whereIn('action', ['backup.key.recovery_kit', 'data.export'])
        .select<{ action: string }[]>('action', 'details'),
    );
    expect(entries.map(({ action }) => action)).to.have.members(['backup.key.recovery_kit', 'data.export']);
    expect(JSON.stringify(entries)).to.not.include('password');
    const other = await buildCaredRepository(app);
    expect((await other.tenant.send('GET', `${keyPath()}/recovery-kit`)).status).to.equal(404);
  });
});
