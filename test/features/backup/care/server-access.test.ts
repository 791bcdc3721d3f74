import { expect } from 'chai';
import { setTimeout as delay } from 'node:timers/promises';
import { withRepository } from '../../../../src/features/backup/access/open-repository.ts';
import { eventually } from '../../../support/eventually.ts';
import { needsRestic } from '../../../support/restic.ts';
import type { TestApp } from '../../../support/test-app.ts';
import { createStoreApp, inSystem } from '../store-support.ts';
import { accessParts, buildCaredRepository, type CaredRepository } from './care-support.ts';

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
});
