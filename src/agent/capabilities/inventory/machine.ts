import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import os from 'node:os';
import { promisify } from 'node:util';
import type { Architecture, EnrollRequest, Heartbeat, Metrics } from '../../../protocol/index.ts';
import { diskSpace } from '../../os/machine/disk-space.ts';
import { gatherFacts } from './gather.ts';
import { machineSources } from './sources.ts';
import { osType } from '../../os/machine/os-type.ts';
import { systemProgram } from '../../os/processes/system-program.ts';
import { AGENT_VERSION } from '../../core/version.ts';

/** What the agent says of the machine it runs on when it enrolls, and with each heartbeat. */

const run = promisify(execFile);
const COMMAND_MS = 5000;

function architecture(): Architecture {
  const name = os.arch();
  return name === 'arm64' ? 'arm64' : name === 'ia32' ? 'x86' : 'x64';
}

/** The distribution's own words where there are any, such as "Debian GNU/Linux 12 (bookworm)". */
async function osVersion(): Promise<string> {
  const release = await contentOf('/etc/os-release');
  const pretty = /^PRETTY_NAME="?([^"\n]+)"?$/m.exec(release ?? '')?.[1];
  return pretty ?? os.version();
}

/** Names the machine without giving its own id away: the same after every new enrollment. */
export async function machineId(): Promise<string | undefined> {
  const raw = await rawMachineId();
  return raw === undefined
    ? undefined
    : createHash('sha256').update(`muster-agent machine id:${raw}`).digest('hex');
}

async function rawMachineId(): Promise<string | undefined> {
  switch (osType()) {
    case 'linux':
      return (await contentOf('/etc/machine-id'))?.trim() || undefined;
    case 'macos':
      return /"IOPlatformUUID" = "([^"]+)"/.exec(
        await outputOf('ioreg', ['-rd1', '-c', 'IOPlatformExpertDevice']),
      )?.[1];
    default:
      return /MachineGuid\s+REG_SZ\s+(\S+)/.exec(
        await outputOf('reg', [
          'query',
          String.raw`HKLM\SOFTWARE\Microsoft\Cryptography`,
          '/v',
          'MachineGuid',
        ]),
      )?.[1];
  }
}

export async function describeMachine(): Promise<Omit<EnrollRequest, 'enrollmentKey'>> {
  const id = await machineId();
  return {
    hostname: os.hostname(),
    osType: osType(),
    osVersion: await osVersion(),
    osBuild: os.release(),
    architecture: architecture(),
    agentVersion: AGENT_VERSION,
    ...(await gatherFacts(machineSources())),
    ...(id === undefined ? {} : { machineId: id }),
  };
}

function externalAddresses(): os.NetworkInterfaceInfo[] {
  return Object.values(os.networkInterfaces())
    .flatMap((addresses) => addresses ?? [])
    .filter(({ internal }) => !internal);
}

/** Load is measured between two heartbeats, so it takes an object that remembers. */
export class MachineReporter {
  #lastCpu = cpuTimes();
  #osVersion: Promise<string> | undefined;

  /** Forgets what is only looked at once. */
  refresh(): void {
    this.#osVersion = undefined;
  }

  async heartbeat(): Promise<Heartbeat> {
    this.#osVersion ??= osVersion();
    return {
      at: new Date().toISOString(),
      agentVersion: AGENT_VERSION,
      osVersion: await this.#osVersion,
      osBuild: os.release(),
      uptimeSeconds: Math.round(os.uptime()),
      metrics: await this.#metrics(),
      ipAddresses: externalAddresses()
        .map(({ address }) => address.replace(/%.*$/, ''))
        .slice(0, 64),
    };
  }

  async #metrics(): Promise<Metrics> {
    const now = cpuTimes();
    const total = now.total - this.#lastCpu.total;
    const idle = now.idle - this.#lastCpu.idle;
    this.#lastCpu = now;
    const disk = await diskSpace();
    return {
      cpuPercent: percent(total === 0 ? 0 : 1 - idle / total),
      ramPercent: percent(1 - os.freemem() / os.totalmem()),
      diskPercent: percent(disk === undefined || disk.total === 0 ? 0 : 1 - disk.free / disk.total),
    };
  }
}

function cpuTimes(): { total: number; idle: number } {
  let total = 0;
  let idle = 0;
  for (const { times } of os.cpus()) {
    total += times.user + times.nice + times.sys + times.idle + times.irq;
    idle += times.idle;
  }
  return { total, idle };
}

const percent = (share: number) => Math.min(100, Math.max(0, Math.round(share * 1000) / 10));

async function contentOf(file: string): Promise<string | undefined> {
  try {
    return await readFile(file, 'utf8');
  } catch {
    // Not on this system, or not for this user.
    return undefined;
  }
}

async function outputOf(command: string, args: string[]): Promise<string> {
  try {
    return (await run(systemProgram(command), args, { timeout: COMMAND_MS, maxBuffer: 1_000_000 })).stdout;
  } catch {
    // Without an answer the machine enrolls as a new device.
    return '';
  }
}
