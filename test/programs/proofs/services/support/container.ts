import { execFile, spawn, spawnSync } from 'node:child_process';
import { readFile, rm } from 'node:fs/promises';
import type { Context } from 'mocha';
import { debianRoot, type Init } from '../../../../support/debian-root.ts';
import { eventually } from '../../../../support/eventually.ts';
import { skipWithout } from '../../../../support/skip-without.ts';

/**
 * A machine with a service manager of its own: a container whose first process is a real init. It shares the network of
 * this machine, so that it reaches a server that listens on loopback only.
 */
export interface Container {
  /** Runs a line of shell as root, in the container. */
  run(line: string): Promise<{ code: number; output: string }>;
  /** The output of a line that succeeds. */
  ok(line: string): Promise<string>;
  /** Resolves when the services have started again. */
  reboot(): Promise<void>;
  close(): Promise<void>;
}

/** What starts the machine, and how to know that it has started and how to restart it. */
export const BOOTS = {
  systemd: {
    root: 'systemd',
    words: ['--boot'],
    isUp: 'systemctl is-system-running | grep -Eqx "running|degraded"',
    reboot: 'systemctl reboot',
  },
  'OpenRC, started by the init of System V': {
    root: 'openrc',
    words: ['/sbin/init'],
    isUp: '[ "$(cat /run/openrc/softlevel)" = default ] && [ ! -e /run/openrc/rc.starting ]',
    reboot: 'shutdown -r now',
  },
  'OpenRC, started by openrc-init': {
    root: 'openrc',
    words: ['/sbin/openrc-init'],
    isUp: '[ "$(cat /run/openrc/softlevel)" = default ] && [ ! -e /run/openrc/rc.starting ]',
    reboot: 'openrc-shutdown --reboot now',
  },
  'OpenRC that is installed and has not started the machine': {
    root: 'openrc',
    words: ['--as-pid2', 'sleep', 'infinity'],
    isUp: 'true',
    reboot: 'false',
  },
  'no service manager': {
    root: 'none',
    words: ['--as-pid2', 'sleep', 'infinity'],
    isUp: 'true',
    reboot: 'false',
  },
} satisfies Record<string, { root: Init; words: string[]; isUp: string; reboot: string }>;
export type Boot = keyof typeof BOOTS;

/**
 * Prints what an agent has left behind. Logs of the system, and a pipe that a killed supervise-daemon leaves until the
 * next start, are not the agent's.
 */
export const TRACES = `
  find / -xdev \\( -path /proc -o -path /sys -o -path /dev -o -path /var/log \\) -prune -o -iname '*muster*' -print
  find /run -iname '*muster*' ! -name 'supervise-*.ctl'
  grep -rIl muster /etc /opt /var/lib /usr/local /root 2>/dev/null
  pgrep -a -f '^(/opt/muster/|supervise-daemon muster|muster)'`;

const PROGRAMS = ['systemd-nspawn', 'debootstrap', 'nsenter', 'setpriv'];
const BOOT_MS = 60_000;
const LINE_MS = 180_000;

/** Skips visibly without them: `apt-get install systemd-container debootstrap`. */
export function needsContainers(test: Context): void {
  const isThere = (name: string) =>
    spawnSync('sh', ['-c', `PATH=$PATH:/usr/sbin:/sbin command -v ${name}`]).status === 0;
  const isRoot = process.getuid?.() === 0;
  skipWithout(test, isRoot && PROGRAMS.every(isThere), 'root, and systemd-container and debootstrap');
}

/** @param readOnly  a folder that cannot be written to, whoever tries */
export async function startContainer(boot: Boot, readOnly?: string): Promise<Container> {
  const { isUp, reboot, root: init } = BOOTS[boot];
  const root = await debianRoot(init);
  const words = [
    ...(readOnly === undefined ? [] : [`--bind-ro=${root}${readOnly}:${readOnly}`]),
    ...BOOTS[boot].words,
  ];
  let running = startNspawn(root, words);

  const run: Container['run'] = async (line) => {
    const first = await firstProcess(running.pid);
    if (first === undefined) return { code: -1, output: `The container does not run:\n${running.console()}` };
    return inside(first, line);
  };
  const isReady = async () =>
    eventually(
      async () => run(`{ ${isUp}; } 2>/dev/null`),
      ({ code }) => code === 0,
      BOOT_MS,
    ).catch((error: unknown) => {
      throw new Error(`${boot} has not started: ${String(error)}\n${running.console()}`);
    });
  const close = async () => {
    const first = await firstProcess(running.pid);
    if (first !== undefined) process.kill(first, 'SIGKILL');
    await running.ended;
    await rm(root, { recursive: true, force: true });
  };
  try {
    await isReady();
  } catch (error) {
    await close();
    throw error;
  }
  return {
    run,
    close,
    async ok(line) {
      const { code, output } = await run(line);
      if (code !== 0) throw new Error(`${line} ended with ${code}:\n${output}`);
      return output;
    },
    async reboot() {
      await run(`${reboot} >/dev/null 2>&1`);
      const code = await running.ended;
      if (code !== REBOOTED) throw new Error(`${boot} ended with ${code}:\n${running.console()}`);
      running = startNspawn(root, words);
      await isReady();
    },
  };
}

interface RunningNspawn {
  pid: number;
  /** The end of what it has printed. */
  console(): string;
  ended: Promise<number | null>;
}

/** The exit code of systemd-nspawn for a container that has asked to be restarted. */
const REBOOTED = 133;

function startNspawn(root: string, words: readonly string[]): RunningNspawn {
  const options = [`--directory=${root}`, '--register=no', '--keep-unit', '--console=pipe'];
  // The container ends with this process, however that ends.
  const child = spawn('setpriv', ['--pdeathsig=SIGKILL', 'systemd-nspawn', ...options, ...words], {
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let printed = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream.on('data', (chunk) => {
      printed = (printed + String(chunk)).slice(-8000);
    });
  }
  const ended = new Promise<number | null>((resolve) => {
    child.once('error', () => resolve(null));
    child.once('close', resolve);
  });
  return { pid: child.pid ?? 0, console: () => printed, ended };
}

/** The process that is number 1 in the container, by its number on this machine. */
async function firstProcess(nspawn: number): Promise<number | undefined> {
  const children = await readFile(`/proc/${nspawn}/task/${nspawn}/children`, 'utf8').catch(() => '');
  for (const pid of children.trim().split(' ')) {
    const status = await readFile(`/proc/${pid}/status`, 'utf8').catch(() => '');
    if (/^NSpid:\s+\d+\s+1$/m.test(status)) return Number(pid);
  }
  return undefined;
}

function inside(pid: number, line: string): Promise<{ code: number; output: string }> {
  const namespaces = ['-t', String(pid), '-m', '-u', '-i', '-p', '-r', '-w'];
  const environment = [
    'env',
    '-i',
    'HOME=/root',
    'PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin',
  ];
  return new Promise((resolve) => {
    execFile(
      'nsenter',
      [...namespaces, ...environment, 'sh', '-c', `exec 2>&1\n${line}`],
      { timeout: LINE_MS },
      (error, output) =>
        resolve({ code: typeof error?.code === 'number' ? error.code : error === null ? 0 : -1, output }),
    );
  });
}
