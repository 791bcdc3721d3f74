import { readFile } from 'node:fs/promises';
import { expect } from 'chai';
import { ScriptFolder } from '../../../../src/agent/capabilities/scripts.ts';
import { SavedScriptLanguage, ScriptLanguage } from '../../../../src/protocol/index.ts';
import { temporaryFolder } from '../../../support/agent/collect.ts';

describe('agent: the file of a script', () => {
  it('has the line ends that the interpreter needs', async () => {
    const { folder, remove } = await temporaryFolder();
    const written = (lineEnd: { lineEnd?: '\r\n' }) =>
      new ScriptFolder(folder, () => {}).with(
        { command: 'cmd', args: [], extension: '.cmd', head: '@rem\r\n', ...lineEnd },
        'goto a\n:a\r\necho b',
        ({ file }) => readFile(file, 'utf8'),
      );
    try {
      expect(await written({ lineEnd: '\r\n' })).to.equal('@rem\r\ngoto a\r\n:a\r\necho b');
      expect(await written({})).to.equal('@rem\r\ngoto a\n:a\r\necho b');
    } finally {
      await remove();
    }
  });

  it('may be of Windows commands where it is run, and not where it is kept', () => {
    expect(ScriptLanguage.safeParse('cmd').success).to.equal(true);
    expect(SavedScriptLanguage.safeParse('cmd').success).to.equal(false);
  });
});
