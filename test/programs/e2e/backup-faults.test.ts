import { expect } from 'chai';
import { mkdir } from 'node:fs/promises';
import path from 'node:path';
import {
  expectDoneOnce,
  expectNothingStuck,
  expectSoundRepository,
} from '../proofs/backup/support/guarantees.ts';
import type { Victim } from '../proofs/backup/support/kills.ts';
import { backUpUnderFire, changeSource, restoreUnderFire } from '../proofs/backup/support/rounds.ts';
import { diceOf } from '../proofs/backup/support/settings.ts';
import { describeTree, type Tree } from '../proofs/backup/support/tree.ts';
import { startWorld, type World } from '../proofs/backup/support/world.ts';
import { needsRestic } from '../../support/restic.ts';

/** The short form of the kills of `npm run test:backup`, which also kills Postgres: one of each. */

describe('a backup in whose middle something is killed', function () {
  this.timeout(600_000);
  let world: World;

  before(async function () {
    needsRestic(this);
    world = await startWorld();
  });
  after(async () => world?.close());

  it('is whole or has failed, and leaves nothing stuck, locked or done twice', async () => {
    const device = await world.addDevice({ limits: { uploadKiBps: 8000 } });
    await device.start();
    const dice = diceOf(18);
    let last: { snapshotId: string; tree: Tree } | undefined;
    for (const [round, victim] of (['agent', 'engine', 'server'] satisfies Victim[]).entries()) {
      await changeSource(device.source, round, dice);
      const tree = await describeTree(device.source);
      const { status, snapshotId } = await backUpUnderFire(world, device, [victim], dice);
      expect(status, victim).to.be.oneOf(['completed', 'failed']);
      if (status === 'completed' && snapshotId !== null) last = { snapshotId, tree };
    }
    if (last === undefined) {
      const tree = await describeTree(device.source);
      last = { snapshotId: (await device.backUp()).snapshotId, tree };
    }
    const targetPath = path.join(world.dataDir, 'back');
    await mkdir(targetPath);
    const order = { snapshotId: last.snapshotId, targetPath };
    const restore = await restoreUnderFire(world, device, order, { victims: ['agent'], dice });
    expect(restore.status, JSON.stringify(restore)).to.equal('completed');
    expect(await describeTree(path.join(targetPath, device.source))).to.deep.equal(last.tree);
    await expectNothingStuck(world, device);
    await expectDoneOnce(world, device);
    await expectSoundRepository(world, device);
  });
});
