import { createHash } from 'node:crypto';
import type { EnrollRequest, Heartbeat, OsType, SoftwareEntry } from '../../protocol/index.ts';
import type { MachineInventory } from '../capabilities/inventory/collect.ts';

/** A simulated machine: all its properties are derived from its number. */

type Choices = readonly [readonly [string, string], ...(readonly [string, string])[]];

/** The naming pattern of a site's machines: `LIS-FRONT-012`, or `LIS-SRV-004` for a server. */
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

/** The version at its enrollment. */
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
      diskTotalGb: diskGbOf(index),
    },
    network: { ipAddress: addressOf(index) },
  };
}

export const diskGbOf = (index: number): number => pick([256, 512, 1024], index, 8);

const addressOf = (index: number) =>
  `10.${20 + Math.floor(index / 62_500)}.${Math.floor(index / 250) % 250}.${1 + (index % 250)}`;

/** Above the threshold from which the server raises an alert. */
const FAILING_DISK_PERCENT = 96.4;

/** Load that drifts: a slow wave over the day and a faster one, different for each machine. */
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

/** Events of the machines of an eventful fleet, by their number. Machines of other fleets have none. */

export interface Circumstances {
  /** Its disk fails: errors flood its log, and it is nearly full. */
  hasFailingDisk: boolean;
  /** The machine loses its connection every minute or so. */
  hasPoorConnection: boolean;
  /** The machine installs offered releases. */
  installsReleases: boolean;
  /** The machine sends samples of its figures. */
  sendsSamples: boolean;
  /** The machine reports its services. */
  reportsServices: boolean;
  /** One of its services stops now and then. */
  hasUnreliableService: boolean;
  /** A new release fails on it, so it rolls back. */
  rollsBack: boolean;
}

const POOR_CONNECTIONS: readonly number[] = [9, 31, 58, 84];
const ROLLS_BACK_ONE_IN = 37;
const UNRELIABLE_SERVICE_ONE_IN = 30;
/** One of the first machines has a failing disk, so that a small fleet has one too. */
const FAILING_DISK = firstWindowsFrom(3);

function firstWindowsFrom(first: number): number {
  let index = first;
  while (osOf(index) !== 'windows') index += 1;
  return index;
}

export const circumstancesOf = (index: number, isEventful: boolean): Circumstances => ({
  hasFailingDisk: isEventful && index === FAILING_DISK,
  hasPoorConnection: isEventful && POOR_CONNECTIONS.includes(index),
  installsReleases: isEventful,
  sendsSamples: isEventful,
  reportsServices: isEventful,
  hasUnreliableService: isEventful && mix(index, 60) % UNRELIABLE_SERVICE_ONE_IN === 0,
  rollsBack: isEventful && mix(index, 41) % ROLLS_BACK_ONE_IN === 0,
});

/** Pseudo-random numbers that depend on the seed only, so that a simulated machine needs no state. */

/** A 32-bit mix of integers. */
export function mix(...parts: number[]): number {
  let hash = 0x9e_37_79_b9;
  for (const part of parts) {
    hash = Math.imul(hash ^ (part | 0), 0x85_eb_ca_6b);
    // The upper bits of numbers above 32 bits count too.
    hash = Math.imul(hash ^ Math.trunc(part / 2 ** 32), 0xc2_b2_ae_35);
    hash ^= hash >>> 15;
  }
  return hash >>> 0;
}

/** A number from 0 to 1, without 1. */
export const fraction = (...parts: number[]): number => mix(...parts) / 2 ** 32;

export function pick<T>(items: readonly [T, ...T[]], ...parts: number[]): T {
  return items[mix(...parts) % items.length] ?? items[0];
}

/** The software of simulated machines: mostly the same, with a few notable programs to search for. */

interface Product {
  name: string;
  publisher: string;
  versions: readonly [string, ...string[]];
  /** The share of machines that have it. */
  share: number;
  /** The share of those that have the first version. */
  current?: number;
}

