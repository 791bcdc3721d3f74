import { expect } from 'chai';
import fc from 'fast-check';
import { defaultWaves, firstWaveSize } from '../../../../src/features/agent-upgrades/next-step.ts';
import { WavePlan } from '../../../../src/features/agent-upgrades/rollout.schema.ts';
import { PLACES, placesOf } from '../../../../src/features/agent-upgrades/resolve-target.ts';

describe('the default waves', () => {
  const EXAMPLES: [places: number, waves: [percent: number, soakMinutes: number][]][] = [
    [
      1,
      [
        [1, 60],
        [4, 240],
        [15, 1440],
        [30, 1440],
        [50, 1440],
      ],
    ],
    [
      100,
      [
        [1, 60],
        [4, 240],
        [15, 1440],
        [30, 1440],
        [50, 1440],
      ],
    ],
    // Nearly 5 percent, so that another wave up to 5 percent would have few devices.
    [
      480,
      [
        [4.8, 240],
        [15.2, 1440],
        [30, 1440],
        [50, 1440],
      ],
    ],
    [
      1200,
      [
        [12, 240],
        [8, 1440],
        [30, 1440],
        [50, 1440],
      ],
    ],
    [
      4500,
      [
        [45, 1440],
        [55, 1440],
      ],
    ],
    [
      9900,
      [
        [99, 1440],
        [1, 1440],
      ],
    ],
    [10_000, [[100, 1440]]],
  ];
  for (const [places, waves] of EXAMPLES) {
    it(`follow a first wave of ${places} places`, () => {
      expect(defaultWaves(places).map(({ percent, soakMinutes }) => [percent, soakMinutes])).to.deep.equal(
        waves,
      );
    });
  }

  it('reach everyone, and the first one what it has to', () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: PLACES }), (places) => {
        const waves = defaultWaves(places);
        expect(placesOf(waves[0]!.percent)).to.be.at.least(places);
        expect(waves.reduce((sum, { percent }) => sum + placesOf(percent), 0)).to.equal(PLACES);
        for (const wave of waves) expect(WavePlan.parse(wave)).to.deep.equal(wave);
      }),
    );
  });

  it('begin with a tenth of a small fleet, and a hundred devices of a large one', () => {
    expect([1, 9, 10, 11, 200, 999, 1000, 100_000].map(firstWaveSize)).to.deep.equal([
      1, 1, 1, 2, 20, 100, 100, 100,
    ]);
  });
});
