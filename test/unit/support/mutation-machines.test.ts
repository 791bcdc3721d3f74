import { expect } from 'chai';
import { existsSync } from 'node:fs';
import path from 'node:path';
import { MACHINES, testFile } from '../../mutation/machines.ts';

const ROOT = path.join(import.meta.dirname, '../../..');

describe('the machines of mutation testing', () => {
  it('have different names', () => {
    const names = MACHINES.map(({ name }) => name);
    expect(names).to.deep.equal([...new Set(names)]);
  });

  for (const { name, mutate, tests } of MACHINES) {
    it(`name files and tests that exist, each once: ${name}`, () => {
      expect(mutate.filter((file) => !existsSync(path.join(ROOT, file)))).to.deep.equal([]);
      const files = tests.map((test) => testFile(test));
      expect([mutate, files]).to.deep.equal([[...new Set(mutate)], [...new Set(files)]]);
      expect([mutate.length, files.length]).to.not.include(0);
    });
  }

  it('do not take a test that does not exist, or that several files could be', () => {
    expect(() => testFile('no-such-machine')).to.throw('There has to be one test file');
    expect(() => testFile('retention')).to.throw('There has to be one test file');
  });
});
