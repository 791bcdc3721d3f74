import { mkdir, readdir, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { gzipSync } from 'node:zlib';
import { expect } from 'chai';
import {
  findTextLogs,
  unpack,
  openPart,
} from '../../../../../src/agent/capabilities/event-logs/text/log-files.ts';
import { UnpackSpace } from '../../../../../src/agent/capabilities/event-logs/text/unpack-space.ts';
import { textReader } from '../../../../../src/agent/capabilities/event-logs/text/text-reader.ts';
import { ask, codeOf, never, temporaryFolder } from '../../../../support/agent/collect.ts';

const KB = 1024;
const line = (n: number) => `2026-01-10T00:00:00.000Z host app: message ${n}\n`;

describe('agent: the space for unpacked logs', () => {
  let folder: string;
  let remove: () => Promise<void>;
  let space: UnpackSpace;
  const free = { bytes: Infinity };

  beforeEach(async () => {
    ({ folder, remove } = await temporaryFolder());
    free.bytes = Infinity;
    space = new UnpackSpace({
      folder: path.join(folder, 'space'),
      partBytes: 400 * KB,
      allBytes: 600 * KB,
      keepFreeBytes: 1000 * KB,
      // Less with each look, as on a disk that is being written to.
      freeBytes: async () => (free.bytes -= 60 * KB),
    });
    await mkdir(path.join(folder, 'log'));
    await writeFile(path.join(folder, 'log/app.log.1.gz'), gzipSync(Buffer.alloc(5000 * KB, 'x')));
  });
  afterEach(() => remove());

  const open = async () =>
    openPart((await findTextLogs(path.join(folder, 'log'))).logs[0]!.parts[0]!, never, { space, unpack });

  it('limits one part and all open parts together, and releases the space of a closed one', async () => {
    const first = await open();
    expect([first.size <= 400 * KB, first.size > 300 * KB, first.complete]).to.deep.equal([
      true,
      true,
      false,
    ]);
    const second = await open();
    expect(first.size + second.size).to.be.at.most(600 * KB);
    expect(await codeOf(open())).to.equal('BUSY');
    await first.close();
    await first.close();
    const third = await open();
    expect(third.size).to.be.greaterThan(300 * KB);
    expect(second.size + third.size).to.be.at.most(600 * KB);
    await second.close();
    await third.close();
  });

  it('leaves free space on the disk', async () => {
    free.bytes = 1200 * KB;
    const part = await open();
    expect(part.size).to.be.within(KB, 100 * KB);
    await part.close();
    free.bytes = 900 * KB;
    expect(await codeOf(open())).to.equal('BUSY');
  });

  it('marks a result as incomplete when an old part could not be unpacked', async () => {
    await writeFile(path.join(folder, 'log/app.log'), line(1));
    free.bytes = 0;
    const reader = textReader({ root: path.join(folder, 'log'), unpackSpace: space });
    const { rows, summary } = await ask(reader, { name: 'app.log' });
    expect(rows.map(({ message }) => message)).to.deep.equal(['message 1']);
    expect(summary).to.include({ scanned: 1, truncated: true });
    expect(summary.note).to.match(/app\.log\.1\.gz was left out: .*no space to unpack/);
  });

  it('keeps its files unlinked, and removes those that a killed agent has left', async () => {
    await mkdir(path.join(folder, 'space/left'), { recursive: true });
    await writeFile(path.join(folder, 'space/left/part'), 'x');
    await space.clear();
    const part = await open();
    expect(await readdir(path.join(folder, 'space'))).to.deep.equal([]);
    await part.close();
  });
});
