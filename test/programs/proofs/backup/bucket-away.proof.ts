import { expect } from 'chai';
import { randomBytes } from 'node:crypto';
import { mkdir, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { eventually } from '../../../support/eventually.ts';
import { needsRestic } from '../../../support/restic.ts';
import { S3_KEYS, S3_REGION, type S3Server, startS3Server } from '../../../support/s3-server.ts';
import type { ProofDevice } from './support/device.ts';
import { expectNothingStuck } from './support/guarantees.ts';
import { numberOf } from './support/settings.ts';
import { describeTree } from './support/tree.ts';
import { startWorld, type World } from './support/world.ts';

/**
 * The operator's bucket stops answering: for a moment in the middle of a backup, for good before one, and for good in the
 * middle of one.
 * `BACKUP_PROOF_AWAY_SECONDS` (45) says how long the moment is.
 */

/**
 * restic asks ten times, each time later; the server asks the bucket five times for each. The agent ends a backup whose
 * destination takes nothing for ten minutes.
 */
const GIVEN_UP_MS = 15 * 60_000;

describe('a backup whose bucket goes away', function () {
  this.timeout(0);
  let world: World;
  let bucket: S3Server;

  before(async function () {
    needsRestic(this);
    bucket = await startS3Server({ bucket: 'backups' });
    world = await startWorld({
      env: {
        BACKUP_STORE_S3_BUCKET: 'backups',
        BACKUP_STORE_S3_ENDPOINT: bucket.url,
        BACKUP_STORE_S3_REGION: S3_REGION,
        BACKUP_STORE_S3_ACCESS_KEY_ID: S3_KEYS.accessKeyId,
        BACKUP_STORE_S3_SECRET_ACCESS_KEY: S3_KEYS.secretAccessKey,
      },
    });
  });
  after(async () => {
    await world?.close();
    await bucket?.close();
  });

  const leave = () => {
    bucket.onCall = () => 'break';
  };
  const comeBack = () => {
    bucket.onCall = undefined;
  };
  const fill = async (folder: string, name: string) => {
    await mkdir(path.join(folder, name));
    for (let n = 0; n < 60; n++) await writeFile(path.join(folder, name, String(n)), randomBytes(1_500_000));
  };

  async function expectGivenUp(device: ProofDevice, id: string, when: string): Promise<void> {
    const leftAt = Date.now();
    const failed = await eventually(
      () => device.job(id),
      ({ finishedAt }) => finishedAt !== null,
      GIVEN_UP_MS,
    );
    const seconds = Math.round((Date.now() - leftAt) / 1000);
    // oxlint-disable-next-line no-console -- the figures of a long run
    console.info(`      ${when}: given up after ${seconds} s: ${failed.error?.message}`);
    expect(failed.status, JSON.stringify(failed)).to.equal('failed');
    expect(failed.error?.code, JSON.stringify(failed)).to.equal('DESTINATION_UNREACHABLE');
  }

  it('goes on when the bucket comes back, and says why it fails when it does not', async () => {
    const device = await world.addDevice({ limits: { uploadKiBps: 8000 } });
    await device.start();
    await fill(device.source, 'first');
    const id = await device.order();
    const packs = () => [...bucket.objects.keys()].filter((key) => key.includes('/data/')).length;
    await eventually(
      async () => packs(),
      (count) => count > 0,
      60_000,
    );
    leave();
    await delay(numberOf('AWAY_SECONDS', 45) * 1000);
    expect((await device.job(id)).finishedAt, 'it waits').to.equal(null);
    comeBack();
    const job = await device.ended(id);
    expect(job, JSON.stringify(job)).to.include({ status: 'completed' });

    await fill(device.source, 'second');
    leave();
    await expectGivenUp(device, await device.order(), 'before the backup');
    comeBack();

    const before = packs();
    const halfway = await device.order();
    await eventually(
      async () => packs(),
      (count) => count > before,
      60_000,
    );
    leave();
    await expectGivenUp(device, halfway, 'in the middle');

    comeBack();
    const { snapshotId } = await device.backUp();
    const targetPath = path.join(world.dataDir, 'back');
    await mkdir(targetPath);
    const restore = await device.restored(await device.orderRestore({ snapshotId, targetPath }));
    expect(restore, JSON.stringify(restore)).to.include({ status: 'completed', error: null });
    expect(await describeTree(path.join(targetPath, device.source))).to.deep.equal(
      await describeTree(device.source),
    );
    await expectNothingStuck(world, device);
  });
});
