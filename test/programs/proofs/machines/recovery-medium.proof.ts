import { type ChildProcess, spawn } from 'node:child_process';
import { copyFile, mkdtemp, open, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { expect } from 'chai';
import { buildRecovery } from '../../../../src/packaging/build-recovery-medium.ts';
import { type BackupTenant, buildBackupTenant } from '../../../support/backup/backup-support.ts';
import { type RealDevice, realDevice } from '../../features/backup/backup-devices.ts';
import { createStoreApp } from '../../../support/backup/store-support.ts';
import { builtAgent } from '../../../support/built-agent.ts';
import { eventually } from '../../../support/eventually.ts';
import { needsRestic } from '../../../support/restic.ts';
import type { TestApp } from '../../../support/test-app.ts';
import { buildGuestDisk, type GuestDisk } from './guest-disk.ts';
import { needsMachines, startGuest } from './run-guest.ts';

/**
 * The whole way of a machine whose disk is new and empty: it is started from the recovery medium, a person types the command
 * at its serial console, and afterwards it starts from its own disk. Everything in it is emulated, which takes minutes.
 * `MUSTER_TEST_RECOVERY_ROOT` names a root that debootstrap has made before.
 */

/** Of the machine that runs this test, as qemu shows it to the guest. */
const HOST_IN_GUEST = '10.0.2.2';
const BOOT_MS = 600_000;
const RECOVERY_MS = 1_800_000;
const MEMORY_MIB = 2048;
const OVMF = '/usr/share/OVMF';
/** Leads to the second entry of the menu, whose shell is on the serial port. */
const CTRL_N = '\u000E';
/** A console that has just been shown takes keys a moment later, as people do. */
const A_MOMENT_MS = 2000;

describe('the recovery medium', function () {
  this.timeout(3_600_000);
  let app: TestApp & { dataDir: string };
  let tenant: BackupTenant;
  let device: RealDevice;
  let folder: string;
  let guest: GuestDisk;
  let medium: string;
  let snapshotId: string;

  before(async function () {
    needsRestic(this);
    needsMachines(this);
    folder = await mkdtemp(path.join(tmpdir(), 'muster-medium-'));
    const { program } = await builtAgent();
    medium = await buildRecovery({
      agent: program,
      out: folder,
      root: process.env['MUSTER_TEST_RECOVERY_ROOT'],
      report: () => undefined,
    });
    guest = await buildGuestDisk(path.join(folder, 'disk.raw'), { page: 'back from the fire' });
    app = await createStoreApp();
    tenant = await buildBackupTenant(app);
    device = await realDevice(app, tenant.orgId);
    await tenant.createConfig({ sources: { kind: 'image', disks: [guest.file] }, isDefault: true });
    await device.start();
    await eventually(
      () => read(`/devices/${device.deviceId}`),
      ({ status }) => status === 'online',
      60_000,
    );
    const { body } = await tenant.send('POST', `/backup/jobs/run/${device.deviceId}`, {});
    const job = await eventually(
      () => read(`/backup/jobs/${body.id}`),
      ({ finishedAt }) => finishedAt !== null,
      300_000,
    );
    expect(job).to.include({ status: 'completed', error: null });
    ({ snapshotId } = job);
  });
  after(async () => {
    await device?.close();
    await app?.close();
    if (folder !== undefined) await rm(folder, { recursive: true, force: true });
  });

  const read = async (where: string) => (await tenant.send('GET', where)).body;

  it('recovers an empty disk that then starts by itself', async () => {
    const disk = path.join(folder, 'new.raw');
    const empty = await open(disk, 'w');
    await empty.truncate(guest.sizeBytes);
    await empty.close();
    const { body: given } = await tenant.send('POST', '/backup/bmr/token', { snapshotId });
    const machine = await startFromMedium(medium, disk, folder);
    const begunAt = Date.now();
    try {
      await machine.shows('(serial console)', BOOT_MS);
      await machine.type(CTRL_N);
      await machine.type('\r');
      await machine.shows('muster-agent recover --server', BOOT_MS);
      const startedAt = Date.now();
      const server = `http://${HOST_IN_GUEST}:${new URL(app.url).port}`;
      await machine.type(
        `muster-agent recover --server ${server} --insecure-http --token - --target /dev/vda\r`,
      );
      await machine.shows('not encrypted', BOOT_MS);
      await machine.type(`${given.token}\r`);
      const token = await eventually(
        () => read(`/backup/bmr/token/${given.id}`),
        ({ result }) => result !== null,
        RECOVERY_MS,
      );
      expect(token.status, machine.console()).to.equal('used');
      expect(token.result.validated, JSON.stringify(token.result)).to.equal(true);
      // oxlint-disable-next-line no-console -- the figures of the proof
      console.log(
        `      started in ${seconds(startedAt - begunAt)} s, recovered in ${seconds(Date.now() - startedAt)} s`,
      );
    } finally {
      await machine.stop();
    }
    const own = await startGuest({ disk, firmware: 'uefi', isReadOnly: true });
    try {
      expect(await own.page()).to.equal('back from the fire');
    } finally {
      await own.stop();
    }
  });
});

const seconds = (ms: number) => Math.round(ms / 1000);

interface Machine {
  /** Resolves when the serial console has shown the text. */
  shows(text: string, withinMs: number): Promise<void>;
  type(text: string): Promise<void>;
  console(): string;
  stop(): Promise<void>;
}

async function startFromMedium(medium: string, disk: string, folder: string): Promise<Machine> {
  const variables = path.join(folder, 'vars.fd');
  await copyFile(`${OVMF}/OVMF_VARS.fd`, variables);
  const child: ChildProcess = spawn(
    'qemu-system-x86_64',
    [
      `-accel tcg,thread=multi -smp 2 -cpu max -m ${MEMORY_MIB}`,
      '-display none -no-reboot -serial stdio -monitor none',
      `-drive if=pflash,format=raw,file=${OVMF}/OVMF_CODE.fd,readonly=on`,
      `-drive if=pflash,format=raw,file=${variables}`,
      `-drive if=virtio,format=raw,file=${disk}`,
      `-cdrom ${medium} -boot d`,
      '-netdev user,id=n -device virtio-net-pci,netdev=n',
    ].flatMap((words) => words.split(' ')),
    { stdio: ['pipe', 'pipe', 'pipe'] },
  );
  let shown = '';
  const add = (text: string) => (shown += text);
  child.stdout?.setEncoding('utf8').on('data', add);
  child.stderr?.setEncoding('utf8').on('data', add);
  child.once('error', (error) => add(error.message));
  const ended = new Promise<void>((resolve) => child.once('close', () => resolve()));
  return {
    async shows(text, withinMs) {
      const until = Date.now() + withinMs;
      while (!shown.includes(text)) {
        if (Date.now() > until || child.exitCode !== null) {
          throw new Error(`The machine has not shown "${text}": ${JSON.stringify(shown.slice(-2000))}`);
        }
        await delay(200);
      }
    },
    async type(text) {
      await delay(A_MOMENT_MS);
      child.stdin?.write(text);
    },
    console: () => shown,
    async stop() {
      child.kill('SIGKILL');
      await ended;
    },
  };
}
