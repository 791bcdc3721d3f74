import { expect } from 'chai';
import { mkdir, readdir, rm } from 'node:fs/promises';
import path from 'node:path';
import fc from 'fast-check';
import { needsRestic } from '../../../support/restic.ts';
import { plantTree, randomTree } from './support/random-tree.ts';
import { numberOf, seedOf } from './support/settings.ts';
import { describeTree } from './support/tree.ts';
import { startWorld, type World } from './support/world.ts';

/** Random trees there and back. `BACKUP_PROOF_TREES` says how many, `BACKUP_PROOF_SEED` which. */

describe('random trees of files', function () {
  this.timeout(0);
  let world: World;

  before(async function () {
    needsRestic(this);
    world = await startWorld();
  });
  after(async () => world?.close());

  it('come back from a restore as they were', async () => {
    const device = await world.addDevice();
    await device.start();
    let round = 0;
    let entries = 0;
    const seed = seedOf('random trees');
    const property = fc.asyncProperty(randomTree, async (tree) => {
      round += 1;
      for (const name of await readdir(device.source, { encoding: 'buffer' })) {
        await rm(Buffer.concat([Buffer.from(`${device.source}/`), name]), { recursive: true, force: true });
      }
      await plantTree(Buffer.from(device.source), tree);
      const job = await device.backUp();
      const planted = await describeTree(device.source);
      entries += Object.keys(planted).length;
      const targetPath = path.join(world.dataDir, `restored-${round}`);
      await mkdir(targetPath);
      const restore = await device.restored(
        await device.orderRestore({ snapshotId: job.snapshotId, targetPath }),
      );
      expect(restore, JSON.stringify(restore)).to.include({ status: 'completed', error: null });
      expect(await describeTree(path.join(targetPath, device.source))).to.deep.equal(planted);
      await rm(targetPath, { recursive: true, force: true });
    });
    // A smaller example is not looked for: each try is a backup and a restore.
    await fc.assert(property, { numRuns: numberOf('TREES', 15), seed, endOnFailure: true });
    // oxlint-disable-next-line no-console -- the figures of a long run
    console.info(`      ${round} trees with ${entries} entries`);
  });
});
