import { expect } from 'chai';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { checkRepository } from '../../../../src/engine/index.ts';
import {
  makeRepository,
  polynomialOf,
  withRepository,
} from '../../../../src/features/backup/repository-access.ts';
import { createRepository } from '../../../../src/features/backup-store/repository.service.ts';
import { eventually } from '../../../support/eventually.ts';
import { needsRestic } from '../../../support/restic.ts';
import type { TestApp } from '../../../support/test-app.ts';
import { createStoreApp, inSystem, objectRows } from '../../../support/backup/store-support.ts';
import { accessParts, buildCaredRepository, type CaredRepository, DyingStorage } from './care-support.ts';

describe('the access of the server to a repository', function () {
  this.timeout(120_000);
  let app: TestApp & { dataDir: string };
  let repository: CaredRepository;

  before(async function () {
    needsRestic(this);
    app = await createStoreApp();
    repository = await buildCaredRepository(app);
  });
  after(async () => app?.close());

  interface Row {
    expires_at: Date;
    ended_at: Date | null;
  }
  const newest = () =>
    inSystem(app, async (tx) => {
      const row = await tx('backup_store_credentials')
        .where({ repository_id: repository.id })
        .orderBy('id', 'desc')
        .first<Row>('expires_at', 'ended_at');
      return row;
    });

  it('expires minutes after a server that was killed, and long before devices are let in again', async () => {
    const opened = { repositoryId: repository.id, role: 'server' } as const;
    await withRepository(accessParts(app), opened, async () => {
      const { expires_at: expiresAt } = await newest();
      expect(expiresAt.getTime() - Date.now()).to.be.within(60_000, 5 * 60_000);
    });
  });

  it('is renewed while the work goes on, and ends with it', async () => {
    const opened = { repositoryId: repository.id, role: 'server', lifetimeMs: 8000 } as const;
    await withRepository(accessParts(app), opened, async () => {
      const { expires_at: first } = await newest();
      await eventually(newest, ({ expires_at: now }) => now > first);
    });
    const { expires_at: last, ended_at: endedAt } = await newest();
    expect(endedAt).to.be.instanceOf(Date);
    await delay(2500);
    expect((await newest()).expires_at).to.deep.equal(last);
  });

  it('makes a repository that restic opens, even if it was interrupted at any step, or begins twice at once', async () => {
    const parts = accessParts(app);
    const { deviceId, tenant } = repository;
    const { orgId } = tenant;
    const fresh = () =>
      inSystem(app, (tx) =>
        createRepository(tx, {
          orgId,
          deviceId,
          configId: null,
          encryptionKeyId: tenant.keyId,
          keyVersion: 1,
        }),
      );
    const made = await fresh();
    const folder = path.join(app.dataDir, 'backups');
    // The key is written first, then the configuration.
    for (const step of ['before write', 'after write', 'after config']) {
      const storage = new DyingStorage(folder, step);
      expect(await makeRepository({ ...parts, storage }, made).catch(String)).to.equal(`Error: ${step}`);
    }
    const keyIds = await Promise.all([makeRepository(parts, made), makeRepository(parts, made)]);
    expect(keyIds[0]).to.equal(keyIds[1]);
    const twin = await fresh();
    const twins = await Promise.all([makeRepository(parts, twin), makeRepository(parts, twin)]);
    expect(twins[0]).to.equal(twins[1]);
    const like = await fresh();
    await makeRepository(parts, like, { polynomial: await polynomialOf(parts, made) });
    expect(await polynomialOf(parts, like)).to.equal(await polynomialOf(parts, made));
    expect(await polynomialOf(parts, twin)).to.not.equal(await polynomialOf(parts, made));

    for (const { id } of [made, twin]) {
      const rows = await objectRows(app.server.database.pool, id);
      const there = rows.filter(({ trashed_at: trashedAt }) => trashedAt === null);
      expect(there.map(({ type }) => type)).to.have.members(['config', 'keys']);
    }
    await withRepository(parts, { repositoryId: made.id, role: 'server' }, async (engine, access) => {
      expect(await checkRepository(engine, access)).to.include({ isSound: true });
    });
  });
});
