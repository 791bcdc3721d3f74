import { expect } from 'chai';
import { SERIES_MAX } from '../../../../src/features/metrics/block.ts';
import { blocksOfSamples, mergeBlocks, Summary } from '../../../../src/features/metrics/series.ts';
import { finished } from '../../../../src/platform/turns.ts';
import { MetricSamples } from '../../../../src/protocol/index.ts';

const NOW = Date.parse('2026-11-28T12:00:30.000Z');
const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const sample = (ago: number, more: object = {}) => ({ at: new Date(NOW - ago).toISOString(), ...more });
/** As the server receives them. */
const received = (...samples: unknown[]) => MetricSamples.parse({ samples }).samples;
const blocks = (...samples: unknown[]) => blocksOfSamples(received(...samples), NOW);

describe('samples of a machine', () => {
  it('become a block for each hour, with a slot for each minute', () => {
    const { blocks: found } = blocks(
      sample(0, { cpuPercent: 3 }),
      sample(MINUTE, { cpuPercent: 2 }),
      sample(2 * MINUTE, { cpuPercent: 1, load: 0.5 }),
    );
    expect([...found.keys()].map((at) => new Date(at).toISOString())).to.deep.equal([
      '2026-11-28T11:00:00.000Z',
      '2026-11-28T12:00:00.000Z',
    ]);
    const [eleven] = [...found.values()];
    expect(eleven?.series.map(({ metric, slots, avg }) => ({ metric, slots, avg }))).to.deep.equal([
      { metric: 'cpuPercent', slots: [58, 59], avg: [1, 2] },
      { metric: 'load', slots: [58], avg: [0.5] },
    ]);
  });

  it('that are not valid do not cost the others', () => {
    const { blocks: found, refused } = blocks('nonsense', { cpuPercent: 3 }, sample(0, { cpuPercent: 4 }));
    expect(refused).to.deep.equal({ invalid: 2, future: 0, old: 0 });
    expect([...found.values()][0]?.series[0]?.avg).to.deep.equal([4]);
  });

  it('lose the figures that are not valid, and nothing else', () => {
    const { blocks: found } = blocks(
      sample(0, {
        cpuPercent: -1,
        ramPercent: Number.NaN,
        swapPercent: 101,
        load: 'much',
        uptimeSeconds: 5,
        volumes: [{ volume: '/', usedBytes: -1, totalBytes: 2 ** 30 }, { usedBytes: 1 }, 7],
        processes: 'many',
      }),
    );
    const names = [...found.values()][0]?.series.map(({ metric, label }) => `${metric} ${label}`);
    expect(names).to.deep.equal(['uptimeSeconds ', 'volumeTotalBytes /']);
  });

  it('from the future are refused, but for a clock that is a little ahead, and so are those that are too old', () => {
    const { blocks: found, refused } = blocks(
      sample(-4 * MINUTE, { cpuPercent: 1 }),
      sample(-6 * MINUTE, { cpuPercent: 2 }),
      sample(24.5 * HOUR, { cpuPercent: 3 }),
      sample(26 * HOUR, { cpuPercent: 4 }),
    );
    expect(refused).to.deep.equal({ invalid: 0, future: 1, old: 1 });
    const kept = [...found].flatMap(([hour, { series }]) =>
      (series[0]?.slots ?? []).map((slot) => new Date(hour + slot * MINUTE).toISOString()),
    );
    expect(kept).to.have.members(['2026-11-28T12:00:00.000Z', '2026-11-27T11:30:00.000Z']);
  });

  it('of a clock that jumps back replace those of the same minutes', () => {
    const { blocks: found } = blocks(sample(MINUTE, { cpuPercent: 1 }), sample(MINUTE, { cpuPercent: 9 }));
    expect([...found.values()][0]?.series[0]?.avg).to.deep.equal([9]);
  });

  it('of ten thousand volumes count as the first 64, and long names are cut', () => {
    const volumes = Array.from({ length: 10_000 }, (_, n) => ({
      volume: `/${'v'.repeat(300)}${n}`.slice(-200),
      usedBytes: 1,
      totalBytes: 2,
    }));
    const { blocks: found } = blocks(sample(0, { volumes, cpuPercent: 1 }));
    const { series } = [...found.values()][0]!;
    expect(series.length).to.be.within(2, 1 + 2 * 64);
    for (const { label } of series) expect(label.length).to.be.at.most(100);
  });

  it('of a device that changes the names of its processes all the time keep the figures of the machine', () => {
    const many = Array.from({ length: 60 }, (_, minute) => [
      ...blocks(
        sample(minute * MINUTE, {
          cpuPercent: 5,
          processes: Array.from({ length: 5 }, (_p, n) => ({
            process: `p${minute}-${n}`,
            cpuPercent: 50,
            ramPercent: 1,
          })),
        }),
      ).blocks.values(),
    ]).flat();
    const merged = mergeBlocks(many);
    expect(merged.series).to.have.length(SERIES_MAX);
    expect(merged.series[0]).to.include({ metric: 'cpuPercent' });
  });
});

describe('a summary', () => {
  it('has minimum, average and maximum of each step, and no step without a sample', () => {
    const found = blocks(
      ...[1, 2, 6].map((cpuPercent, n) => sample((30 - n) * MINUTE, { cpuPercent })),
      sample(2 * MINUTE, { cpuPercent: 80 }),
    ).blocks;
    const from = Date.parse('2026-11-28T11:00:00.000Z');
    const summary = new Summary({ from, to: from + HOUR, stepMs: 15 * MINUTE });
    for (const [hour, block] of found) finished(summary.adding(block, hour));
    expect(summary.series).to.deep.equal([
      { metric: 'cpuPercent', label: '', slots: [2, 3], min: [1, 80], avg: [3, 80], max: [6, 80] },
    ]);
  });
});
