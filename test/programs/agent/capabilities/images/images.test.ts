import { execFileSync } from 'node:child_process';
import { createHash, randomBytes } from 'node:crypto';
import { open, readFile, rm, utimes } from 'node:fs/promises';
import { expect } from 'chai';
import { chooseDisks } from '../../../../../src/agent/capabilities/images/find-disks.ts';
import { openDisk } from '../../../../../src/agent/capabilities/images/handlers.ts';
import { MachineDescription } from '../../../../../src/engine/index.ts';
import { ImageDetails } from '../../../../../src/protocol/index.ts';
import {
  changeFile,
  checkFileSystem,
  fileOn,
  makeDiskImage,
  needsDiskPrograms,
  PARTITION_OFFSET,
} from '../../../../support/disk-image.ts';
import { failureOf } from '../../../engine/engine-support.ts';
import { eventually } from '../../../../support/eventually.ts';
import { type BackupBench, openBackupBench } from '../backup/backup-bench.ts';

/** Whole disks, backed up by a real agent with the real restic, and read by stock restic and tar. */
describe('images of disks', function () {
  this.timeout(120_000);
  let bench: BackupBench;
  let disk: string;

  before(async function () {
    needsDiskPrograms(this);
    bench = await openBackupBench(this);
    disk = bench.at('disk.raw');
  });
  beforeEach(async () => {
    await rm(disk, { force: true });
    const files = { 'etc/hostname': 'web-01\n', 'data.bin': randomBytes(3 * 2 ** 20) };
    await makeDiskImage(disk, { files, junkMib: 9 });
  });
  after(async () => bench?.close());

  const snapshots = () => JSON.parse(bench.stock('snapshots', '--json')) as { id: string; paths: string[] }[];

  /** The first disk of a snapshot as a file, by nothing of ours. */
  function unpacked(snapshotId: string): string {
    const { path: repository } = bench.access.destination;
    execFileSync(
      'bash',
      [
        '-c',
        'restic -r "$1" dump "$2" /machine.tar | tar -x -C "$3"',
        '-',
        repository,
        snapshotId,
        bench.at(''),
      ],
      {
        env: {
          ...process.env,
          RESTIC_PASSWORD: 'correct-horse-battery-staple',
          RESTIC_CACHE_DIR: bench.at('cache'),
        },
        stdio: 'pipe',
      },
    );
    return bench.at('disks/disk.raw');
  }

  it('hold the whole disk without its free blocks, and stock restic and tar bring it back', async () => {
    const id = await bench.send('backup.image', {});
    const { output } = await bench.ended(id);
    const { snapshotId, details, bytesAdded, status } = output as {
      snapshotId: string;
      details: ImageDetails;
      bytesAdded: number;
      status: string;
    };
    expect(status).to.equal('completed');
    expect(bytesAdded).to.be.within(3 * 2 ** 20, 8 * 2 ** 20);
    expect(bench.progressOf(id).at(-1)).to.include({ phase: 'finishing', percent: 100 });
    expect(snapshots().at(-1)!.paths).to.deep.equal(['/machine.tar']);
    const [place] = details.disks;
    expect(details).to.include({
      kind: 'image',
      source: 'disk',
      machine: 'machine-1',
      consistency: 'filesystem',
    });
    expect(place).to.include({ name: 'disk', sizeBytes: 64 * 2 ** 20, sectorBytes: 512 });

    const file = unpacked(snapshotId);
    checkFileSystem(file);
    expect(fileOn(file, 'etc/hostname')).to.equal('web-01\n');
    const [image, original] = [await readFile(file), await readFile(disk)];
    expect(image.length).to.equal(original.length);
    expect(image.subarray(0, PARTITION_OFFSET).equals(original.subarray(0, PARTITION_OFFSET))).to.equal(true);
    expect(image.subarray(-(2 ** 20)).equals(original.subarray(-(2 ** 20)))).to.equal(true);
    const { path: repository } = bench.access.destination;
    const whole = execFileSync('restic', ['-r', repository, 'dump', snapshotId, '/machine.tar'], {
      env: { ...process.env, RESTIC_PASSWORD: 'correct-horse-battery-staple' },
      maxBuffer: 2 ** 28,
      stdio: ['ignore', 'pipe', 'ignore'],
    });
    expect(whole.subarray(place!.offset, place!.offset + place!.sizeBytes).equals(image)).to.equal(true);

    const { disks } = JSON.parse(await readFile(bench.at('machine.json'), 'utf8'));
    expect(disks[0].partitionTable.partitions[0]).to.include({ number: 1, start: 2048, size: 62 * 2048 });
    expect(disks[0].volumes[0]).to.include({ type: 'ext', content: 'allocated' });
  });

  it('add little if little has changed', async () => {
    await bench.run('backup.image', {});
    await changeFile(disk, 'etc/hostname', 'web-02\n');
    const { snapshotId, bytesAdded } = await bench.run('backup.image', {});
    expect(bytesAdded).to.be.lessThan(3 * 2 ** 20);
    expect(fileOn(unpacked(snapshotId!), 'etc/hostname')).to.equal('web-02\n');
  });

  it('leave nothing out of a file system that was not unmounted', async () => {
    // The flag of a journal that has something to say.
    const handle = await open(disk, 'r+');
    const features = Buffer.alloc(4);
    await handle.read(features, 0, 4, PARTITION_OFFSET + 1024 + 96);
    features.writeUInt32LE(features.readUInt32LE(0) | 0x4);
    await handle.write(features, 0, 4, PARTITION_OFFSET + 1024 + 96);
    await handle.close();
    const { snapshotId, bytesAdded } = await bench.run('backup.image', {});
    expect(bytesAdded).to.be.greaterThan(12 * 2 ** 20);
    const hash = async (file: string) =>
      createHash('sha256')
        .update(await readFile(file))
        .digest('hex');
    expect(await hash(unpacked(snapshotId!))).to.equal(await hash(disk));
  });

  it('are not made if the disk is missing, or is written to meanwhile', async () => {
    const before = snapshots().length;
    expect(await bench.failure('backup.image', { disks: [bench.at('other.raw')] })).to.include({
      code: 'SOURCE_UNREADABLE',
      message: `There is no disk ${bench.at('other.raw')} on this machine.`,
    });
    expect(snapshots().length).to.equal(before);

    const choice = { disks: [disk], excludeDisks: [] };
    const [found] = await chooseDisks(choice);
    const opened = await openDisk(found!, new AbortController().signal);
    try {
      await opened.confirm();
      await utimes(disk, new Date(1), new Date(1));
      const failure = await failureOf(opened.confirm());
      expect(failure.code).to.equal('SOURCE_UNREADABLE');
      expect(failure.message).to.match(/was written to while it was read/);
    } finally {
      await opened.close();
    }
  });

  it('end without a snapshot when they are cancelled', async () => {
    const before = snapshots().length;
    const large = bench.at('large.raw');
    const handle = await open(large, 'w');
    await handle.truncate(2 ** 40);
    await handle.close();
    const id = await bench.send('backup.image', { disks: [large] });
    await eventually(
      () => bench.progressOf(id).length,
      (count) => count > 0,
      30_000,
    );
    expect((await bench.cancel(id)).status).to.equal('cancelled');
    expect(snapshots().length).to.equal(before);
  });
});

