import { expect } from 'chai';
import { mkdir, rm } from 'node:fs/promises';
import path from 'node:path';
import { needsRestic } from '../../../support/restic.ts';
import type { ProofDevice } from './support/device.ts';
import {
  expectDoneOnce,
  expectNothingStuck,
  expectRestores,
  expectSoundRepository,
} from './support/guarantees.ts';
import type { Victim } from './support/kills.ts';
import { backUpUnderFire, changeSource, restoreUnderFire, type Round } from './support/rounds.ts';
import { diceOf, numberOf, seedOf } from './support/settings.ts';
import { describeTree, type Tree } from './support/tree.ts';
import { startWorld, type World } from './support/world.ts';

/**
 * kill -9 of the agent, of restic, of the server and of its Postgres in the middle of backups and restores.
 * `BACKUP_PROOF_BACKUPS` and `BACKUP_PROOF_RESTORES` say how many, `BACKUP_PROOF_SEED` which.
 */

const VICTIMS: readonly Victim[] = ['agent', 'agent', 'engine', 'engine', 'server', 'server', 'postgres'];
const DEVICES = 2;

describe('backups and restores in whose middle something is killed', function () {
  this.timeout(0);
  let world: World;
  let devices: ProofDevice[];
  /** What each completed snapshot holds. */
  const held = new Map<string, { device: ProofDevice; tree: Tree }>();
  const seed = seedOf('kills');

  before(async function () {
    needsRestic(this);
    world = await startWorld({ postgres: 'embedded' });
    devices = [];
    for (let n = 0; n < DEVICES; n++) {
      const device = await world.addDevice({ limits: { uploadKiBps: 4000 } });
      await device.start();
      devices.push(device);
    }
  });
  after(async () => world?.close());

  it('leave snapshots that restore equal, and nothing stuck, locked or done twice', async () => {
    const all = numberOf('BACKUPS', 50);
    await Promise.all(
      devices.map(async (device, which) => {
        const dice = diceOf(seed + which);
        for (let round = 0; round < all / DEVICES; round++) {
          await changeSource(device.source, round, dice);
          const tree = await describeTree(device.source);
          const done = await backUpUnderFire(world, device, VICTIMS, dice);
          report(`backup ${which}.${round}`, done);
          // Of another round, what was there is not known any more: it counts with this tree only.
          if (done.status === 'completed' && done.snapshotId !== null) {
            held.set(done.snapshotId, { device, tree });
          }
        }
      }),
    );
    for (const device of devices) {
      await expectNothingStuck(world, device);
      await expectDoneOnce(world, device);
      await expectSoundRepository(world, device);
    }
    expect(held.size, 'completed backups').to.be.greaterThan(all / 4);
  });

  it('are restored equal under fire', async () => {
    const all = numberOf('RESTORES', 20);
    const snapshots = [...held];
    const dice = diceOf(seed + DEVICES);
    for (let round = 0; round < all; round++) {
      const [snapshotId, { device, tree }] = dice.pick(snapshots);
      const targetPath = path.join(world.dataDir, `under-fire-${round}`);
      await mkdir(targetPath);
      const done = await restoreUnderFire(
        world,
        device,
        { snapshotId, targetPath },
        { victims: VICTIMS, dice },
      );
      report(`restore ${round}`, done);
      expect(done.status, JSON.stringify(done)).to.equal('completed');
      expect(await describeTree(path.join(targetPath, device.source))).to.deep.equal(tree);
      await rm(targetPath, { recursive: true, force: true });
    }
  });

  it('have left every completed snapshot as it was', async () => {
    for (const [snapshotId, { device, tree }] of held) {
      await expectRestores(world, device, snapshotId, tree);
    }
    for (const device of devices) {
      await expectNothingStuck(world, device);
      await expectSoundRepository(world, device);
    }
  });
});

function report(what: string, { status, error, strikes, seconds }: Round): void {
  const killed = strikes.map(({ victim, hit }) => (hit ? victim : `(${victim})`)).join('+');
  // oxlint-disable-next-line no-console -- the course of a long run
  console.info(`      ${what}: ${killed} -> ${status} ${error ?? ''} in ${seconds} s`);
}
