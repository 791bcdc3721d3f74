import { expect } from 'chai';
import { readdir, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { chooseSample, judgeTestRestore } from '../../../../src/features/backup/test-restore.ts';
import { eventually } from '../../../support/eventually.ts';
import { needsRestic } from '../../../support/restic.ts';
import type { TestApp } from '../../../support/test-app.ts';
import { createStoreApp, inSystem } from '../../../support/backup/store-support.ts';
import { buildCaredRepository, type CaredRepository } from './care-support.ts';

describe('the integrity of a repository', function () {
  this.timeout(120_000);
  let app: TestApp & { dataDir: string };
  let repository: CaredRepository;

  before(async function () {
    needsRestic(this);
    app = await createStoreApp();
    repository = await buildCaredRepository(app);
    await repository.backUp(0);
  });
  after(async () => app?.close());

  const start = async () => {
    const { body, status } = await repository.tenant.send('POST', '/backup/verify', {
      deviceId: repository.deviceId,
      verificationType: 'integrity',
    });
    expect(status, JSON.stringify(body)).to.equal(201);
    const list = `/backup/verifications?deviceId=${repository.deviceId}`;
    const { data } = await eventually(
      async () => (await repository.tenant.send('GET', list)).body,
      (answer) => answer.data[0].id === body.id && answer.data[0].finishedAt !== null,
      45_000,
    );
    return data[0];
  };
  const hold = (trashHeldAt: Date | null) =>
    inSystem(app, (tx) =>
      tx('backup_repositories').where({ id: repository.id }).update({ trash_held_at: trashHeldAt }),
    );
  const isHeld = async () => {
    const row = await inSystem(app, (tx) => tx('backup_repositories').where({ id: repository.id }).first());
    return (row as { trash_held_at: Date | null }).trash_held_at !== null;
  };

  it('is proven by reading everything, and then lets go of what a prune deleted', async () => {
    await hold(new Date());
    const verification = await start();
    expect(verification).to.deep.include({
      status: 'passed',
      errorCode: null,
      details: { part: { part: 1, of: 1 }, errors: [] },
    });
    expect(await isHeld()).to.equal(false);
  });

  it('is denied if data was damaged, and what was deleted stays', async () => {
    await hold(new Date());
    const data = path.join(app.dataDir, 'backups', repository.id, 'data');
    const [pack] = (await readdir(data, { recursive: true })).filter((name) => name.length > 60);
    await writeFile(path.join(data, pack ?? ''), 'damaged', { flag: 'r+' });
    const verification = await start();
    expect(verification).to.include({ status: 'failed', errorCode: null });
    expect(verification.details.errors).to.not.deep.equal([]);
    expect(await isHeld()).to.equal(true);
  });
});

describe('a test restore', () => {
  const file = (name: string, size: number, mtime: string) => ({ path: `/${name}`, size, mtime });
  async function* entries(count: number) {
    yield file('oldest', 10, '2001');
    for (let i = 0; i < count; i++) yield file(`file-${i}`, 100, `2020-${i}`);
    yield file('largest', 5000, '2019');
    yield file('too-large', 2 ** 40, '2018');
    yield file('newest', 10, '2026');
  }

  it('takes the newest, the oldest and the largest file, and some others', async () => {
    const sample = (await chooseSample(entries(1000))).map(({ path: chosen }) => chosen);
    expect(sample).to.include.members(['/newest', '/oldest', '/largest']);
    expect(sample).to.not.include('/too-large');
    expect(sample.length).to.be.within(7, 10);
    expect(await chooseSample(entries(0))).to.have.length(3);
  });

  const details = {
    sample: [
      { path: '/a', sizeBytes: 1, sha256: 'a'.repeat(64) },
      { path: '/b', sizeBytes: 2, sha256: 'b'.repeat(64) },
    ],
  };
  const restored = (...hashes: (string | null)[]) => ({
    status: 'succeeded' as const,
    error: null,
    output: {
      seconds: 1,
      files: details.sample.map(({ path: name }, at) => ({
        path: name,
        sizeBytes: 1,
        sha256: hashes[at] ?? null,
      })),
    },
  });

  it('passes only if every file is what the repository holds', () => {
    const judge = (...hashes: (string | null)[]) => judgeTestRestore({ details }, restored(...hashes)).status;
    expect(judge('a'.repeat(64), 'b'.repeat(64))).to.equal('passed');
    expect(judge('a'.repeat(64), 'c'.repeat(64))).to.equal('partial');
    expect(judge('c'.repeat(64), null)).to.equal('failed');
    // A device that answers for files that nobody asked for proves nothing.
    const other = { ...restored(), output: { seconds: 1, files: [] } };
    expect(judgeTestRestore({ details }, other).status).to.equal('failed');
    expect(judgeTestRestore({ details }, { ...restored(), output: 'nonsense' })).to.include({
      status: 'failed',
      errorCode: 'BAD_RESULT',
    });
  });
});
