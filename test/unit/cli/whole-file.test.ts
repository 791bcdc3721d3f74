import { readdir, readFile } from 'node:fs/promises';
import path from 'node:path';
import { expect } from 'chai';
import { writeWhole } from '../../../src/cli/whole-file.ts';
import { temporaryFolder } from '../../support/agent/test-agent.ts';

describe('a file that is written whole', () => {
  it('can be written by two commands of one process at the same time', async () => {
    const { folder, remove } = await temporaryFolder();
    const file = path.join(folder, 'settings');
    const write = (text: string) =>
      writeWhole(file, { replace: true }, async (handle) => {
        await handle.writeFile(text);
      });
    await Promise.all([write('one'), write('two')]);
    expect(await readFile(file, 'utf8')).to.be.oneOf(['one', 'two']);
    expect(await readdir(folder)).to.deep.equal(['settings']);
    await remove();
  });
});