const EVERYWHERE: readonly Product[] = [
  {
    name: 'Google Chrome',
    publisher: 'Google LLC',
    versions: ['142.0.7444.60', '141.0.7390.123', '128.0.6613.120'],
    share: 0.82,
  },
  { name: 'Mozilla Firefox', publisher: 'Mozilla', versions: ['145.0', '140.5.0', '115.29.0'], share: 0.46 },
  {
    name: 'Zoom Workplace',
    publisher: 'Zoom Communications, Inc.',
    versions: ['6.6.10', '6.4.3', '5.17.11'],
    share: 0.55,
  },
  { name: 'Slack', publisher: 'Slack Technologies', versions: ['4.47.59', '4.41.97'], share: 0.3 },
  { name: 'TeamViewer', publisher: 'TeamViewer Germany GmbH', versions: ['15.71.4', '15.59.5'], share: 0.14 },
  { name: 'AnyDesk', publisher: 'AnyDesk Software GmbH', versions: ['9.6.2', '7.1.13'], share: 0.06 },
  { name: 'Docker Desktop', publisher: 'Docker Inc.', versions: ['4.51.0', '4.34.2'], share: 0.09 },
  {
    name: 'Visual Studio Code',
    publisher: 'Microsoft Corporation',
    versions: ['1.106.2', '1.98.0'],
    share: 0.18,
  },
];

const PRODUCTS: Readonly<Record<OsType, readonly Product[]>> = {
  windows: [
    ...EVERYWHERE,
    {
      name: 'Microsoft Edge',
      publisher: 'Microsoft Corporation',
      versions: ['142.0.3595.80', '141.0.3537.99'],
      share: 1,
    },
    {
      name: 'Microsoft 365 Apps for business - en-us',
      publisher: 'Microsoft Corporation',
      versions: ['16.0.19328.20178', '16.0.18526.20472'],
      share: 0.85,
    },
    {
      name: 'Microsoft OneDrive',
      publisher: 'Microsoft Corporation',
      versions: ['25.199.1012.0002', '24.201.1006.0005'],
      share: 0.9,
    },
    {
      name: 'Microsoft Visual C++ 2015-2022 Redistributable (x64)',
      publisher: 'Microsoft Corporation',
      versions: ['14.44.35211', '14.38.33135'],
      share: 0.95,
    },
    {
      name: 'Adobe Acrobat (64-bit)',
      publisher: 'Adobe',
      versions: ['25.001.20844', '24.003.20112'],
      share: 0.6,
    },
    { name: '7-Zip (x64)', publisher: 'Igor Pavlov', versions: ['25.01', '24.08', '19.00'], share: 0.58 },
    {
      name: 'Notepad++ (64-bit x64)',
      publisher: 'Notepad++ Team',
      versions: ['8.8.7', '8.6.9'],
      share: 0.33,
    },
    { name: 'VLC media player', publisher: 'VideoLAN', versions: ['3.0.21', '3.0.16'], share: 0.27 },
    {
      name: 'Java 8 Update 202 (64-bit)',
      publisher: 'Oracle Corporation',
      versions: ['8.0.2020.8'],
      share: 0.07,
    },
    { name: 'WinRAR 6.21 (64-bit)', publisher: 'win.rar GmbH', versions: ['6.21.0'], share: 0.11 },
    {
      name: 'Sophos Endpoint Agent',
      publisher: 'Sophos Limited',
      versions: ['2025.2.1.3', '2024.3.0.42'],
      share: 0.72,
    },
  ],
  macos: [
    ...EVERYWHERE,
    { name: 'Safari', publisher: 'Apple', versions: ['18.1'], share: 1 },
    { name: 'Xcode', publisher: 'Apple', versions: ['16.1', '15.4'], share: 0.3 },
    { name: 'Keynote', publisher: 'Apple', versions: ['14.2'], share: 0.7 },
    { name: 'iTerm', publisher: 'GEORGE NACHMAN', versions: ['3.6.5', '3.5.4'], share: 0.35 },
    { name: '1Password', publisher: 'AgileBits Inc.', versions: ['8.11.18', '8.10.46'], share: 0.5 },
  ],
  linux: [
    ...[
      'bash 5.2.15-2+b7',
      'openssh-server 1:9.2p1-2+deb12u7',
      'systemd 252.39-1~deb12u1',
      'libc6 2.36-9+deb12u13',
      'sudo 1.9.13p3-1+deb12u2',
      'curl 7.88.1-10+deb12u14',
      'openssl 3.0.17-1~deb12u3',
      'cron 3.0pl1-162',
      'rsyslog 8.2302.0-1+deb12u1',
      'vim 2:9.0.1378-2+deb12u2',
    ].map((entry): Product => {
      const [name = '', version = ''] = entry.split(' ');
      return { name, publisher: 'Debian', versions: [version], share: 1 };
    }),
    {
      name: 'nginx',
      publisher: 'Debian Nginx Maintainers',
      versions: ['1.22.1-9+deb12u3', '1.22.1-9'],
      share: 0.45,
    },
    {
      name: 'postgresql-15',
      publisher: 'Debian PostgreSQL Maintainers',
      versions: ['15.14-0+deb12u1', '15.3-0+deb12u1'],
      share: 0.3,
    },
    {
      name: 'docker-ce',
      publisher: 'Docker',
      versions: ['5:28.5.2-1~debian.12~bookworm', '5:24.0.7-1~debian.12~bookworm'],
      share: 0.4,
    },
    { name: 'redis-server', publisher: 'Chris Lamb', versions: ['5:7.0.15-1~deb12u5'], share: 0.2 },
    { name: 'log4j', publisher: 'Debian Java Maintainers', versions: ['2.14.1-1'], share: 0.05 },
    { name: 'certbot', publisher: "Debian Let's Encrypt Team", versions: ['2.1.0-4'], share: 0.35 },
  ],
};

