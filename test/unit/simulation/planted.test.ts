import { readFile } from 'node:fs/promises';
import { expect } from 'chai';
import { PLANTED } from '../../simulation/planted.ts';

/** `npm run test:simulation:planted`, which takes long, plants them: a place that is gone would be noticed only then. */
describe('planted faults of the simulation', () => {
  it('have a place in the sources, each exactly one', async () => {
    const files = new Set(PLANTED.flatMap(({ changes }) => changes.map(({ file }) => file)));
    const sources = new Map(
      await Promise.all([...files].map(async (file) => [file, await readFile(file, 'utf8')] as const)),
    );
    const lost = PLANTED.flatMap(({ name, changes }) =>
      changes
        .filter(({ file, find }) => sources.get(file)?.split(find).length !== 2)
        .map(({ file }) => `${name} (${file})`),
    );
    expect(lost).to.deep.equal([]);
  });

  it('have names of their own', () => {
    const names = PLANTED.map(({ name }) => name);
    expect(new Set(names).size).to.equal(names.length);
  });
});
