import { mkdtemp, readFile, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { Readable } from 'node:stream';
import { expect } from 'chai';
import {
  writeDisks,
  checkDisks,
  isHeaderOf,
} from '../../../../../src/agent/capabilities/machine-restores/disk-writer.ts';
import { encodeTarHeader } from '../../../../../src/engine/index.ts';
import { ImageDetails } from '../../../../../src/protocol/index.ts';

/** Disks in the file of a snapshot. What is known of them was written by another device. */
describe('the disks of an image', () => {
  const MIB = 1024 ** 2;
  let folder: string;
  beforeEach(async () => {
    folder = await mkdtemp(path.join(tmpdir(), 'muster-image-'));
  });
  afterEach(async () => rm(folder, { recursive: true, force: true }));

  const disk = { name: 'sda', sizeBytes: 4 * MIB, offset: 1024, sectorBytes: 512 };
  const image = (...disks: object[]): ImageDetails =>
    ImageDetails.parse({
      kind: 'image',
      source: 'disk',
      machine: 'web',
      disks,
      bootMode: 'bios',
      consistency: 'crash',
      memoryBytes: null,
      processors: null,
      system: null,
    });
  const header = (size: number): Buffer => encodeTarHeader({ path: 'disks/sda.raw', type: 'file', size });
  const archive = (...parts: Buffer[]) => {
    const bytes = Buffer.concat(parts);
    // Pieces that begin and end anywhere.
    const pieces = [];
    for (let at = 0; at < bytes.length; at += 70_001) pieces.push(bytes.subarray(at, at + 70_001));
    return Readable.from(pieces, { objectMode: false });
  };
  const refused = (...disks: object[]) =>
    expect(() => checkDisks(image(...disks), 10 * MIB), JSON.stringify(disks)).to.throw(/cannot be used/);

  it('are refused if they cannot lie in it', () => {
    checkDisks(image(disk), 10 * MIB);
    refused();
    refused({ ...disk, offset: 0 });
    refused({ ...disk, offset: 1000 });
    refused({ ...disk, sizeBytes: 0 });
    refused({ ...disk, sizeBytes: 4 * MIB + 1 });
    refused({ ...disk, sizeBytes: 10 * MIB });
    refused({ ...disk, sizeBytes: Number.MAX_SAFE_INTEGER - 511 });
    refused({ ...disk, sectorBytes: 7 });
    refused(disk, disk);
    refused(
      ...Array.from({ length: 17 }, (_none, index) => ({
        ...disk,
        sizeBytes: 512,
        offset: 512 + index * 512,
      })),
    );
  });

  it('are known by the header before them, also those whose size needs more than eleven digits', () => {
    expect(isHeaderOf(header(disk.sizeBytes), disk.sizeBytes)).to.be.true;
    expect(isHeaderOf(header(disk.sizeBytes), disk.sizeBytes + 512)).to.be.false;
    expect(isHeaderOf(Buffer.alloc(512), 0)).to.be.false;
    const large = header(3 * 1024 ** 4);
    expect(isHeaderOf(large, 3 * 1024 ** 4)).to.be.true;
    large[130] = 1;
    expect(isHeaderOf(large, 3 * 1024 ** 4)).to.be.false;
  });

  it('are written byte for byte, with holes for zeros', async () => {
    const content = Buffer.alloc(4 * MIB);
    content.fill('begin', 0, 100_000);
    content.fill('end', 4 * MIB - 3);
    const other = Buffer.alloc(512, 'x');
    const second = { name: 'sdb', sizeBytes: 512, offset: 1024 + 4 * MIB + 512, sectorBytes: 512 };
    const stream = archive(
      Buffer.alloc(512),
      header(4 * MIB),
      content,
      header(512),
      other,
      Buffer.alloc(1024),
    );
    const files = await writeDisks(stream, image(disk, second), folder, () => {});
    expect((await readFile(files[0]!)).equals(content)).to.be.true;
    expect((await readFile(files[1]!)).equals(other)).to.be.true;
    expect((await stat(files[0]!)).blocks * 512).to.be.below(MIB);
  });

  it('are not taken from a stream that ends early or has something else there', async () => {
    const failure = (stream: Readable) =>
      writeDisks(stream, image(disk), folder, () => {}).then(
        () => expect.fail('it was written'),
        (error: unknown) => String(error),
      );
    const short = archive(Buffer.alloc(512), header(4 * MIB), Buffer.alloc(MIB, 'x'));
    expect(await failure(short)).to.contain('does not contain disk 1');
    await rm(path.join(folder, 'disk0.raw'));
    const other = archive(Buffer.alloc(1024), Buffer.alloc(4 * MIB, 'x'));
    expect(await failure(other)).to.contain('does not contain disk 1');
  });
});
