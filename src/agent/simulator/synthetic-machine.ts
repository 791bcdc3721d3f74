import { createHash } from 'node:crypto';
import type { EnrollRequest, Heartbeat, OsType } from '../../protocol/index.ts';
import { fraction, mix, pick } from './random.ts';

/** A simulated machine: everything about it follows from its number. */

type Choices = readonly [readonly [string, string], ...(readonly [string, string])[]];

/** How the machines of a site are called: `LIS-FRONT-012`, or `LIS-SRV-004` for a server. */
export interface HostNames {
  site: string;
  places: readonly [string, ...string[]];
}

const PLACES = ['FRONT', 'ROOM', 'DESK', 'LAB', 'DEPOT', 'OFFICE', 'KIOSK'] as const;
const MODELS = {
  windows: [
    ['Dell Inc.', 'OptiPlex 7010'],
    ['LENOVO', 'ThinkCentre M70q'],
    ['HP', 'EliteDesk 800 G6'],
  ],
  linux: [
    ['Supermicro', 'SYS-5019S'],
    ['Dell Inc.', 'PowerEdge R350'],
  ],
  macos: [
    ['Apple Inc.', 'MacBookPro18,3'],
    ['Apple Inc.', 'Macmini9,1'],
  ],
} as const satisfies Record<OsType, Choices>;
const VERSIONS = {
  windows: [
    ['Windows 11 Pro', '22631.4317'],
    ['Windows 10 Pro', '19045.5011'],
    ['Windows Server 2022 Standard', '20348.2762'],
  ],
  linux: [
    ['Debian GNU/Linux 12 (bookworm)', '6.1.0-26-amd64'],
    ['Ubuntu 24.04.1 LTS', '6.8.0-47-generic'],
  ],
  macos: [
    ['macOS 15.1', '24B83'],
    ['macOS 14.7', '23H124'],
  ],
} as const satisfies Record<OsType, Choices>;

export function osOf(index: number): OsType {
  const share = mix(index, 1) % 10;
  if (share < 7) return 'windows';
  return share < 9 ? 'linux' : 'macos';
}

export function hostnameOf(index: number, names?: HostNames): string {
  const kind = osOf(index) === 'linux' ? 'SRV' : 'PC';
  if (names === undefined) return `${pick(PLACES, index, 2)}-${kind}-${String(index + 1).padStart(4, '0')}`;
  const place = kind === 'SRV' ? kind : pick(names.places, index, 2);
  return `${names.site}-${place}-${String(index + 1).padStart(3, '0')}`;
}

const AGENT_VERSIONS = ['1.3.0', '1.3.0', '1.3.0', '1.2.4'] as const;

/** What it runs when it is enrolled. */
export const firstVersionOf = (index: number): string => pick(AGENT_VERSIONS, index, 5);

export function describeSynthetic(
  index: number,
  fleetId: string,
  names?: HostNames,
): Omit<EnrollRequest, 'enrollmentKey'> {
  const osType = osOf(index);
  const [manufacturer, model] = pick<readonly [string, string]>(MODELS[osType], index, 3);
  const [osVersion, osBuild] = pick<readonly [string, string]>(VERSIONS[osType], index, 4);
  const machine = createHash('sha256').update(`${fleetId}:${index}`).digest('hex');
  return {
    hostname: hostnameOf(index, names),
    osType,
    osVersion,
    osBuild,
    architecture: osType === 'macos' ? 'arm64' : 'x64',
    agentVersion: firstVersionOf(index),
    machineId: machine,
    hardware: {
      manufacturer,
      model,
      serialNumber: machine.slice(0, 10).toUpperCase(),
      cpuModel: osType === 'macos' ? 'Apple M1' : 'Intel(R) Core(TM) i5-10500T',
      cpuCores: pick([4, 6, 8, 12], index, 6),
      ramTotalMb: pick([8192, 16_384, 32_768], index, 7),
      diskTotalGb: pick([256, 512, 1024], index, 8),
    },
    network: { ipAddress: addressOf(index) },
  };
}

const addressOf = (index: number) =>
  `10.${20 + Math.floor(index / 62_500)}.${Math.floor(index / 250) % 250}.${1 + (index % 250)}`;

/** Above the threshold from which the server raises an alert. */
const FAILING_DISK_PERCENT = 96.4;

/** Load that drifts: a slow wave for the day and a faster one for the moment, different for each machine. */
export function syntheticHeartbeat(
  index: number,
  now: number,
  { agentVersion, hasFailingDisk }: { agentVersion: string; hasFailingDisk: boolean },
): Heartbeat {
  const wave = (periodMs: number, part: number) =>
    (Math.sin((now / periodMs) * 2 * Math.PI + fraction(index, part) * 6.28) + 1) / 2;
  const percent = (value: number) => Math.round(Math.min(100, Math.max(0, value)) * 10) / 10;
  return {
    at: new Date(now).toISOString(),
    agentVersion,
    uptimeSeconds: Math.round((now / 1000) % (86_400 * (1 + (mix(index, 9) % 30)))),
    metrics: {
      cpuPercent: percent(5 + 40 * wave(86_400_000, 10) * wave(300_000, 11)),
      ramPercent: percent(35 + 30 * fraction(index, 12) + 15 * wave(3_600_000, 13)),
      diskPercent: hasFailingDisk ? FAILING_DISK_PERCENT : percent(20 + 69 * fraction(index, 14)),
    },
    ipAddresses: [addressOf(index)],
  };
}
