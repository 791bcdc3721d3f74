import { expect } from 'chai';
import { MachineSampler } from '../../../../../src/agent/capabilities/metrics/machine-sampler.ts';
import type { Sources } from '../../../../../src/agent/os/machine-sources.ts';
import { MetricSample } from '../../../../../src/protocol/index.ts';

describe('a sample of this machine', () => {
  let received = 0;
  const sources = (more: Partial<Sources> = {}): Sources => ({
    os: 'linux',
    file: async (name) =>
      name === '/proc/net/dev' ? `eth0: ${(received += 6000)} 0 0 0 0 0 0 0 12 0 0 0 0 0 0 0` : undefined,
    memoryFiles: async () => [],
    names: async () => [],
    written: async () => new Map(),
    output: async () => undefined,
    interfaces: () => ({}),
    ...more,
  });
  let now = 0;
  const sampler = (from: Sources) => new MachineSampler(from, () => (now += 60_000));

  it('has rates from the second one on', async () => {
    const machine = sampler(sources());
    expect((await machine.sample()).networkReceivedPerSecond).to.equal(undefined);
    expect((await machine.sample()).networkReceivedPerSecond).to.equal(100);
  });

  it('has what Node knows although every file and program fails, and leaves out the rest', async () => {
    const fails = () => Promise.reject(new Error('not permitted'));
    const figures = await sampler(sources({ file: fails, output: fails })).sample();
    expect(figures.ramPercent).to.be.within(0, 100);
    expect(figures.uptimeSeconds).to.be.a('number');
    for (const field of [
      'swapPercent',
      'networkReceivedPerSecond',
      'diskReadPerSecond',
      'processes',
    ] as const) {
      expect(figures[field], field).to.equal(undefined);
    }
    const sample = { ...figures, at: new Date().toISOString() };
    expect(JSON.parse(JSON.stringify(MetricSample.parse(sample)))).to.deep.equal(
      JSON.parse(JSON.stringify(sample)),
    );
  });
});
