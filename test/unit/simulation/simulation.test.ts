import { expect } from 'chai';
import { simulate } from '../../simulation/simulation.ts';

/** Each is a small run; `npm run test:simulation` has the long ones (docs/tests.md). */
const SEEDS = [1, 2, 3];

describe('several servers in a simulated world', () => {
  for (const seed of SEEDS) {
    it(`keep what they promise (seed ${seed})`, async () => {
      const { violations, tail } = await simulate(seed, { scale: SMALL });
      expect(violations, tail.slice(-40).join('\n')).to.deep.equal([]);
    });
  }

  it('do the same again if the seed is the same', async () => {
    const [one, again, other] = [
      await simulate(7, { scale: TINY }),
      await simulate(7, { scale: TINY }),
      await simulate(8, { scale: TINY }),
    ];
    expect(again.digest).to.equal(one.digest);
    expect(again.events).to.equal(one.events);
    expect(other.digest).to.not.equal(one.digest);
  });
});

const SMALL = 0.25;
const TINY = 0.1;
