import { execFile, execFileSync } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { mkdir, mkdtemp, open, readFile, readdir, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { promisify } from 'node:util';
import { expect } from 'chai';
import type { Domain, DomainDisk } from '../../../../src/agent/capabilities/hypervisors/kvm-domain.ts';
import { writeImage } from '../../../../src/agent/capabilities/hypervisors/kvm-disks.ts';
import { readFrom } from '../../../../src/agent/os/read-disk.ts';
import { imageDetailsOf, openMachine } from '../../../../src/engine/index.ts';
import type { CommandOutput } from '../../../../src/protocol/index.ts';
import { eventually } from '../../../support/eventually.ts';
import { buildGuestDisk, changeGuest, GUEST_ROOT_OFFSET } from './guest-disk.ts';
import { type MachineBench, openMachineBench } from './kvm/machine-bench.ts';
import { needsMachines, startGuest } from './run-guest.ts';

/**
 * Instant boots of a real guest, which writes numbers and shows the last one that is on its disk. It needs minutes, because
 * qemu has to translate every instruction.
 */

const BOOT_MS = 300_000;
/** A number is shown when it is on the disk. */
const WORK = `#!/bin/sh
n=$(tail -n 1 /var/numbers 2>/dev/null); n=\${n:-0}
while :; do
  n=$((n+1)); echo $n >> /var/numbers && sync -d /var/numbers && echo $n > /srv/www/shown.new && mv /srv/www/shown.new /srv/www/shown
  sleep 0.02
done
`;
const run = promisify(execFile);

describe('an instant boot', function () {
  this.timeout(1_500_000);
  let bench: MachineBench;
  let disk: string;
  let older: Awaited<ReturnType<MachineBench['store']>>;

  before(async function () {
    needsMachines(this);
    bench = await openMachineBench();
    disk = bench.at('disk.raw');
    await buildGuestDisk(disk, {
      page: 'older',
      sizeMib: 1024,
      files: { '/usr/local/sbin/guest-work': WORK },
    });
    older = await bench.store([disk]);
    await changeGuest(disk, { '/srv/www/index.html': 'newer' });
    await bench.store([disk]);
  });
  after(async () => bench?.close());
  afterEach(async () => {
    if (bench === undefined) return;
    await bench.restart();
    for (const { restoreId } of (await bench.run('backup.vm-boots', {})).boots) {
      await bench.run('backup.vm-discard', { restoreId });
    }
    await expectNothingLeft();
  });

  async function expectNothingLeft() {
    expect(await bench.mounts(), 'mounts').to.deep.equal([]);
    expect(await bench.engines(), 'restic').to.deep.equal([]);
    expect(await bench.machines(), 'qemu').to.deep.equal([]);
    expect(await readdir(path.join(bench.dataDir, 'machines')).catch(() => []), 'machines').to.deep.equal([]);
  }
  type Booted = CommandOutput<'backup.vm-instant-boot'>;
  const page = async ({ forwards }: Pick<Booted, 'forwards'>, name = ''): Promise<string | undefined> => {
    const url = `http://127.0.0.1:${forwards[0]?.hostPort}/${name}`;
    const answer = await fetch(url, { signal: AbortSignal.timeout(2000) }).catch(() => undefined);
    return answer?.ok === true ? (await answer.text().catch(() => '')).trim() : undefined;
  };
  const served = (booted: Pick<Booted, 'forwards'>, name = '') =>
    eventually(
      () => page(booted, name),
      (text) => text !== undefined && text !== '',
      BOOT_MS,
    );
  const shown = async (booted: Booted) => Number(await served(booted, 'shown'));
  const grows = async (booted: Booted, from: number) =>
    eventually(
      () => shown(booted),
      (number) => number > from + 3,
      BOOT_MS,
    );
  const state = async () => (await bench.run('backup.vm-boots', {})).boots[0];

  /** A process that is killed keeps its lock on the disk for a moment. */
  const unlocked = (file: string) =>
    eventually(
      () =>
        run('qemu-img', ['info', file]).then(
          () => true,
          () => false,
        ),
      Boolean,
    );

  /** The numbers on a disk that no machine runs from, after its journal was replayed. */
  async function numbersOn(overlay: string): Promise<number[]> {
    const raw = bench.at('checked.raw');
    await run('qemu-img', ['convert', '-O', 'raw', overlay, raw]);
    const part = bench.at('checked.ext4');
    await run('dd', [
      `if=${raw}`,
      `of=${part}`,
      'bs=1M',
      `skip=${GUEST_ROOT_OFFSET / 1024 ** 2}`,
      'conv=sparse',
    ]);
    // Its exit code says that something was repaired: the journal.
    await run('e2fsck', ['-fy', part]).catch(() => {});
    const { stdout } = await run('debugfs', ['-R', 'cat /var/numbers', part], { maxBuffer: 64 * 1024 ** 2 });
    await Promise.all([rm(raw), rm(part)]);
    return stdout.trim().split('\n').map(Number);
  }

  it('runs an older snapshot, and is migrated under load without losing a number', async () => {
    const wanted = bench.wanted(older);
    const booted = await bench.run('backup.vm-instant-boot', wanted);
    expect(await served(booted)).to.equal('older');
    await grows(booted, 0);
    const copied = await bench.run('backup.vm-migrate', { restoreId: wanted.restoreId, timeoutSeconds: 900 });
    const last = await grows(booted, await shown(booted));
    expect(await bench.mounts()).to.deep.equal([]);
    expect(await state()).to.include({ state: 'running', isPermanent: true });
    const overlay = path.join(booted.folder, 'disk0.qcow2');
    for (const { pid } of await bench.machines()) process.kill(pid, 'SIGKILL');
    await unlocked(overlay);
    const numbers = await numbersOn(overlay);
    expect(numbers.slice(0, last)).to.deep.equal(Array.from({ length: last }, (_none, index) => index + 1));
    // oxlint-disable-next-line no-console -- the figures are what this is about
    console.log(
      `      mount ${booted.seconds.mount.toFixed(2)} s, overlay ${booted.seconds.overlay.toFixed(2)} s, start ${booted.seconds.start.toFixed(2)} s; ${copied.copiedBytes} bytes copied in ${copied.seconds.toFixed(1)} s; ${last} numbers shown, ${numbers.length} on the disk`,
    );
    // It is a machine of its own now: it starts again without any snapshot.
    const again = await bench.run('backup.vm-instant-boot', wanted);
    expect(await served(again)).to.equal('older');
    expect(await grows(again, last)).to.be.greaterThan(last);
    expect(await bench.mounts()).to.deep.equal([]);
  });

  it('runs a guest of KVM from its place among those of its host, and gives it disks of its own', async () => {
    const host = bench.at('host, "spool"');
    const file = path.join(host, 'guest-1', 'machine.tar');
    await mkdir(path.dirname(file), { recursive: true });
    // As libvirt has it: not raw, so that the agent reads it through qemu-nbd.
    const qcow2 = bench.at('guest.qcow2');
    await run('qemu-img', ['convert', '-O', 'qcow2', disk, qcow2]);
    const target: DomainDisk = {
      target: 'vda',
      bus: 'virtio',
      path: qcow2,
      isBlockDevice: false,
      format: 'qcow2',
      isReadOnly: false,
      isPassthrough: false,
      sectorBytes: 512,
      serial: null,
      bases: [],
    };
    const domain: Domain = {
      id: randomUUID(),
      name: 'guest',
      type: 'qemu',
      machine: 'q35',
      memoryBytes: 512 * 1024 ** 2,
      processors: 1,
      bootMode: 'bios',
      isLocalTime: false,
      system: null,
      targets: ['vda'],
      disks: [target],
      cards: [],
    };
    const order = { program: 'qemu-nbd', domain, disks: [target], consistency: 'crash' as const, file };
    await writeImage(order, AbortSignal.timeout(300_000));
    const snapshotId = await bench.storeFolder(host);
    const handle = await open(file);
    const { description, disks } = await openMachine(readFrom(handle));
    await handle.close();
    const stored = { snapshotId, image: imageDetailsOf(description, disks), imagePath: file };
    const wanted = bench.wanted(stored);
    const booted = await bench.run('backup.vm-instant-boot', wanted);
    expect(await served(booted)).to.equal('newer');
    await grows(booted, 0);
    expect(await state()).to.include({ state: 'running', isPermanent: false, isBaseThere: true });
    // oxlint-disable-next-line no-console -- the figures are what this is about
    console.log(
      `      mount ${booted.seconds.mount.toFixed(2)} s, start ${booted.seconds.start.toFixed(2)} s`,
    );
    await bench.run('backup.vm-discard', { restoreId: wanted.restoreId });
    const copy = { ...bench.wanted(stored), format: 'qcow2', start: true, timeoutSeconds: 900 };
    const made = await bench.run('backup.vm-from-image', copy);
    expect(await served(made)).to.equal('newer');
  });

  it('goes on when restic is killed, while the agent runs and after another agent has taken over', async () => {
    const wanted = bench.wanted(older);
    const booted = await bench.run('backup.vm-instant-boot', wanted);
    await served(booted);
    for (const { pid } of await bench.engines()) process.kill(pid, 'SIGKILL');
    await eventually(state, (found) => found?.isBaseThere === false);
    await eventually(state, (found) => found?.isBaseThere === true, 60_000);
    await grows(booted, await shown(booted));

    await bench.restart();
    expect(await state()).to.include({ state: 'running', isBaseThere: true });
    const last = await shown(booted);
    for (const { pid } of await bench.engines()) process.kill(pid, 'SIGKILL');
    await eventually(state, (found) => found?.isBaseThere === false);
    // This agent has no secrets until the server sends the command again.
    await bench.run('backup.vm-instant-boot', wanted);
    expect(await state()).to.include({ state: 'running', isBaseThere: true });
    expect((await bench.mounts()).length).to.equal(1);
    await grows(booted, last);
  });

  it('of one snapshot twice needs one mount, which stays until both are gone', async () => {
    const [one, other] = [bench.wanted(older), bench.wanted(older)];
    await Promise.all([one, other].map((each) => bench.run('backup.vm-instant-boot', each)));
    expect((await bench.mounts()).length).to.equal(1);
    expect((await bench.engines()).length).to.equal(1);
    expect((await bench.machines()).length).to.equal(2);
    await bench.run('backup.vm-discard', { restoreId: one.restoreId });
    expect((await bench.mounts()).length).to.equal(1);
    await bench.run('backup.vm-discard', { restoreId: other.restoreId });
    await expectNothingLeft();
  });

  for (const phase of ['mounting', 'starting', 'copying']) {
    it(`leaves nothing that cannot be cleaned up when the agent is killed while ${phase}`, async () => {
      const wanted = bench.wanted(older);
      const isCopy = phase === 'copying';
      if (isCopy) await bench.run('backup.vm-instant-boot', wanted);
      const { restoreId } = wanted;
      const { id, ended } = isCopy
        ? bench.send('backup.vm-migrate', { restoreId, timeoutSeconds: 900 })
        : bench.send('backup.vm-instant-boot', wanted);
      await eventually(
        () => bench.progress.some((report) => report.id === id && report.phase === phase),
        (isThere) => isThere,
        60_000,
      );
      bench.kill();
      expect((await ended).error?.code).to.equal('INTERRUPTED');
      await bench.restart();
      if (!isCopy) return;
      // The copy has gone on, and its end is found.
      await bench.run('backup.vm-migrate', { restoreId, timeoutSeconds: 900 });
      expect(await state()).to.include({ isPermanent: true });
      expect(await bench.mounts()).to.deep.equal([]);
    });
  }

  it('of a machine that was killed keeps what it has written, and is migrated also while it does not run', async () => {
    const wanted = bench.wanted(older);
    const booted = await bench.run('backup.vm-instant-boot', wanted);
    const last = await grows(booted, await shown(booted));
    for (const { pid } of await bench.machines()) process.kill(pid, 'SIGKILL');
    await eventually(state, (found) => found?.state === 'stopped');
    await bench.run('backup.vm-migrate', { restoreId: wanted.restoreId, timeoutSeconds: 900 });
    expect(await state()).to.include({ state: 'stopped', isPermanent: true });
    expect((await numbersOn(path.join(booted.folder, 'disk0.qcow2'))).length).to.be.at.least(last);
  });

  it('is backed up as after a power cut if it ignores its power button, and nothing that it had written is lost', async () => {
    const wanted = bench.wanted(older);
    const { restoreId, repository } = wanted;
    const save = () => ({ restoreId, repository, jobId: randomUUID(), host: 'a host', timeoutSeconds: 900 });
    const booted = await bench.run('backup.vm-instant-boot', wanted);
    await grows(booted, 0);
    const { id, ended } = bench.send('backup.vm-save', save());
    await eventually(
      () => bench.progress.some((report) => report.id === id),
      (isThere) => isThere,
      60_000,
    );
    const from = performance.now();
    bench.cancel(id);
    expect((await ended).error?.code).to.equal('CANCELLED');
    expect(performance.now() - from).to.be.below(5000);
    const last = await grows(booted, await shown(booted));

    const saved = await bench.run('backup.vm-save', save());
    expect(await state()).to.include({ state: 'stopped' });
    const { snapshotId, details: image } = saved;
    if (snapshotId === null || image?.kind !== 'image') throw new Error('no image was made');
    expect(image).to.include({ source: 'kvm', consistency: 'crash', bootMode: 'bios' });
    const again = await bench.run('backup.vm-instant-boot', bench.wanted({ snapshotId, image }));
    expect(await served(again)).to.equal('older');
    expect(await shown(again)).to.be.at.least(last);
  });

  it('on a disk that is full waits, and goes on when there is room', async () => {
    const small = bench.at('small');
    await mkdir(small, { mode: 0o700 });
    execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=12m,mode=700', 'none', small]);
    try {
      const wanted = { ...bench.wanted(older), targetPath: small };
      const booted = await bench.run('backup.vm-instant-boot', wanted);
      await eventually(state, (found) => found?.state === 'faulty', BOOT_MS);
      execFileSync('mount', ['-o', 'remount,size=400m', small]);
      await bench.run('backup.vm-instant-boot', wanted);
      expect(await served(booted)).to.equal('older');
      await grows(booted, await shown(booted));
      await bench.run('backup.vm-discard', { restoreId: wanted.restoreId });
      expect(await readdir(small)).to.deep.equal([]);
    } finally {
      execFileSync('umount', ['-l', small]);
    }
  });

  it('refuses disks that are not if they are said to be, and folders that others can change', async () => {
    const wanted = bench.wanted(older);
    const [first] = wanted.image.disks;
    const misplaced = { ...wanted.image, disks: [{ ...first!, offset: first!.offset + 512 }] };
    for (const image of [misplaced, { ...wanted.image, disks: [{ ...first!, sizeBytes: 2 ** 52 }] }]) {
      expect((await bench.failure('backup.vm-instant-boot', { ...wanted, image })).code).to.equal(
        'IMAGE_UNUSABLE',
      );
    }
    const open = await mkdtemp(path.join(tmpdir(), 'muster-open-'));
    try {
      execFileSync('chmod', ['777', open]);
      const unsafe = await bench.failure('backup.vm-instant-boot', { ...wanted, targetPath: open });
      expect(unsafe.code).to.equal('TARGET_UNSAFE');
    } finally {
      await rm(open, { recursive: true });
    }
    await expectNothingLeft();
  });

  it('becomes a machine with disks of its own if time does not matter', async () => {
    const wanted = {
      ...bench.wanted(older),
      diskSizeGb: 2,
      format: 'qcow2',
      start: true,
      timeoutSeconds: 900,
    };
    const made = await bench.run('backup.vm-from-image', wanted);
    expect(made.disks[0]).to.include({ name: 'disk0.qcow2', sizeBytes: 2 * 1024 ** 3 });
    expect(made.disks[0]!.storedBytes).to.be.below(1024 ** 3);
    expect(made.warnings).to.deep.equal([]);
    expect(await served(made)).to.equal('older');
    expect((await stat(made.console ?? '')).isSocket()).to.equal(true);
    expect(await readFile(path.join(made.folder, 'qemu.log'), 'utf8')).to.equal('');
  });

  it('answers about as soon as the same disk without Muster', async () => {
    const copy = bench.at('plain.raw');
    await changeGuest(disk, { '/srv/www/index.html': 'older' });
    const times: [ours: number, plain: number][] = [];
    for (let pair = 0; pair < 3; pair += 1) {
      let from = performance.now();
      const wanted = bench.wanted(older);
      const booted = await bench.run('backup.vm-instant-boot', wanted);
      while ((await page(booted)) === undefined) await delay(100);
      const ours = (performance.now() - from) / 1000;
      await bench.run('backup.vm-discard', { restoreId: wanted.restoreId });
      await run('cp', ['--sparse=always', disk, copy]);
      from = performance.now();
      const plain = await startGuest({ disk: copy, firmware: 'bios', memoryMib: 512 });
      await plain.page();
      times.push([ours, (performance.now() - from) / 1000]);
      await plain.stop();
    }
    const median = (values: number[]) => values.sort((a, b) => a - b)[Math.floor(values.length / 2)] ?? 0;
    const [ours, plain] = [median(times.map(([each]) => each)), median(times.map(([, each]) => each))];
    // oxlint-disable-next-line no-console -- the figures are what this is about
    console.log(`      ${ours.toFixed(1)} s and ${plain.toFixed(1)} s: ${(ours / plain).toFixed(2)}`, times);
  });
});
