import { execFileSync, spawnSync } from 'node:child_process';
import { randomBytes, randomUUID } from 'node:crypto';
import { mkdir, mkdtemp, open, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { expect } from 'chai';
import fc from 'fast-check';
import { type FoundDisk, parseDisks } from '../../../../../src/agent/capabilities/images/find-disks.ts';
import { openDisk } from '../../../../../src/agent/capabilities/images/handlers.ts';
import {
  removeLeftoverSnapshots,
  takeConsistentSnapshot,
  splice,
  copyFrozen,
  whileFrozen,
} from '../../../../../src/agent/capabilities/images/consistent-snapshot.ts';
import { parseReports, snapshotExtents } from '../../../../../src/agent/capabilities/images/lvm.ts';
import { runSystemProgram } from '../../../../../src/agent/os/child-process.ts';
import { failureOf } from '../../../engine/engine-support.ts';
import { eventually } from '../../../../support/eventually.ts';

const MIB = 2 ** 20;
const { signal } = new AbortController();

/** As `lvs` and `pvs` of LVM 2.03.16 print them of a volume in two parts and another one, on one disk. */
const reports = (disk: string) => ({
  lvs: JSON.stringify({
    report: [
      {
        seg: [
          ['data', '0', '41943040', '10-19'],
          ['root', '0', '41943040', '0-9'],
          ['root', '41943040', '41943040', '20-29'],
        ].map(([name, start, size, extents]) => ({
          lv_name: name,
          vg_name: 't-vg',
          lv_attr: '-wi-ao----',
          segtype: 'linear',
          seg_start: start,
          seg_size: size,
          seg_pe_ranges: `${disk}:${extents}`,
          lv_path: `/dev/t-vg/${name}`,
          lv_dm_path: `/dev/mapper/t--vg-${name}`,
        })),
      },
    ],
  }),
  pvs: JSON.stringify({
    report: [
      {
        pv: [
          {
            pv_name: disk,
            vg_name: 't-vg',
            pe_start: '1048576',
            vg_extent_size: '4194304',
            vg_free_count: '33',
          },
        ],
      },
    ],
  }),
});

describe('a disk in use, as it was at one moment', function () {
  this.timeout(60_000);
  let folder: string;
  const warnings: string[] = [];
  const warn = (message: string) => void warnings.push(message);

  before(async () => {
    folder = await mkdtemp(path.join(tmpdir(), 'muster-points-'));
  });
  after(async () => rm(folder, { recursive: true, force: true }));

  it('is read from elsewhere in some of its parts, wherever these are', async () => {
    const disk = randomBytes(4000);
    const other = randomBytes(8000);
    const read = (bytes: Buffer) => async (offset: number, length: number) =>
      bytes.subarray(offset, offset + length);
    const parts = fc.array(fc.tuple(fc.nat(300), fc.integer({ min: 1, max: 400 }), fc.nat(4000)), {
      maxLength: 8,
    });
    await fc.assert(
      fc.asyncProperty(parts, fc.nat(4000), fc.nat(4000), async (wanted, offset, length) => {
        const expected = Buffer.from(disk);
        const regions = [];
        let at = 0;
        for (const [gap, size, from] of wanted) {
          const region = {
            start: at + gap,
            length: Math.min(size, 4000 - at - gap),
            from,
            read: read(other),
          };
          if (region.length <= 0) break;
          other.copy(expected, region.start, from, from + region.length);
          regions.unshift(region);
          at = region.start + region.length;
        }
        const found = await splice(read(disk), regions)(offset, length);
        expect(found.equals(expected.subarray(offset, offset + length))).to.equal(true);
      }),
    );
  });

  it('takes the extents for its snapshots from the free ones, and none if too few are free', () => {
    const { lvs, pvs } = reports('/dev/sda');
    const { logical, physical } = parseReports(lvs, pvs);
    expect(logical.map(({ name, sizeBytes }) => [name, sizeBytes / MIB])).to.deep.equal([
      ['data', 40],
      ['root', 80],
    ]);
    expect([...snapshotExtents(logical, physical).values()]).to.deep.equal([10]);
    const roomy = physical.map((each) => ({ ...each, freeExtents: 100 }));
    expect([...snapshotExtents(logical, roomy).values()]).to.deep.equal([10, 20]);
    const full = physical.map((each) => ({ ...each, freeExtents: 12 }));
    expect(snapshotExtents(logical, full).size).to.equal(0);
    const striped = lvs.replaceAll('"linear"', '"striped"');
    expect(parseReports(striped, pvs).logical[0]?.segments).to.equal(undefined);
  });

  const listed = (mounted: FoundDisk['mounted'], disk: string, sizeBytes: number): FoundDisk => ({
    name: 'sda',
    path: disk,
    isFile: true,
    sizeBytes,
    sectorBytes: 512,
    model: null,
    serial: null,
    isInUse: true,
    mounted,
    parts: [],
    numbers: [],
  });
  const lvm = (name: string) => ({
    path: `/dev/mapper/t--vg-${name}`,
    type: 'lvm',
    mountPoint: `/mnt/${name}`,
    sizeBytes: 0,
  });

  /** The programs of LVM as they answer; a snapshot is a file with the content of its volume at that time. */
  function fakeLvm(disk: string, { isFull = false } = {}) {
    const calls: string[] = [];
    const { lvs, pvs } = reports(disk);
    const run = async (name: string, args: readonly string[]) => {
      calls.push([name, ...args].join(' '));
      if (name === 'pvs') return pvs;
      if (name === 'lvs' && args.includes('--segments')) return lvs;
      if (name === 'lvs' && args.includes('lv_path')) return `  ${path.join(folder, 'snapshot')}\n`;
      if (name === 'lvs') return isFull ? '  1\n' : '  0\n';
      // From now on the description of the group is another one.
      if (name === 'lvcreate') await writeAt(disk, Buffer.from('with a snapshot'), 4096);
      return '';
    };
    return { run, calls };
  }
  const writeAt = async (file: string, bytes: Buffer, at: number) => {
    const handle = await open(file, 'r+');
    await handle.write(bytes, 0, bytes.length, at);
    await handle.close();
  };

  it('has its volumes of LVM from snapshots, in their places, and the description of the group from before', async () => {
    const disk = path.join(folder, 'lvm.raw');
    const before = Buffer.alloc(256 * MIB, 'elsewhere');
    before.write('without a snapshot', 4096);
    await writeFile(disk, before);
    const root = randomBytes(80 * MIB);
    await writeFile(path.join(folder, 'snapshot'), root);
    const { run, calls } = fakeLvm(disk);
    const parts = { jobId: randomUUID(), folder, warn, run };
    const found = listed([lvm('root')], disk, before.length);
    const point = await takeConsistentSnapshot([found], parts, signal);
    expect(point.consistency).to.equal('filesystem');
    const opened = await openDisk({ ...found, isFile: false }, signal, point.regions.get(disk));
    const pieces: Buffer[] = [];
    for await (const piece of opened.content()) pieces.push(piece);
    await opened.close();
    await point.confirm();
    await point.release();
    const expected = Buffer.from(before);
    root.copy(expected, MIB, 0, 40 * MIB);
    root.copy(expected, MIB + 80 * MIB, 40 * MIB, 80 * MIB);
    expect(Buffer.concat(pieces).equals(expected)).to.equal(true);
    const made = calls.find((call) => call.startsWith('lvcreate'));
    expect(made).to.match(
      /^lvcreate --snapshot --permission r .* --name muster-image-[0-9a-f]{16} .*t-vg\/root$/,
    );
    const name = /muster-image-[0-9a-f]{16}/.exec(made ?? '')?.[0];
    expect(calls.at(-1)).to.equal(`lvremove --yes --force t-vg/${name}`);
    expect(warnings).to.deep.equal([]);
  });

  it('is a failure if a snapshot was too small, and no moment if one cannot be made', async () => {
    const disk = path.join(folder, 'lvm.raw');
    const { run } = fakeLvm(disk, { isFull: true });
    const parts = { jobId: randomUUID(), folder, warn, run };
    const full = await takeConsistentSnapshot([listed([lvm('root')], disk, 256 * MIB)], parts, signal);
    expect(await failureOf(full.confirm())).to.include({ code: 'SOURCE_UNREADABLE' });
    await full.release();
    for (const mounted of [
      [lvm('elsewhere')],
      [lvm('root'), { path: '/dev/mapper/secret', type: 'crypt', mountPoint: '/secret', sizeBytes: 1 }],
      [{ path: '/dev/sda1', type: 'part', mountPoint: '/boot', sizeBytes: 3 * 2 ** 30 }],
    ]) {
      const point = await takeConsistentSnapshot([listed(mounted, disk, 256 * MIB)], parts, signal);
      expect([point.consistency, point.regions.size]).to.deep.equal(['none', 0]);
    }
    expect((await takeConsistentSnapshot([listed([], disk, 1)], parts, signal)).consistency).to.equal(
      'filesystem',
    );
  });

  it('leaves nothing behind that the next agent does not remove, and touches nothing of others', async () => {
    const left = path.join(folder, 'image-volumes', 'job');
    await mkdir(left, { recursive: true });
    const calls: string[] = [];
    const { lvs, pvs } = reports('/dev/sda');
    const run = async (name: string, args: readonly string[]) => {
      if (name === 'pvs') return pvs;
      const ours = lvs
        .replaceAll('"data"', '"muster-image-0123456789abcdef"')
        .replaceAll('"root"', '"muster-image-x"');
      if (name === 'lvs') return ours;
      calls.push([name, ...args].join(' '));
      return '';
    };
    await removeLeftoverSnapshots({ folder, warn, run });
    expect(calls).to.deep.equal(['lvremove --yes --force t-vg/muster-image-0123456789abcdef']);
    expect(await readdir(folder)).not.to.include('image-volumes');
  });

  it('does not count space for swapping as in use', () => {
    const disk = (mountpoint: string) =>
      JSON.stringify({
        blockdevices: [
          {
            name: '/dev/sda',
            type: 'disk',
            size: 1000,
            'log-sec': 512,
            'maj:min': '8:0',
            rm: false,
            children: [
              {
                name: '/dev/sda1',
                type: 'part',
                size: 900,
                'log-sec': 512,
                'maj:min': '8:1',
                rm: false,
                mountpoint,
              },
            ],
          },
        ],
      });
    expect(parseDisks(disk('[SWAP]'))[0]).to.deep.include({
      isInUse: false,
      mounted: [],
      parts: ['/dev/sda1'],
    });
    expect(parseDisks(disk('/boot'))[0]?.mounted).to.deep.equal([
      { path: '/dev/sda1', type: 'part', mountPoint: '/boot', sizeBytes: 900 },
    ]);
  });

  describe('of a file system on a small volume', () => {
    let device: string;
    let mountPoint: string;

    before(async function () {
      const image = path.join(folder, 'boot.raw');
      mountPoint = path.join(folder, 'boot');
      await mkdir(mountPoint);
      await writeFile(image, Buffer.alloc(16 * MIB));
      const made = spawnSync(
        'sh',
        [
          '-c',
          'mke2fs -q -F -t ext4 -E lazy_itable_init=0,lazy_journal_init=0 "$1" && d=$(losetup --find --show "$1") && mount "$d" "$2" && echo $d',
          '-',
          image,
          mountPoint,
        ],
        { encoding: 'utf8', env: { ...process.env, PATH: `${process.env['PATH']}:/sbin:/usr/sbin` } },
      );
      device = made.stdout.trim();
      // oxlint-disable-next-line no-console -- a test that does not run has to say so
      if (device === '') console.warn('      skipped: nothing can be mounted here'), this.skip();
    });
    after(() => {
      if (device === undefined || device === '') return;
      execFileSync('umount', [mountPoint]);
      execFileSync('losetup', ['-d', device]);
    });

    it('is copied while it is frozen, so that the copy is clean, and goes on afterwards', async () => {
      await writeFile(path.join(mountPoint, 'kernel'), 'before');
      const file = path.join(folder, 'copy');
      const volume = { path: device, mountPoint, sizeBytes: 16 * MIB, hasAgent: false };
      expect(await copyFrozen(volume, file, { run: runSystemProgram, signal })).to.equal(true);
      await writeFile(path.join(mountPoint, 'kernel'), 'after');
      expect(execFileSync('debugfs', ['-R', 'cat kernel', file], { stdio: 'pipe' }).toString()).to.equal(
        'before',
      );
      const superblock = (await readFile(file)).subarray(1024, 2048);
      expect(superblock.readUInt32LE(96) & 4, 'the journal is empty').to.equal(0);
    });

    it('is never frozen if the agent is on it: it counts as still if nothing was written', async () => {
      const calls: string[] = [];
      const run: typeof runSystemProgram = (name, args) => {
        calls.push(name);
        return runSystemProgram(name, args);
      };
      const volume = { path: device, mountPoint, sizeBytes: 16 * MIB, hasAgent: true };
      expect(await copyFrozen(volume, path.join(folder, 'copy'), { run, signal })).to.equal(true);
      expect(calls).to.include('sync').and.not.include('fsfreeze');
      expect((await stat(path.join(folder, 'copy'))).size).to.equal(16 * MIB);
    });

    it('is thawed by another process when it takes too long, and that is reported', async () => {
      const written = path.join(mountPoint, 'later');
      let wasThawed = false;
      const isStill = await whileFrozen(
        mountPoint,
        runSystemProgram,
        async () => {
          // Waits until the watchdog has thawed it.
          await writeFile(written, 'later');
          wasThawed = true;
        },
        300,
      );
      expect([isStill, wasThawed]).to.deep.equal([false, true]);
      await eventually(
        () => readFile(written, 'utf8'),
        (text) => text === 'later',
      );
    });

    it('is thawed as well if freezing it takes longer than it may be frozen', async () => {
      const written = path.join(mountPoint, 'late');
      const slowly: typeof runSystemProgram = async (name, args, env) => {
        // After the limit of the watchdog, which has then tried once in vain.
        if (args.includes('--freeze')) await new Promise((resolve) => setTimeout(resolve, 700));
        return runSystemProgram(name, args, env);
      };
      const isStill = await whileFrozen(mountPoint, slowly, () => writeFile(written, 'late'), 200);
      expect(isStill).to.equal(false);
      expect(await readFile(written, 'utf8')).to.equal('late');
    });
  });
});
