import { expect } from 'chai';
import * as linux from '../../../../../src/agent/capabilities/metrics/linux.ts';
import {
  figuresBetween,
  type MachineReading,
} from '../../../../../src/agent/capabilities/metrics/machine-reading.ts';
import * as macos from '../../../../../src/agent/capabilities/metrics/macos.ts';
import { parseVolumes } from '../../../../../src/agent/capabilities/metrics/unix.ts';
import { parseProcesses } from '../../../../../src/agent/os/processes/macos.ts';
import { parseWindowsReading } from '../../../../../src/agent/capabilities/metrics/windows.ts';

const KIB = 1024;
const MACHINE = { processors: 4, ramBytes: 1000 };
const reading = (more: Partial<MachineReading> = {}): MachineReading => ({ counters: {}, ...more });

describe('the figures between two readings of a machine', () => {
  it('are rates of what was counted', () => {
    const figures = figuresBetween(
      reading({ counters: { networkReceived: 1000, networkSent: 0, diskRead: 5, diskWritten: 10 } }),
      reading({ counters: { networkReceived: 61_000, networkSent: 0, diskRead: 5, diskWritten: 610 } }),
      60_000,
      MACHINE,
    );
    expect(figures).to.deep.equal({
      networkReceivedPerSecond: 1000,
      networkSentPerSecond: 0,
      diskReadPerSecond: 0,
      diskWrittenPerSecond: 10,
    });
  });

  it('leave out what could not be read, and what began anew', () => {
    const figures = figuresBetween(
      reading({ counters: { networkReceived: 1000, diskRead: 5 } }),
      reading({ counters: { networkReceived: 10, networkSent: 4 } }),
      60_000,
      MACHINE,
    );
    expect(Object.values(figures).every((value) => value === undefined)).to.equal(true);
  });

  it('are none across a time in which the machine was asleep', () => {
    const counters = { networkReceived: 1 };
    expect(figuresBetween(reading({ counters }), reading({ counters }), 3_600_000, MACHINE)).to.deep.equal(
      {},
    );
    expect(figuresBetween(reading({ counters }), reading({ counters }), 0, MACHINE)).to.deep.equal({});
  });

  it('name the five busiest processes, and none that uses little', () => {
    const all = Array.from({ length: 9 }, (_, pid) => ({ pid, name: `p${pid}`, cpuSeconds: 0, ramBytes: 0 }));
    const later = all.map((one) => ({ ...one, cpuSeconds: one.pid * 8, ramBytes: one.pid === 0 ? 300 : 5 }));
    const { processes } = figuresBetween(
      reading({ processes: all }),
      reading({ processes: later }),
      60_000,
      MACHINE,
    );
    expect(processes?.map((one) => [one?.process, one?.cpuPercent, one?.ramPercent])).to.deep.equal(
      [
        ['p0', 0, 30],
        ['p8', 26.7, 0.5],
        ['p7', 23.3, 0.5],
        ['p6', 20, 0.5],
        ['p5', 16.7, 0.5],
      ].toSorted((a, b) => Number(b[1]) + Number(b[2]) - Number(a[1]) - Number(a[2])),
    );
  });

  it('do not take a process for another one that had its number', () => {
    const before = [{ pid: 7, name: 'old', cpuSeconds: 0, ramBytes: 0 }];
    const after = [{ pid: 7, name: 'new', cpuSeconds: 200, ramBytes: 0 }];
    const figures = figuresBetween(
      reading({ processes: before }),
      reading({ processes: after }),
      60_000,
      MACHINE,
    );
    expect(figures.processes).to.equal(undefined);
  });
});

