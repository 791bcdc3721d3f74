import { expect } from 'chai';
import { randomBytes } from 'node:crypto';
import { createStoreApp } from '../../../support/backup/store-support.ts';
import { needsRestic } from '../../../support/restic.ts';
import type { TestApp } from '../../../support/test-app.ts';
import { drillGround } from './support/drill-ground.ts';

/**
 * Each attack that somebody can try who has taken a device over; then the server's own retention and prune; then the
 * newest good snapshot has to restore equal.
 */

describe('a device that was taken over', function () {
  this.timeout(120_000);
  let app: TestApp & { dataDir: string };
  let drill: ReturnType<typeof drillGround>;

  before(async function () {
    needsRestic(this);
    app = await createStoreApp();
    drill = drillGround(app);
  });
  after(async () => app?.close());

  it('cannot delete, replace or add what it has no right to', async () => {
    const ground = await drill.build();
    await drill.attack(ground, async (attacker) => {
      const other = await drill.build();
      for (const type of ['data', 'index', 'snapshot', 'key'] as const) {
        const folder = { data: 'data', index: 'index', snapshot: 'snapshots', key: 'keys' }[type];
        for (const name of await attacker.names(type)) {
          expect(await attacker.send('DELETE', `${folder}/${name}`), type).to.equal(403);
          expect(await attacker.send('POST', `${folder}/${name}`, randomBytes(100)), type).to.be.oneOf([
            400, 403,
          ]);
        }
      }
      expect(await attacker.send('POST', 'config', randomBytes(100))).to.equal(403);
      expect(await attacker.send('DELETE', 'config')).to.equal(403);
      expect(await attacker.send('GET', `../${other.repository.id}/config`)).to.be.oneOf([401, 404]);
    });
    await drill.expectUnharmed(ground);
  });

  it('says in an index that another pack holds the data', async () => {
    const ground = await drill.build();
    await drill.attack(ground, async (attacker) => {
      const blobs = await attacker.blobsOf(ground.good.engineId);
      const { id, blobs: own } = await attacker.putLyingPack([], ground.good.engineId);
      const others = blobs.map((blob, n) => ({ ...blob, offset: n * 96, length: 96 }));
      await attacker.putIndex([{ id, blobs: [...own, ...others] }]);
    });
    await drill.expectUnharmed(ground);
  });

  it('says so in the header of a pack too', async () => {
    const ground = await drill.build();
    await drill.attack(ground, async (attacker) => {
      const blobs = await attacker.blobsOf(ground.good.engineId);
      await attacker.putIndex([await attacker.putLyingPack(blobs, ground.good.engineId)]);
    });
    await drill.expectUnharmed(ground);
  });

  it('writes an index that nobody can read', async () => {
    const ground = await drill.build();
    await drill.attack(ground, async (attacker) => void (await attacker.put('index', randomBytes(1000))));
    await drill.expectUnharmed(ground);
  });

  it('writes a pack that nobody can read', async () => {
    const ground = await drill.build();
    await drill.attack(ground, async (attacker) => void (await attacker.put('data', randomBytes(1000))));
    await drill.expectUnharmed(ground);
  });

  it('writes a snapshot that nobody can read', async () => {
    const ground = await drill.build();
    await drill.attack(ground, async (attacker) => void (await attacker.put('snapshots', randomBytes(1000))));
    await drill.expectUnharmed(ground);
  });

  it('writes a snapshot of a folder that does not exist', async () => {
    const ground = await drill.build();
    await drill.attack(ground, async (attacker) => {
      const snapshot = await attacker.readSnapshot(ground.good.engineId);
      await attacker.putSnapshot({ ...snapshot, tree: 'ab'.repeat(32) });
    });
    await drill.expectUnharmed(ground);
  });

  it('writes a snapshot of the future, which says that it replaces the good one', async () => {
    const ground = await drill.build();
    await drill.attack(ground, async (attacker) => {
      const snapshot = await attacker.readSnapshot(ground.good.engineId);
      const forged = { ...snapshot, time: '2030-01-01T00:00:00Z', original: ground.good.engineId };
      await attacker.putSnapshot(forged);
      const { tree } = snapshot;
      expect(await attacker.putSnapshot({ ...forged, tree, hostname: 'x' }).catch(String)).to.contain('403');
    });
    await drill.expectUnharmed(ground);
  });

  it('says in an index that packs are obsolete', async () => {
    const ground = await drill.build();
    await drill.attack(ground, async (attacker) => {
      const supersedes = await attacker.names('index');
      await attacker.put('index', Buffer.from(JSON.stringify({ supersedes, packs: [] })));
    });
    await drill.expectUnharmed(ground);
  });
});
