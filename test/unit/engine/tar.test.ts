import { expect } from 'chai';
import fc from 'fast-check';
import {
  decodeTarHeader,
  encodeTarHeader,
  readTar,
  TAR_BLOCK,
  TAR_END,
  TarError,
  tarPaddingOf,
} from '../../../src/engine/index.ts';

describe('a tar archive', () => {
  const entry = (path: string, content: Uint8Array, type: 'file' | 'directory' = 'file') =>
    Buffer.concat([
      encodeTarHeader({ path, type, size: content.length }),
      content,
      Buffer.alloc(tarPaddingOf(content.length)),
    ]);
  const archive = Buffer.concat([
    entry('folder', Buffer.alloc(0), 'directory'),
    entry('folder/empty', Buffer.alloc(0)),
    entry('folder/zeros', Buffer.alloc(3 * TAR_BLOCK)),
    entry('folder/text', Buffer.from('content')),
    TAR_END,
  ]);

  async function* inPieces(bytes: Buffer, length: number) {
    for (let at = 0; at < bytes.length; at += length) yield bytes.subarray(at, at + length);
  }
  async function read(bytes: Buffer, length = 1000): Promise<string[]> {
    const found: string[] = [];
    for await (const { type, name, content } of readTar(inPieces(bytes, length))) {
      const pieces: Buffer[] = [];
      for await (const piece of content) pieces.push(piece);
      found.push(`${type} ${name} ${Buffer.concat(pieces).toString().replaceAll('\0', '0').length}`);
    }
    return found;
  }
  const refusal = async (bytes: Buffer): Promise<unknown> => read(bytes).catch((error: unknown) => error);

  it('is read as it was written, in pieces of any length', async () => {
    for (const length of [1, 511, 512, 513, 100_000]) {
      expect(await read(archive, length)).to.deep.equal([
        'directory folder/ 0',
        'file folder/empty 0',
        'file folder/zeros 1536',
        'file folder/text 7',
      ]);
    }
  });

  it('may be filled up with zeros behind its end mark, and with nothing else', async () => {
    expect(await read(Buffer.concat([archive, Buffer.alloc(10_240)]))).to.have.length(4);
    const longer = Buffer.concat([archive, Buffer.alloc(5000), Buffer.from('x')]);
    expect(await refusal(longer))
      .to.be.instanceOf(TarError)
      .with.property('message')
      .that.matches(/goes on/);
    expect(await refusal(Buffer.concat([archive, archive]))).to.be.instanceOf(TarError);
  });

  it('is refused at any length that is too short, also behind a content of zeros', async () => {
    await fc.assert(
      fc.asyncProperty(fc.nat(archive.length - 1), async (length) => {
        const error = await refusal(archive.subarray(0, length));
        expect(error, `${length}`).to.be.instanceOf(TarError);
        expect((error as TarError).message).to.match(/ends too early/);
      }),
      { examples: [[0], [5 * TAR_BLOCK], [archive.length - TAR_BLOCK]] },
    );
  });

  it('has entries of which a reader may leave out a part', async () => {
    const names: string[] = [];
    for await (const { name, content } of readTar(inPieces(archive, 700))) {
      names.push(name);
      for await (const _piece of content) break;
    }
    expect(names).to.deep.equal(['folder/', 'folder/empty', 'folder/zeros', 'folder/text']);
  });

  it('ends its source when a reader stops early', async () => {
    let isClosed = false;
    async function* source() {
      try {
        yield* inPieces(archive, 100);
      } finally {
        isClosed = true;
      }
    }
    for await (const _entry of readTar(source())) break;
    expect(isClosed).to.equal(true);
  });

  it('has headers for every size, and refuses a size that no file has', () => {
    fc.assert(
      fc.property(fc.maxSafeNat(), (size) => {
        const header = encodeTarHeader({ path: 'disks/sda.raw', type: 'file', size });
        expect(header).to.have.length(TAR_BLOCK);
        expect(decodeTarHeader(header)).to.deep.equal({ name: 'disks/sda.raw', type: 'file', size });
      }),
    );
    for (const size of [-1, 0.5, 2 ** 60, Number.NaN]) {
      expect(() => encodeTarHeader({ path: 'a', type: 'file', size })).to.throw(TarError);
    }
  });

  it('keeps a path of plain letters in one block as long as the two fields hold it', () => {
    const path = fc
      .array(fc.stringMatching(/^[a-z .]{1,60}$/), { minLength: 1, maxLength: 6 })
      .map((names) => names.join('/'));
    fc.assert(
      fc.property(path, (name) => {
        const header = encodeTarHeader({ path: name, type: 'file', size: 1 });
        if (name.length <= 100) expect(header).to.have.length(TAR_BLOCK);
        if (header.length === TAR_BLOCK) expect(decodeTarHeader(header)?.name).to.equal(name);
        else expect(() => decodeTarHeader(header.subarray(0, TAR_BLOCK))).to.throw(/neither a file nor/);
      }),
    );
  });

  it('is refused with any bit of a header changed that changes its meaning', () => {
    const path = 'a/file';
    const header = encodeTarHeader({ path, type: 'file', size: 700 });
    const accepted = new Set<number>();
    for (let at = 0; at < TAR_BLOCK; at += 1) {
      for (let bit = 0; bit < 8; bit += 1) {
        const changed = Buffer.from(header);
        changed[at] = (changed[at] ?? 0) ^ (1 << bit);
        try {
          expect(decodeTarHeader(changed)).to.deep.equal({ name: path, type: 'file', size: 700 });
          accepted.add(at);
        } catch (error) {
          expect(error).to.be.instanceOf(TarError);
        }
      }
    }
    // The first digit of the checksum, a zero, may be a space, and two bytes behind its digits mean nothing.
    expect([...accepted]).to.deep.equal([148, 154, 155]);
  });
});
