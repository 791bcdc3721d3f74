import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { expect } from 'chai';
import { z } from 'zod';
import { type DemoProcess, startDemoProcess } from '../../../support/demo-process.ts';
import { needsRestic } from '../../../support/restic.ts';

const Named = z.object({
  data: z.array(z.object({ id: z.string().optional(), name: z.string().optional() })),
});

/** The demo as a user starts it, with its backup of this machine. */
describe('the demo', function () {
  this.timeout(300_000);
  let dataDir: string;
  let demo: DemoProcess | undefined;

  before(async function () {
    needsRestic(this);
    dataDir = await mkdtemp(path.join(tmpdir(), 'muster-demo-'));
  });
  after(async () => {
    await demo?.stop();
    await rm(dataDir, { recursive: true, force: true });
  });

  it('is ready first, and then has a snapshot of this machine to browse', async () => {
    demo = await startDemoProcess(dataDir, ['--devices', '2']);
    expect(await demo.saying(/[✔✘] Backup of this machine/)).to.match(/✔ Backup of this machine/);
    const { data: snapshots } = Named.parse(await demo.get('/backup/snapshots'));
    const folder = encodeURIComponent(path.join(dataDir, 'files-to-back-up'));
    const place = `/backup/snapshots/${snapshots[0]?.id ?? ''}/browse?path=${folder}`;
    const { data } = Named.parse(await demo.get(place));
    expect(data.map(({ name }) => name)).to.include.members(['invoices', 'read-me.txt', 'reports']);
  });
});
