import { randomBytes } from 'node:crypto';
import { writeFile } from 'node:fs/promises';
import path from 'node:path';
import { expect } from 'chai';
import { backup, listSnapshots } from '../../../../src/engine/index.ts';
import { repositoryPassword } from '../../../../src/features/backup/repository-access.ts';
import { BackupRepository } from '../../../../src/features/backup-store/repository.model.ts';
import { reindex } from '../../../../src/features/backup/maintenance.work.ts';
import { eventually } from '../../../support/eventually.ts';
import { needsRestic } from '../../../support/restic.ts';
import type { TestApp } from '../../../support/test-app.ts';
import { createStoreApp, end, inSystem, issue } from '../../../support/backup/store-support.ts';
import { accessParts, buildCaredRepository, type CaredRepository } from './care-support.ts';

/** restic sends packs of up to 16 MiB, and writes an index at its end or after ten minutes. */
const SOURCE_BYTES = 60_000_000;
/** What a backup adds besides the content: folders, and what packs say of themselves. */
const OVERHEAD_BYTES = 2_000_000;
/** More than overhead, so a part of the content. Packs are not counted: a small one can arrive before the large ones. */
const PART_BYTES = 2 * OVERHEAD_BYTES + 1;

describe('a backup that was interrupted', function () {
  this.timeout(120_000);
  let app: TestApp & { dataDir: string };
  let cared: CaredRepository;

  before(async function () {
    needsRestic(this);
    app = await createStoreApp();
  });
  after(async () => app?.close());
  beforeEach(async () => {
    cared = await buildCaredRepository(app);
  });

  /** As a device does it. Stopped when so many bytes have arrived; otherwise what it has added. */
  async function run(stopAfterBytes?: number): Promise<number | undefined> {
    const parts = accessParts(app);
    const engine = await parts.engine.open();
    const { password } = await inSystem(app, async (tx) => {
      const found = await BackupRepository.query(tx).findById(cared.id).throwIfNotFound();
      return repositoryPassword(tx, found, parts.secrets);
    });
    const credential = await issue(app, cared.id, 'device');
    const { user, secret } = credential;
    const url = `${app.url}/backup-store/${cared.id}/`;
    const repository = { destination: { type: 'rest' as const, url, user, password: secret }, password };
    const before = await storedBytes();
    const stop = new AbortController();
    const ended = backup(
      engine,
      repository,
      { paths: [cared.source], host: 'device' },
      { signal: stop.signal, ...(stopAfterBytes === undefined ? {} : { uploadKiBps: 16_000 }) },
    ).then(
      ({ bytesAdded }) => bytesAdded,
      () => undefined,
    );
    if (stopAfterBytes !== undefined) {
      await eventually(storedBytes, (bytes) => bytes >= before + stopAfterBytes, 60_000);
      stop.abort();
    }
    const added = await ended;
    await end(app, credential);
    if (stopAfterBytes === undefined) {
      const reader = await issue(app, cared.id, 'reader');
      const destination = { type: 'rest' as const, url, user: reader.user, password: reader.secret };
      expect(await listSnapshots(engine, { destination, password, isReadOnly: true })).not.to.deep.equal([]);
    }
    return added;
  }
  const objects = (type: string) =>
    inSystem(app, (tx) =>
      tx('backup_objects').where({ repository_id: cared.id, type }).whereNull('trashed_at').select('name'),
    );
  const storedBytes = () =>
    inSystem(app, async (tx) => {
      const [row] = await tx('backup_objects')
        .where({ repository_id: cared.id, type: 'data' })
        .whereNull('trashed_at')
        .sum({ bytes: 'size' });
      return Number(row?.['bytes'] ?? 0);
    });
  const again = () => reindex(accessParts(app), cared.id, new AbortController().signal);
  const newFile = (name: string) => writeFile(path.join(cared.source, name), randomBytes(SOURCE_BYTES));

  it('is not sent again, the first one and a later one', async () => {
    const empty = await storedBytes();
    await newFile('one');
    expect(await run(PART_BYTES)).to.equal(undefined);
    const first = (await storedBytes()) - empty;
    expect(first).to.be.at.least(PART_BYTES);
    expect(await objects('index'), 'restic has written none').to.deep.equal([]);
    expect(await again()).to.deep.equal({ wasRebuilt: true });
    expect(await again(), 'once').to.deep.equal({ wasRebuilt: false });
    expect(await run(), 'what has arrived is not sent again').to.be.lessThan(
      SOURCE_BYTES - first + OVERHEAD_BYTES,
    );
    expect(await again(), 'nothing is missing').to.deep.equal({ wasRebuilt: false });

    const before = await storedBytes();
    await newFile('two');
    expect(await run(PART_BYTES)).to.equal(undefined);
    const second = (await storedBytes()) - before;
    expect(second).to.be.at.least(PART_BYTES);
    expect(await again()).to.deep.equal({ wasRebuilt: true });
    expect(await objects('index'), 'the server may delete the one before').to.have.length(1);
    expect(await run()).to.be.lessThan(SOURCE_BYTES - second + OVERHEAD_BYTES);
  });
});
