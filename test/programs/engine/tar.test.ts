import { execFileSync, spawnSync } from 'node:child_process';
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { expect } from 'chai';
import { encodeTarHeader, TAR_END, tarPaddingOf } from '../../../src/engine/index.ts';

describe('a tar archive, read by tar', () => {
  let folder: string;
  beforeEach(async () => {
    folder = await mkdtemp(path.join(tmpdir(), 'muster-tar-'));
  });
  afterEach(async () => rm(folder, { recursive: true, force: true }));

  it('has sizes beyond eight gigabytes', () => {
    const large = encodeTarHeader({ path: 'disks/sda.raw', type: 'file', size: 2 ** 43 });
    // The content is missing, which tar reports after the list.
    const { stdout: listed } = spawnSync('tar', ['-tvf', '-'], { input: large, encoding: 'utf8' });
    expect(listed).to.contain(String(2 ** 43));
  });

  it('has names of every kind, byte for byte', async () => {
    const names = [
      Buffer.from('plain'),
      Buffer.from(`${'folder/'.repeat(20)}deep`),
      Buffer.from('n'.repeat(255)),
      Buffer.from('with spaces and ünïcode'),
      Buffer.from([0x6c, 0x61, 0x74, 0x69, 0x6e, 0xe9]),
      Buffer.from('line\nbreak'),
    ];
    const archive = Buffer.concat([
      ...names.flatMap((name, at) => {
        const content = Buffer.from(`content ${at}`);
        const header = encodeTarHeader({ path: name, type: 'file', size: content.length });
        return [header, content, Buffer.alloc(tarPaddingOf(content.length))];
      }),
      TAR_END,
    ]);
    execFileSync('tar', ['-C', folder, '-xf', '-'], { input: archive });
    for (const [at, name] of names.entries()) {
      const file = Buffer.concat([Buffer.from(`${folder}/`), name]);
      expect(await readFile(file, 'utf8'), name.toString()).to.equal(`content ${at}`);
    }
    const top = await readdir(folder, { encoding: 'buffer' });
    expect(top).to.have.length(names.length);
  });
});
