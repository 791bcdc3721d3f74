import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { expect } from 'chai';
import { buildGuestDisk, changeGuest } from './guest-disk.ts';
import { needsMachines, startGuest } from './run-guest.ts';

/** The guest of these tests: it boots in both ways, and serves what was put into its file system. */
describe('a guest', function () {
  this.timeout(900_000);
  let folder: string;

  before(async function () {
    needsMachines(this);
    folder = await mkdtemp(path.join(tmpdir(), 'muster-guest-'));
  });
  after(async () => folder && rm(folder, { recursive: true, force: true }));

  for (const firmware of ['bios', 'uefi'] as const) {
    it(`boots through ${firmware}`, async () => {
      const { file } = await buildGuestDisk(path.join(folder, `${firmware}.raw`), { page: 'before' });
      await changeGuest(file, { '/srv/www/index.html': `served by ${firmware}` });
      const guest = await startGuest({ disk: file, firmware, isReadOnly: true });
      try {
        expect(await guest.page()).to.equal(`served by ${firmware}`);
      } finally {
        await guest.stop();
      }
    });
  }
});
