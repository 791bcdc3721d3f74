import os from 'node:os';
import { clock } from '../../clock.ts';
import type { Heartbeat, Metrics } from '../../protocol/index.ts';
import { diskSpace } from '../os/machine/disk-space.ts';
import { osVersion } from '../os/machine/os-version.ts';
import { AGENT_VERSION } from './version.ts';

/** Makes heartbeats. The processor load is measured between two of them, so the reporter keeps the last reading. */
export class HeartbeatReporter {
  #lastCpu = cpuTimes();
  #osVersion: Promise<string> | undefined;

  /** Reads the version of the operating system again for the next heartbeat. */
  refresh(): void {
    this.#osVersion = undefined;
  }

  async heartbeat(): Promise<Heartbeat> {
    this.#osVersion ??= osVersion();
    return {
      at: clock.date().toISOString(),
      agentVersion: AGENT_VERSION,
      osVersion: await this.#osVersion,
      osBuild: os.release(),
      uptimeSeconds: Math.round(os.uptime()),
      metrics: await this.#metrics(),
      ipAddresses: externalAddresses()
        // Without the zone of an IPv6 address, as in fe80::1%eth0.
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

function externalAddresses(): os.NetworkInterfaceInfo[] {
  return Object.values(os.networkInterfaces())
    .flatMap((addresses) => addresses ?? [])
    .filter(({ internal }) => !internal);
}

const percent = (share: number) => Math.min(100, Math.max(0, Math.round(share * 1000) / 10));
