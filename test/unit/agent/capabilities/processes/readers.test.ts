import { expect } from 'chai';
import { LINUX_PROCESSES, parseStat } from '../../../../../src/agent/os/processes/linux.ts';
import {
  parseDetails,
  parseIdentified,
  parseProcesses,
} from '../../../../../src/agent/os/processes/macos.ts';
import { largest, withAncestors } from '../../../../../src/agent/os/processes/process-reader.ts';
import { parseWindowsDetails, parseWindowsProcesses } from '../../../../../src/agent/os/processes/windows.ts';
import { describeRecorded } from '../../../../support/recorded.ts';
import { recordedSources } from '../inventory/recorded-sources.ts';

const KIB = 1024;
const BOOT = { pageBytes: 4096, bootedAt: Date.parse('2026-11-20T08:00:00.000Z') };

describeRecorded('linux/proc', 'processes in recorded lines of /proc', ({ text }) => {
  it('are read whatever their name holds', () => {
    for (const file of [
      'jc-pid_stat.txt',
      'jc-pid_stat_hack.txt',
      'jc-pid_stat_w_space_and_nl_in_comm.txt',
    ]) {
      const process = parseStat(text(file), BOOT);
      expect(process, file).to.be.an('object');
      expect(process?.pid, file).to.be.above(0);
      expect(process?.ramBytes, file).to.be.at.least(0);
      expect(process?.startedAt, file).to.be.at.least(BOOT.bootedAt);
    }
    expect(parseStat(text('jc-pid_stat_w_space_and_nl_in_comm.txt'), BOOT)?.name).to.include('\n');
  });
});

describe('the processes of Linux', () => {
  const stat = (
    pid: number,
    name: string,
    { state = 'S', parent = 1, start = 100, flags = 4_194_304 } = {},
  ) => `${pid} (${name}) ${state} ${parent} 1 1 0 -1 ${flags} 1 0 0 0 250 50 0 0 20 0 1 0 ${start} 1000 10 0`;
  const machine = (files: Record<string, string>) =>
    recordedSources({
      os: 'linux',
      files: { '/proc/stat': 'cpu 1\nbtime 1795161600\n', ...files },
      written: { '/proc': { self: 0, '1': 0, '7': 0, '8': 0, '9': 0, cpuinfo: 0 } },
    });

  it('are read from /proc; one that has ended meanwhile is left out', async () => {
    const sources = machine({
      '/proc/1/stat': stat(1, 'systemd', { parent: 0 }),
      '/proc/7/stat': stat(7, ') S 1 1 (x', { state: 'Z' }),
      '/proc/8/stat': stat(8, 'kworker/0:1', { parent: 2, state: 'I', flags: 69_238_880 }),
      '/proc/self/statm': '100 40 5',
      '/proc/self/status': 'VmRSS:\t     640 kB\n',
    });
    const all = await LINUX_PROCESSES.read(sources);
    expect(sources.calls).to.deep.equal([]);
    expect(all.map(({ pid, name, state, isCritical }) => [pid, name, state, isCritical])).to.deep.equal([
      [1, 'systemd', 'sleeping', true],
      [7, ') S 1 1 (x', 'zombie', undefined],
      [8, 'kworker/0:1', 'sleeping', true],
    ]);
    // Ten pages of 16 KiB, of a machine whose pages are larger.
    expect(all[0]).to.deep.include({
      cpuSeconds: 3,
      ramBytes: 163_840,
      startedAt: 1_795_161_601_000,
      parentPid: 0,
    });
  });

  it('have a user and a command line; one that waits for a disk is not asked for it', async () => {
    const sources = machine({
      '/proc/7/status': 'Name:\tx\nUid:\t0\t33\t0\t0\n',
      '/proc/7/cmdline': '/usr/sbin/some-long-program\0--name\0a b\0\0',
      '/proc/8/status': 'Uid:\t4242\t4242\t4242\t4242\n',
      '/proc/8/cmdline': 'never read\0',
      '/etc/passwd': 'root:x:0:0::/root:/bin/sh\nwww-data:x:33:33::/var/www:/bin/false\nbroken\n',
    });
    const process = { parentPid: 1, cpuSeconds: 0, ramBytes: 0, startedAt: 0 };
    const details = await LINUX_PROCESSES.details(sources, [
      { ...process, pid: 7, name: 'some-long-progr', state: 'sleeping' },
      { ...process, pid: 8, name: 'stuck', state: 'waiting' },
      { ...process, pid: 9, name: 'gone' },
    ]);
    expect(details.get(7)).to.deep.equal({
      commandLine: '/usr/sbin/some-long-program --name a b',
      user: 'www-data',
      name: 'some-long-program',
    });
    expect(details.get(8)).to.deep.equal({ user: '4242' });
    expect(details.get(9)).to.deep.equal({});
  });

  it('that cannot be read are an error, and not a machine without processes', async () => {
    const failure = await LINUX_PROCESSES.read(machine({})).catch((error: unknown) => String(error));
    expect(failure).to.include('/proc lists no processes');
  });

  it('of damaged lines are left out', () => {
    for (const line of ['', '12', '12 (x', '12 (x) S', '12 (x) S 1 2 three', `x (y) ${'1 '.repeat(40)}`]) {
      expect(parseStat(line, BOOT), line).to.equal(undefined);
    }
  });
});

