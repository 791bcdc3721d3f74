import { expect } from 'chai';
import { mkdir } from 'node:fs/promises';
import path from 'node:path';
import { plantOddTree } from '../proofs/backup/support/odd-tree.ts';
import { describeTree } from '../proofs/backup/support/tree.ts';
import { startWorld, type World } from '../proofs/backup/support/world.ts';
import { needsRestic } from '../../support/restic.ts';

/** The short form of `npm run test:backup`: the server and the agent as programs, asked by REST alone. */

describe('a backup and its restore, through the server and the agent as programs', function () {
  this.timeout(240_000);
  let world: World;

  before(async function () {
    needsRestic(this);
    world = await startWorld();
  });
  after(async () => world?.close());

  it('bring back every file as it was: bytes, rights, times, links and attributes', async () => {
    const device = await world.addDevice();
    await plantOddTree(device.source);
    await device.start();
    const job = await device.backUp();
    const planted = await describeTree(device.source);
    expect(job.progress.doneFiles).to.be.greaterThan(20);

    const browsed = await world.ask(
      'GET',
      `/backup/snapshots/${job.snapshotId}/browse?path=${encodeURIComponent(device.source)}&limit=1000`,
    );
    const top = Object.keys(planted).filter((name) => name !== '.' && !name.includes('/'));
    expect(browsed.data).to.have.length(top.length);

    const targetPath = path.join(world.dataDir, 'restored');
    await mkdir(targetPath);
    const restore = await device.restored(
      await device.orderRestore({ snapshotId: job.snapshotId, targetPath }),
    );
    expect(restore, JSON.stringify(restore)).to.include({ status: 'completed', error: null });
    expect(await describeTree(path.join(targetPath, device.source))).to.deep.equal(planted);
    expect(restore.restoredFiles).to.be.greaterThan(20);
  });
});