describe('what Linux and macOS print', () => {
  it('of processes', () => {
    const output = `    1 11264 00:00:09 systemd
  812 10240 1-02:03:04 postgres
  900   512    62:03.04 /usr/libexec/some daemon
 nonsense
`;
    expect(parseProcesses(output)).to.deep.equal([
      { pid: 1, name: 'systemd', cpuSeconds: 9, ramBytes: 11_264 * KIB },
      { pid: 812, name: 'postgres', cpuSeconds: 93_784, ramBytes: 10_240 * KIB },
      { pid: 900, name: 'some daemon', cpuSeconds: 3723.04, ramBytes: 512 * KIB },
    ]);
  });

  it('of volumes: each device once', () => {
    const output = `Filesystem     1024-blocks     Used Available Capacity Mounted on
/dev/sda1           102400    51200     46080      53% /
tmpfs                 4096        0      4096       0% /run
/dev/sda1           102400    51200     46080      53% /var/snap
/dev/sdb1           204800     1024    193536       1% /media/my disk
`;
    expect(parseVolumes(output, (device) => device.startsWith('/dev/'))).to.deep.equal([
      { volume: '/', usedBytes: 51_200 * KIB, totalBytes: 102_400 * KIB },
      { volume: '/media/my disk', usedBytes: 1024 * KIB, totalBytes: 204_800 * KIB },
    ]);
  });

  it('on Linux: of networks, disks and swap', () => {
    const network = `Inter-|   Receive                  |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed
    lo: 2048 1 0 0 0 0 0 0 2048 1 0 0 0 0 0 0
  eth0: 100 1 0 0 0 0 0 0 200 1 0 0 0 0 0 0
docker0: 7 1 0 0 0 0 0 0 7 1 0 0 0 0 0 0
 wlan0:10 1 0 0 0 0 0 0 20 1 0 0 0 0 0 0
`;
    expect(linux.networkBytes(network)).to.deep.equal({ networkReceived: 110, networkSent: 220 });
    const disks = `   8       0 sda 10 0 100 0 20 0 200 0 0 0 0
   8       1 sda1 10 0 100 0 20 0 200 0 0 0 0
   7       0 loop0 1 0 1 0 0 0 0 0 0 0 0
 259       0 nvme0n1 1 0 1 0 2 0 2 0 0 0 0
`;
    expect(linux.diskBytes(disks)).to.deep.equal({ diskRead: 101 * 512, diskWritten: 202 * 512 });
    expect(linux.swapPercent('SwapTotal:  1000 kB\nSwapFree:  750 kB\n')).to.equal(25);
    expect(linux.swapPercent('SwapTotal:  0 kB\nSwapFree:  0 kB\n')).to.equal(undefined);
    expect([linux.networkBytes(''), linux.diskBytes(''), linux.swapPercent('')]).to.deep.equal([
      {},
      {},
      undefined,
    ]);
  });

  it('on macOS: of networks, disks and swap', () => {
    const network = `Name       Mtu   Network       Address            Ipkts Ierrs     Ibytes    Opkts Oerrs     Obytes  Coll
lo0        16384 <Link#1>                         5     0        900        5     0        900     0
en0        1500  <Link#4>      aa:bb:cc:dd:ee:ff  7     0       1000        8     0       2000     0
en0        1500  192.168.1     192.168.1.20       7     -       1000        8     -       2000     -
en1        1500  <Link#5>                         1     0         10        1     0         20     0
`;
    expect(macos.networkBytes(network)).to.deep.equal({ networkReceived: 1010, networkSent: 2020 });
    const disks = `"Statistics" = {"Operations (Write)"=3,"Bytes (Read)"=1024,"Bytes (Write)"=512}
"Statistics" = {"Bytes (Read)"=1,"Bytes (Write)"=2}`;
    expect(macos.diskBytes(disks)).to.deep.equal({ diskRead: 1025, diskWritten: 514 });
    expect(macos.swapPercent('total = 2048.00M  used = 512.00M  free = 1536.00M  (encrypted)')).to.equal(25);
    expect(macos.swapPercent('total = 0.00M  used = 0.00M  free = 0.00M')).to.equal(undefined);
  });

  it('on Windows: one answer of PowerShell, in which a part may be missing', () => {
    const whole = parseWindowsReading(
      JSON.stringify({
        volumes: [{ name: 'C:', size: 1000, free: 400 }],
        swap: [{ size: 200, used: 50 }],
        networks: [{ received: '10', sent: 20 }],
        read: 5,
        written: 6,
        processes: [{ id: 8, name: 'sqlservr', cpu: 12.5, ram: 100 }],
      }),
    );
    expect(whole).to.deep.equal({
      counters: { networkReceived: 10, networkSent: 20, diskRead: 5, diskWritten: 6 },
      swapPercent: 25,
      volumes: [{ volume: 'C:', usedBytes: 600, totalBytes: 1000 }],
      processes: [{ pid: 8, name: 'sqlservr', cpuSeconds: 12.5, ramBytes: 100 }],
    });
    const { counters, ...rest } = parseWindowsReading('{"volumes":"none","networks":[],"read":null}');
    expect(
      [...Object.values(counters), ...Object.values(rest)].every((value) => value === undefined),
    ).to.equal(true);
  });
});
