import { execFileSync } from 'node:child_process';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { expect } from 'chai';
import fc from 'fast-check';
import {
  EngineError,
  layoutOf,
  type MachineDescription,
  openMachine,
  writeMachine,
} from '../../../src/engine/index.ts';

/** The one file of the snapshot of a machine: an ordinary tar archive with a description and whole disks. */

const machineOf = (disks: Record<string, number>): MachineDescription => ({
  format: 'muster-machine',
  version: 1,
  source: 'disk',
  machine: 'web-01',
  system: null,
  takenAt: '2026-11-23T06:00:00.000Z',
  bootMode: 'bios',
  consistency: 'filesystem',
  memoryBytes: null,
  processors: null,
  hardware: null,
  fstab: null,
  disks: Object.entries(disks).map(([name, sizeBytes]) => ({
    name,
    sizeBytes,
    sectorBytes: 512,
    model: null,
    serial: null,
    partitionTable: null,
    volumes: [],
  })),
});

async function written(machine: MachineDescription, contents: Record<string, Buffer>): Promise<Buffer> {
  const parts: Uint8Array[] = [];
  const contentOf = async function* ({ name }: { name: string }) {
    // In two pieces, which need not be whole blocks.
    const content = contents[name] ?? Buffer.alloc(0);
    const half = Math.floor(content.length / 2);
    yield content.subarray(0, half);
    yield content.subarray(half);
  };
  for await (const part of writeMachine(machine, contentOf)) parts.push(part);
  return Buffer.concat(parts);
}

const readFrom = (file: Buffer) => async (offset: number, length: number) =>
  file.subarray(offset, offset + length);

const failureOf = (work: Promise<unknown>) =>
  work.then(
    () => undefined,
    (error: unknown) => error,
  );

const disksOf = fc.dictionary(
  fc.stringMatching(/^[A-Za-z0-9][A-Za-z0-9._-]{0,20}$/).filter((name) => !(name in {})),
  fc.uint8Array({ maxLength: 3000 }).map((bytes) => Buffer.from(bytes)),
  { minKeys: 1, maxKeys: 4, noNullPrototype: true },
);
const sizesOf = (contents: Record<string, Buffer>) =>
  Object.fromEntries(Object.entries(contents).map(([name, content]) => [name, content.length]));

describe('the archive of a machine', () => {
  it('holds each disk in one piece at the place that its layout says', async () => {
    await fc.assert(
      fc.asyncProperty(disksOf, async (contents) => {
        const machine = machineOf(sizesOf(contents));
        const file = await written(machine, contents);
        const layout = layoutOf(machine);
        expect(file.length).to.equal(layout.sizeBytes);
        const opened = await openMachine(readFrom(file));
        expect(opened.description).to.deep.equal(machine);
        expect(opened.disks).to.deep.equal(layout.disks);
        for (const { name, offset, sizeBytes } of opened.disks) {
          expect(file.subarray(offset, offset + sizeBytes).equals(contents[name]!)).to.equal(true);
        }
      }),
    );
  });

  it('is unpacked by tar', async () => {
    const folder = await mkdtemp(path.join(tmpdir(), 'muster-machine-'));
    try {
      const contents = { sda: Buffer.from('boot'), nvme0n1: Buffer.alloc(1000, 7) };
      await writeFile(
        path.join(folder, 'machine.tar'),
        await written(machineOf(sizesOf(contents)), contents),
      );
      execFileSync('tar', ['-C', folder, '-xf', path.join(folder, 'machine.tar')]);
      expect(await readFile(path.join(folder, 'disks/sda.raw'), 'utf8')).to.equal('boot');
      expect((await readFile(path.join(folder, 'disks/nvme0n1.raw'))).equals(contents.nvme0n1)).to.equal(
        true,
      );
      const { machine } = JSON.parse(await readFile(path.join(folder, 'machine.json'), 'utf8'));
      expect(machine).to.equal('web-01');
    } finally {
      await rm(folder, { recursive: true });
    }
  });

  it('is not written if a disk gives more or fewer bytes than it had', async () => {
    for (const length of [0, 99, 101, 5000]) {
      const failure = await failureOf(written(machineOf({ sda: 100 }), { sda: Buffer.alloc(length) }));
      expect(failure).to.be.instanceOf(EngineError).and.include({ code: 'SOURCE_UNREADABLE' });
    }
  });

  it('is refused with any byte of its headers changed, and never read as something else', async () => {
    const contents = { sda: Buffer.alloc(700, 1), sdb: Buffer.alloc(512, 2) };
    const machine = machineOf(sizesOf(contents));
    const file = await written(machine, contents);
    const { disks } = layoutOf(machine);
    const heads = [0, ...disks.map(({ offset }) => offset - 512)];
    await fc.assert(
      fc.asyncProperty(
        fc.constantFrom(...heads),
        fc.nat(511),
        fc.integer({ min: 1, max: 255 }),
        async (head, at, by) => {
          const changed = Buffer.from(file);
          changed[head + at] = (changed[head + at]! + by) % 256;
          const outcome = await openMachine(readFrom(changed)).then(
            (opened) => opened.disks,
            (error: unknown) => (error instanceof EngineError ? error.code : 'other'),
          );
          // The sum of a header is written with characters that do not count.
          if (outcome !== 'REPOSITORY_DAMAGED') expect(outcome).to.deep.equal(disks);
        },
      ),
      { numRuns: 500 },
    );
  });

  it('is refused if it is cut off, and if its description speaks of other disks', async () => {
    const contents = { sda: Buffer.alloc(700, 1) };
    const file = await written(machineOf(sizesOf(contents)), contents);
    const refused = async (bytes: Buffer) =>
      expect(await failureOf(openMachine(readFrom(bytes))))
        .to.be.instanceOf(EngineError)
        .and.include({ code: 'REPOSITORY_DAMAGED' });
    for (const length of [0, 511, 600, file.length - 1100]) await refused(file.subarray(0, length));
    const text = file.toString('latin1');
    await refused(Buffer.from(text.replace('"sizeBytes": 700', '"sizeBytes": 701'), 'latin1'));
    await refused(Buffer.from(text.replace('"name": "sda"', '"name": "sdb"'), 'latin1'));
    await refused(Buffer.from(text.replace('"name": "sda"', '"name": "../"'), 'latin1'));
  });
});