const PEOPLE = ['anna', 'ben', 'carla', 'dev', 'emil', 'farah', 'greta', 'hugo'] as const;
const GRAPHICS: Readonly<Record<OsType, string>> = {
  windows: 'Intel UHD Graphics 630',
  macos: 'Apple M1',
  linux: 'ASPEED Graphics Family',
};

export function syntheticInventory(
  index: number,
  { hardware, network }: Pick<EnrollRequest, 'hardware' | 'network'>,
): MachineInventory {
  const os = osOf(index);
  const macAddress = macOf(index);
  const ipAddress = network?.ipAddress ?? '10.0.0.1';
  const user = pick(PEOPLE, index, 30);
  return {
    hardware: { ...hardware, gpuModel: GRAPHICS[os] },
    network: { ...network, macAddress },
    interfaces: [
      {
        name: os === 'windows' ? 'Ethernet' : os === 'macos' ? 'en0' : 'eth0',
        macAddress,
        ipAddresses: [ipAddress],
        isPrimary: true,
      },
    ],
    lastUser: os === 'windows' ? `OFFICE\\${user}` : user,
    software: PRODUCTS[os].flatMap((product, position) => installedOn(index, product, position)),
  };
}

function installedOn(index: number, product: Product, position: number): SoftwareEntry[] {
  const { name, publisher, versions, share, current = 0.75 } = product;
  if (fraction(index, 40, position) >= share) return [];
  const [newest, ...older] = versions;
  const isCurrent = older.length === 0 || fraction(index, 41, position) < current;
  const version = isCurrent ? newest : (older[mix(index, 42, position) % older.length] ?? newest);
  const day = 1 + (mix(index, 43, position) % 300);
  return [{ name, version, publisher, installedAt: new Date(Date.UTC(2026, 0, day)).toISOString() }];
}

/** An address of the locally administered range, which no manufacturer uses. */
function macOf(index: number): string {
  const bytes = Array.from({ length: 4 }, (_, place) => mix(index, 31, place) % 256);
  return [0x02, 0x4d, ...bytes].map((byte) => byte.toString(16).padStart(2, '0')).join(':');
}
