import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { expect } from 'chai';
import { z } from 'zod';
import { type DemoProcess, startDemoProcess } from '../../support/demo-process.ts';

describe('the demo, as the README starts it', function () {
  this.timeout(120_000);
  let dataDir: string;
  let demo: DemoProcess | undefined;

  before(async () => {
    dataDir = await mkdtemp(path.join(tmpdir(), 'muster-demo-'));
  });
  after(async () => {
    await demo?.stop();
    await rm(dataDir, { recursive: true, force: true, maxRetries: 5 });
  });

  it('shows its devices to its administrator, and stops in order', async () => {
    demo = await startDemoProcess(dataDir, ['--devices', '2'], { fromSources: true });
    const { data } = z
      .object({ data: z.array(z.object({ status: z.string() })) })
      .parse(await demo.get('/devices'));
    expect(data.filter(({ status }) => status === 'online')).not.to.be.empty;
    expect(await demo.stop()).to.equal(0);
    demo = undefined;
  });
});
