import { expect } from 'chai';
import { randomBytes } from 'node:crypto';
import path from 'node:path';
import { drillGround } from '../../proofs/backup/support/drill-ground.ts';
import { damage } from '../../../support/engine/repository-forge.ts';
import { needsRestic } from '../../../support/restic.ts';
import type { TestApp } from '../../../support/test-app.ts';
import { createStoreApp, inSystem } from '../../../support/backup/store-support.ts';

/** The short form of the drill of `npm run test:backup`: the two attacks that get past an index written anew. */

describe('a prune, after a device that was taken over has written falsehoods', function () {
  this.timeout(120_000);
  let app: TestApp & { dataDir: string };

  before(async function () {
    needsRestic(this);
    app = await createStoreApp();
  });
  after(async () => app?.close());

  const liveSnapshots = async (repositoryId: string): Promise<string[]> => {
    const rows = await inSystem(app, (tx) =>
      tx('backup_objects').where({ repository_id: repositoryId, type: 'snapshots' }).whereNull('trashed_at'),
    );
    return rows.map(({ name }: { name: string }) => name);
  };

  it('deletes nothing that is needed, and reports them', async () => {
    const drill = drillGround(app);
    const ground = await drill.build();
    const { repository, good } = ground;
    let forged = '';
    let unreadable = '';
    let lying = '';
    await drill.attack(ground, async (attacker) => {
      unreadable = await attacker.put('snapshots', randomBytes(1000));
    });
    await drill.attack(ground, async (attacker) => {
      lying = (await attacker.putLyingPack(await attacker.blobsOf(good.engineId), good.engineId)).id;
    });
    await drill.attack(ground, async (attacker) => {
      const snapshot = await attacker.readSnapshot(good.engineId);
      forged = await attacker.putSnapshot({ ...snapshot, tree: 'ab'.repeat(32) });
    });
    await drill.expectUnharmed(ground);
    const verifications = await inSystem(app, (tx) =>
      tx('backup_verifications').where({ repository_id: repository.id }),
    );
    for (const verification of verifications) {
      expect(verification).to.include({ status: 'failed', verification_type: 'integrity' });
    }
    const found = JSON.stringify(verifications.map(({ details }) => details));
    expect(found).to.contain(unreadable).and.to.contain(lying);
    expect(found).to.contain(`Snapshot ${forged} needs data that has never arrived.`);
    expect(await liveSnapshots(repository.id)).to.deep.equal([good.engineId]);
  });

  it('leaves every snapshot if the storage itself has lost what they need', async () => {
    const drill = drillGround(app);
    const ground = await drill.build();
    const { repository, good } = ground;
    await drill.attack(ground, async (attacker) => {
      const snapshot = await attacker.readSnapshot(good.engineId);
      await attacker.putSnapshot({ ...snapshot, tree: 'ab'.repeat(32) });
    });
    const before = await liveSnapshots(repository.id);
    const [largest] = await inSystem(app, (tx) =>
      tx('backup_objects').where({ repository_id: repository.id, type: 'data' }).orderBy('size', 'desc'),
    );
    const pack = path.join(
      app.dataDir,
      'backups',
      repository.id,
      'data',
      largest.name.slice(0, 2),
      largest.name,
    );
    // Its last bytes say how long its header is.
    await damage(pack, largest.size - 1);
    expect(await drill.retain(ground)).to.equal('REPOSITORY_DAMAGED');
    const after = await liveSnapshots(repository.id);
    // The outdated one has gone.
    expect(before.filter((id) => !after.includes(id))).to.have.length(1);
    expect(after).to.include(good.engineId);
  });
});
