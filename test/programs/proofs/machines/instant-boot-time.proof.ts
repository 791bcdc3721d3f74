import { performance } from 'node:perf_hooks';
import { expect } from 'chai';
import { eventually } from '../../../support/eventually.ts';
import { buildGuestDisk } from './guest-disk.ts';
import { type MachineBench, openMachineBench } from './kvm/machine-bench.ts';
import { needsMachines, startGuest } from './run-guest.ts';

/**
 * What an instant boot costs: the time from the request to the first page that the guest serves, beside that of the same
 * disk in qemu without Muster, in turns. `MUSTER_TEST_PAIRS` (5) says how often. Nothing else should run on the machine:
 * the processor of the guest is emulated.
 */

const PAIRS = Number(process.env['MUSTER_TEST_PAIRS'] ?? 5);
/** Issue 20. */
const AT_MOST = 1.3;
const BOOT_MS = 300_000;

describe('the time of an instant boot', function () {
  this.timeout(PAIRS * 4 * BOOT_MS);
  let bench: MachineBench;
  let disk: string;
  let stored: Awaited<ReturnType<MachineBench['store']>>;

  before(async function () {
    needsMachines(this);
    bench = await openMachineBench();
    disk = bench.at('disk.raw');
    await buildGuestDisk(disk, { page: 'here', sizeMib: 1024 });
    stored = await bench.store([disk]);
  });
  after(async () => bench?.close());

  async function withoutMuster(): Promise<number> {
    const before = performance.now();
    const guest = await startGuest({
      disk,
      firmware: 'bios',
      isReadOnly: true,
      // As Muster starts it.
      args: ['-machine', 'q35', '-cpu', 'max', '-smp', '1', '-vga', 'std', '-device', 'virtio-rng-pci'],
    });
    try {
      await guest.page(BOOT_MS);
      return performance.now() - before;
    } finally {
      await guest.stop();
    }
  }

  async function instantly(): Promise<number> {
    const wanted = bench.wanted(stored);
    const before = performance.now();
    const { forwards } = await bench.run('backup.vm-instant-boot', wanted);
    try {
      await eventually(
        () =>
          fetch(`http://127.0.0.1:${forwards[0]?.hostPort}/`, { signal: AbortSignal.timeout(5000) }).then(
            (answer) => answer.text(),
            () => '',
          ),
        (text) => text !== '',
        BOOT_MS,
      );
      return performance.now() - before;
    } finally {
      await bench.run('backup.vm-discard', { restoreId: wanted.restoreId });
    }
  }

  it(`is at most ${AT_MOST} of that of the disk itself`, async () => {
    const ratios: number[] = [];
    for (let pair = 0; pair < PAIRS; pair++) {
      const inTurn = pair % 2 === 0;
      const first = await (inTurn ? withoutMuster() : instantly());
      const second = await (inTurn ? instantly() : withoutMuster());
      const [plain, instant] = inTurn ? [first, second] : [second, first];
      ratios.push(instant / plain);
      // oxlint-disable-next-line no-console -- the figures are what this is about
      console.log(
        `      ${(plain / 1000).toFixed(1)} s without Muster, ${(instant / 1000).toFixed(1)} s with it: ${(instant / plain).toFixed(2)}`,
      );
    }
    const median = ratios.sort((one, other) => one - other)[Math.floor(PAIRS / 2)];
    expect(median).to.be.at.most(AT_MOST);
  });
});
