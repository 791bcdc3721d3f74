import { expect } from 'chai';
import { batchLoader } from '../../../src/platform/batch-loader.ts';

describe('one look for many askers', () => {
  function scene({ atMost = 10 } = {}) {
    const looks: string[][] = [];
    const ask = batchLoader<string, number>(
      async (keys) => {
        looks.push([...keys]);
        if (keys.includes('bad')) throw new Error('no answer');
        return new Map(keys.filter((key) => key !== 'unknown').map((key) => [key, key.length]));
      },
      { withinMs: 5, atMost },
    );
    return { looks, ask };
  }

  it('answers each with its own, and those who ask for the same at once', async () => {
    const { looks, ask } = scene();
    expect(await Promise.all(['a', 'bb', 'a', 'unknown'].map(ask))).to.deep.equal([1, 2, 1, undefined]);
    expect(looks).to.deep.equal([['a', 'bb', 'unknown']]);
    expect(await ask('ccc')).to.equal(3);
    expect(looks).to.have.length(2);
  });

  it('loads at most so many keys at a time, and collects further ones while it loads', async () => {
    const { looks, ask } = scene({ atMost: 3 });
    await Promise.all([
      ...Array.from({ length: 7 }, (_, n) => ask(`key ${n}`)),
      new Promise((resolve) => setTimeout(resolve, 5)).then(() => ask('later')),
    ]);
    expect(looks.slice(0, 2).map(({ length }) => length)).to.deep.equal([3, 3]);
    expect(looks.flat()).to.have.length(8);
  });

  it('rejects every lookup of a batch that fails, and goes on', async () => {
    const { ask } = scene();
    const failed = await Promise.allSettled(['a', 'bad'].map(ask));
    expect(failed.map(({ status }) => status)).to.deep.equal(['rejected', 'rejected']);
    expect(await ask('a')).to.equal(1);
  });
});
