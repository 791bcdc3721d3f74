import os from 'node:os';
import { clock } from '../../clock.ts';
import { type Heartbeat, HEARTBEAT_ADDRESSES_MAX, type Metrics } from '../../protocol/index.ts';
import { cpuTimes, diskSpace, percent } from '../os/machine.ts';
import { osVersion } from '../os/os-version.ts';
import { AGENT_VERSION } from './version.ts';

/** Builds heartbeats. The CPU load is measured between two of them, so the reporter keeps the last reading. */
export class HeartbeatReporter {
  #lastCpu = cpuTimes();
  #osVersion: Promise<string> | undefined;
  readonly #hostname: () => string;

  /** @param hostname  the configured name of the machine, in place of its own */
  constructor(hostname: () => string = os.hostname) {
    this.#hostname = hostname;
  }

  /** Reads the version of the operating system again for the next heartbeat. */
  refresh(): void {
    this.#osVersion = undefined;
  }

  /** Fields that cannot be read are left out, so that a failing source does not silence the machine. */
  async heartbeat(): Promise<Heartbeat> {
    this.#osVersion ??= osVersion();
    const version = await this.#osVersion.catch(() => undefined);
    if (version === undefined) this.#osVersion = undefined;
    return {
      at: clock.date().toISOString(),
      agentVersion: AGENT_VERSION,
      ...known({
        osVersion: version,
        osBuild: readable(() => os.release()),
        uptimeSeconds: readable(() => Math.round(os.uptime())),
        metrics: await this.#metrics().catch(() => undefined),
        ...readable(ownAddresses),
        hostname: readable(this.#hostname),
      }),
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

function known<T extends object>(fields: T): { [K in keyof T]?: Exclude<T[K], undefined> } {
  const entries = Object.entries(fields).filter(([, value]) => value !== undefined);
  return Object.fromEntries(entries) as { [K in keyof T]?: Exclude<T[K], undefined> };
}

function readable<T>(read: () => T): T | undefined {
  try {
    return read();
  } catch {
    return undefined;
  }
}

/** Without the zone of an IPv6 address, as in fe80::1%eth0. */
const ownAddresses = () =>
  listedAddresses(externalAddresses().map(({ address }) => address.replace(/%.*$/, '')));

/** As many addresses as a heartbeat can hold, and their number if there are more. */
export const listedAddresses = (
  addresses: readonly string[],
): Pick<Heartbeat, 'ipAddresses' | 'ipAddressCount'> => ({
  ipAddresses: addresses.slice(0, HEARTBEAT_ADDRESSES_MAX),
  ...(addresses.length > HEARTBEAT_ADDRESSES_MAX ? { ipAddressCount: addresses.length } : {}),
});

function externalAddresses(): os.NetworkInterfaceInfo[] {
  return Object.values(os.networkInterfaces())
    .flatMap((addresses) => addresses ?? [])
    .filter(({ internal }) => !internal);
}
