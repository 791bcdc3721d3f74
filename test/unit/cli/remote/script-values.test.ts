import { writeFile } from 'node:fs/promises';
import path from 'node:path';
import { expect } from 'chai';
import { processIo, secretFrom } from '../../../../src/cli/io.ts';
import { secretsOf } from '../../../../src/cli/remote/script-values.ts';
import { temporaryFolder } from '../../../support/agent/test-agent.ts';

describe('the secrets of a script that come from files', () => {
  it('are whole, such as a key of many lines, without the end of the last one', async () => {
    const { folder, remove } = await temporaryFolder();
    const files = {
      KEY: '-----BEGIN KEY-----\nbm90IGEga2V5\n-----END KEY-----\n',
      WINDOWS: 'one\r\ntwo\r\n',
      PASSWORD: 'a b=c ',
      EMPTY_LINE: 'x\n\n',
    };
    for (const [name, content] of Object.entries(files)) await writeFile(path.join(folder, name), content);
    const given = Object.keys(files).map((name) => `${name}=${name}`);
    expect(await secretsOf({ ...processIo(), cwd: folder }, given)).to.deep.equal({
      KEY: '-----BEGIN KEY-----\nbm90IGEga2V5\n-----END KEY-----',
      WINDOWS: 'one\r\ntwo',
      PASSWORD: 'a b=c ',
      EMPTY_LINE: 'x\n',
    });
    await remove();
  });

  it('are the text of the file, as Windows stores it, and never one that was altered', async () => {
    const { folder, remove } = await temporaryFolder();
    const io = { ...processIo(), cwd: folder };
    const files = {
      BOM: Buffer.from('\uFEFFpässword\r\n'),
      POWERSHELL: Buffer.from('\uFEFFpässword\r\n', 'utf16le'),
      LATIN: Buffer.from('pässword\n', 'latin1'),
    };
    for (const [name, content] of Object.entries(files)) await writeFile(path.join(folder, name), content);
    expect(await secretsOf(io, ['BOM=BOM', 'POWERSHELL=POWERSHELL'])).to.deep.equal({
      BOM: 'pässword',
      POWERSHELL: 'pässword',
    });
    const refusal = await secretsOf(io, ['LATIN=LATIN']).catch((error: Error) => error.message);
    expect(refusal).to.equal('LATIN is not text in UTF-8.');
    expect(await secretFrom(io, { file: 'BOM' })).to.equal('pässword');
    await remove();
  });
});