describe('the disks of a machine', () => {
  const listed =
    (...disks: object[]) =>
    async () =>
      JSON.stringify({ blockdevices: disks });
  const sda = {
    name: '/dev/sda',
    type: 'disk',
    size: 1000,
    'log-sec': 512,
    'maj:min': '8:0',
    rm: false,
    tran: 'sata',
    model: ' Disk ',
    serial: null,
    mountpoint: null,
    children: [
      {
        name: '/dev/sda1',
        type: 'part',
        size: 900,
        'log-sec': 512,
        'maj:min': '8:1',
        rm: false,
        mountpoint: '/',
      },
    ],
  };
  const usb = { ...sda, name: '/dev/sdb', tran: 'usb', children: [], 'maj:min': '8:16' };
  const old = {
    ...sda,
    name: '/dev/cciss/c0d0',
    size: '2000',
    'log-sec': '4096',
    rm: '0',
    children: undefined,
  };
  const rest = [
    { ...sda, name: '/dev/loop0', type: 'loop' },
    { ...sda, name: '/dev/zram0' },
    { ...sda, name: '/dev/sdz', size: 0 },
  ];
  const choose = (disks: 'all' | string[], excludeDisks: string[] = []) =>
    chooseDisks({ disks, excludeDisks }, listed(sda, usb, old, ...rest));

  it('are all that are fixed, or those that are named', async () => {
    expect((await choose('all')).map(({ name }) => name)).to.deep.equal(['sda', 'cciss_c0d0']);
    expect((await choose('all', ['sda'])).map(({ sectorBytes }) => sectorBytes)).to.deep.equal([4096]);
    const [named] = await choose(['/dev/sdb']);
    expect(named).to.include({ name: 'sdb', isInUse: false, model: 'Disk' });
    expect((await choose(['sda']))[0]).to.deep.include({ isInUse: true, numbers: ['8:0', '8:1'] });
    for (const call of [choose(['sdc']), choose(['sda'], ['/dev/sda']), choose(['loop0'])]) {
      expect((await failureOf(call)).code).to.equal('SOURCE_UNREADABLE');
    }
  });

  it('are refused before they are read if an image cannot hold them all, and can be named in parts', async () => {
    const many = Array.from({ length: 257 }, (_, at) => ({ ...sda, name: `/dev/sd${at}` }));
    const chosen = (disks: 'all' | string[], excludeDisks: string[] = []) =>
      chooseDisks({ disks, excludeDisks }, listed(...many));
    const { code, message } = await failureOf(chosen('all'));
    expect(code).to.equal('SOURCE_UNREADABLE');
    expect(message).to.match(
      /257 disks are selected, and an image holds 256 at most.*cannot hold is sd256\./,
    );
    const whole = await chosen('all', ['sd256']);
    expect(whole).to.have.length(256);
    expect((await chosen(['sd256'])).map(({ name }) => name)).to.deep.equal(['sd256']);
    const disks = whole.map(({ name, sizeBytes, sectorBytes }) => ({
      name,
      sizeBytes,
      sectorBytes,
      offset: 0,
    }));
    expect(ImageDetails.shape.disks.safeParse(disks).success).to.equal(true);
    const described = disks.map((disk) => ({
      ...disk,
      model: null,
      serial: null,
      partitionTable: null,
      volumes: [],
    }));
    expect(MachineDescription.shape.disks.safeParse(described).success).to.equal(true);
  });
});
