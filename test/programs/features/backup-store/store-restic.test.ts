import { expect } from 'chai';
import { execFileSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { cp, mkdir, readdir, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { eventually } from '../../../support/eventually.ts';
import { needsRestic, RESTIC_PASSWORD, resticFor } from '../../../support/restic.ts';
import type { TestApp } from '../../../support/test-app.ts';
import {
  buildRepository,
  createStoreApp,
  end,
  inSystem,
  issue,
  type Repository,
  resticAs,
  resticUrl,
  storeNewRepository,
} from '../../../support/backup/store-support.ts';

/** Stock restic against the store: what it does every day works, and its files are a plain repository. */

describe('the backup store and restic', function () {
  this.timeout(120_000);
  let app: TestApp & { dataDir: string };
  let repository: Repository;
  let source: string;

  before(async function () {
    needsRestic(this);
    app = await createStoreApp();
  });
  after(async () => app?.close());
  beforeEach(async () => {
    repository = await buildRepository(app);
    source = path.join(app.dataDir, `source-${repository.id}`);
    await mkdir(source);
    for (let i = 0; i < 5; i++) await writeFile(path.join(source, `file-${i}`), randomBytes(200_000));
    const server = await issue(app, repository.id, 'server');
    await storeNewRepository(app, repository.id, server, RESTIC_PASSWORD);
    await end(app, server);
  });

  const as = (role: Parameters<typeof issue>[2], more = {}) => resticAs(app, repository.id, role, more);
  const isSame = (left: string, right: string) => execFileSync('diff', ['-r', left, right]).length === 0;
  const restored = (restic: { ok: (...args: string[]) => Promise<string> }, snapshot = 'latest') => {
    const target = path.join(app.dataDir, `target-${Math.random()}`);
    return restic.ok('restore', snapshot, '--target', target).then(() => path.join(target, source));
  };

  it('serves backup, snapshots, restore, check, forget and prune, each to whom it belongs', async () => {
    // All that restic does, from the beginning.
    repository = await buildRepository(app);
    await (await as('server')).ok('init');
    const first = await as('device');
    await first.ok('backup', source);
    await end(app, first.credential);
    await rm(path.join(source, 'file-0'));
    await writeFile(path.join(source, 'file-9'), randomBytes(300_000));
    const second = await as('device');
    await second.ok('backup', source);

    const reader = await as('reader');
    const snapshots = JSON.parse(await reader.ok('snapshots', '--json')) as { id: string }[];
    expect(snapshots).to.have.length(2);
    expect(isSame(source, await restored(reader))).to.equal(true);
    await reader.ok('check', '--read-data');

    const server = await as('server');
    await end(app, second.credential);
    await server.ok('forget', snapshots[0]!.id, '--prune');
    await server.ok('check', '--read-data');
    expect(isSame(source, await restored(await as('reader')))).to.equal(true);
    const trash = await readdir(path.join(app.dataDir, 'backups', repository.id, 'trash'), {
      recursive: true,
    });
    expect(trash.some((file) => file.endsWith(`snapshots/${snapshots[0]!.id}`))).to.equal(true);
  });

  it('keeps a plain repository, which restic opens without Muster', async () => {
    await (await as('device')).ok('backup', source);
    const folder = path.join(app.dataDir, 'backups', repository.id);
    const copy = path.join(app.dataDir, 'copy');
    await cp(folder, copy, { recursive: true });
    const plain = resticFor(copy, path.join(app.dataDir, 'cache-plain'));
    await plain.ok('check', '--read-data');
    expect(isSame(source, await restored(plain))).to.equal(true);
  });

  it('leaves no lock behind, also of a backup that was killed', async () => {
    const device = await as('device');
    await writeFile(path.join(source, 'large'), randomBytes(60_000_000));
    const { child, ended } = device.start('backup', source, '--limit-upload', '5000');
    const reader = await as('server');
    await eventually(
      () => reader.ok('list', 'locks'),
      (locks) => locks !== '',
    );
    child.kill('SIGKILL');
    await ended;
    expect(await reader.ok('list', 'locks')).to.match(/^[0-9a-f]{64}\n$/);
    await end(app, device.credential);
    expect(await reader.ok('list', 'locks', '--no-lock')).to.equal('');
    await (await as('device')).ok('backup', source);
    await reader.ok('check', '--read-data');
  });

  it('lets a second device of the same organization nowhere near', async () => {
    const other = await buildRepository(app);
    const credential = await issue(app, other.id, 'device');
    const restic = resticFor(resticUrl(app.url, repository.id, credential), path.join(app.dataDir, 'c'));
    const { code, stderr } = await restic.run('snapshots');
    expect(code).to.equal(1);
    expect(stderr).to.include('401');
    expect(stderr).to.not.include(credential.secret);
  });

  it('restores everything as of a time, after a prune that was misled', async () => {
    await (await as('device')).ok('backup', source);
    const asOf = new Date();
    // The prune of a server that believes what it is shown: all that the device wrote goes.
    const server = await as('server');
    const [{ id }] = JSON.parse(await server.ok('snapshots', '--json')) as [{ id: string }];
    await inSystem(app, (tx) =>
      tx('backup_store_credentials')
        .where({ repository_id: repository.id, role: 'device' })
        .update({ ended_at: new Date() }),
    );
    await server.ok('forget', id, '--prune');
    expect(JSON.parse(await server.ok('snapshots', '--json'))).to.deep.equal([]);

    const past = await as('as-of', { asOf });
    expect(isSame(source, await restored(past))).to.equal(true);
    await past.ok('check', '--read-data');
  });
});
