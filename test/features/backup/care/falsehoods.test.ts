import { expect } from 'chai';
import { randomBytes } from 'node:crypto';
import { drillGround } from '../../../backup-proof/support/drill-ground.ts';
import { needsRestic } from '../../../support/restic.ts';
import type { TestApp } from '../../../support/test-app.ts';
import { createStoreApp, inSystem } from '../store-support.ts';

/** The short form of the drill of `npm run test:backup`: the two attacks that get past an index written anew. */

describe('a prune, after a device that was taken over has written falsehoods', function () {
  this.timeout(120_000);
  let app: TestApp & { dataDir: string };

  before(async function () {
    needsRestic(this);
    app = await createStoreApp();
  });
  after(async () => app?.close());

  it('deletes nothing that is needed, and reports them', async () => {
    const drill = drillGround(app);
    const ground = await drill.build();
    const { repository, good } = ground;
    let unreadable = '';
    let lying = '';
    await drill.attack(ground, async (attacker) => {
      unreadable = await attacker.put('snapshots', randomBytes(1000));
    });
    await drill.attack(ground, async (attacker) => {
      lying = (await attacker.putLyingPack(await attacker.blobsOf(good.engineId), good.engineId)).id;
    });
    await drill.expectUnharmed(ground, 'REPOSITORY_DAMAGED');
    const verifications = await inSystem(app, (tx) =>
      tx('backup_verifications').where({ repository_id: repository.id }),
    );
    expect(verifications).to.have.length(1);
    expect(verifications[0]).to.include({ status: 'failed', verification_type: 'integrity' });
    expect(JSON.stringify(verifications[0].details)).to.contain(unreadable).and.to.contain(lying);
  });
});