describe('the processes of macOS', () => {
  it('are read with their parents, states and starts', () => {
    const output = `    1 11264   9:01.50     0 Ss   Sat Nov 28 09:12:44 2026 /sbin/launchd
  812 10240  62:03.04     1 U    Sun Nov  1 09:12:44 2026 /usr/libexec/some daemon
 nonsense
`;
    const [launchd, daemon] = parseIdentified(output);
    expect(launchd).to.deep.include({ pid: 1, name: 'launchd', cpuSeconds: 541.5, isCritical: true });
    expect(daemon).to.deep.equal({
      pid: 812,
      parentPid: 1,
      name: 'some daemon',
      cpuSeconds: 3723.04,
      ramBytes: 10_240 * KIB,
      startedAt: new Date(2026, 10, 1, 9, 12, 44).getTime(),
      state: 'waiting',
    });
    expect(parseDetails('  812 _www /usr/libexec/some daemon --flag\n').get(812)).to.deep.equal({
      user: '_www',
      commandLine: '/usr/libexec/some daemon --flag',
    });
    expect(parseProcesses('  812 10240 62:03.04 /usr/libexec/x\n')[0]).to.deep.include({ name: 'x' });
  });
});

/** In the form that `ConvertTo-Json` prints; not recorded on a Windows machine. */
describe('the processes of Windows', () => {
  it('are read from the answer of PowerShell, and those that Windows needs are known', () => {
    const output = JSON.stringify([
      { id: 0, parent: 0, name: 'System Idle Process', ram: 8192, kernel: 9e12, user: 0, start: null },
      { id: 4, parent: 0, name: 'System', ram: 147_456, kernel: 5e9, user: 0, start: null },
      {
        id: 620,
        parent: 512,
        name: 'csrss.exe',
        ram: 5_000_000,
        kernel: 1e7,
        user: 0,
        start: '2026-11-20T08:00:00.1234567Z',
      },
      {
        id: 4711,
        parent: 620,
        name: 'notepad.exe',
        ram: 9_000_000,
        kernel: 1e7,
        user: 2e7,
        start: '2026-11-20T08:00:01.0000000Z',
      },
    ]);
    const all = parseWindowsProcesses(output);
    expect(all.map(({ pid, isCritical }) => [pid, isCritical])).to.deep.equal([
      [4, true],
      [620, true],
      [4711, undefined],
    ]);
    expect(all[2]).to.deep.equal({
      pid: 4711,
      parentPid: 620,
      name: 'notepad.exe',
      cpuSeconds: 3,
      ramBytes: 9_000_000,
      startedAt: Date.parse('2026-11-20T08:00:01.000Z'),
    });
    expect(
      parseWindowsDetails(
        JSON.stringify([
          { id: 4711, user: 'DESK\\ada', line: 'notepad.exe a.txt' },
          { id: 4, user: null, line: '' },
        ]),
      ),
    ).to.deep.equal(
      new Map([
        [4711, { user: 'DESK\\ada', commandLine: 'notepad.exe a.txt' }],
        [4, {}],
      ]),
    );
  });
});

describe('of many processes', () => {
  it('those that use the most are kept, by processor and by memory', () => {
    const all = Array.from({ length: 10_000 }, (_, pid) => ({
      pid,
      cpuPercent: pid === 5000 ? 90 : 0,
      ramBytes: pid === 7000 ? 2 ** 33 : pid,
    }));
    const kept = largest(all, 1000);
    expect(kept).to.have.length(1000);
    expect(kept[0]?.pid).to.equal(5000);
    expect(kept.some(({ pid }) => pid === 7000)).to.equal(true);
    expect(largest(all.slice(0, 3), 1000)).to.have.length(3);
  });

  it('the ancestors of one are found, also if they name each other', () => {
    const of = (pid: number, parentPid: number) => ({
      pid,
      parentPid,
      name: '',
      cpuSeconds: 0,
      ramBytes: 0,
      startedAt: 0,
    });
    expect([...withAncestors(30, [of(1, 0), of(20, 1), of(30, 20), of(40, 1)])]).to.deep.equal([30, 20, 1]);
    expect([...withAncestors(30, [of(20, 30), of(30, 20)])]).to.deep.equal([30, 20]);
    // Another process has got the number of a parent that has ended.
    const later = { ...of(20, 1), startedAt: 10_000 };
    expect([...withAncestors(30, [of(1, 0), later, of(30, 20)])]).to.deep.equal([30]);
  });
});
