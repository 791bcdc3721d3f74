import type { EnrollRequest, OsType, SoftwareEntry } from '../../protocol/index.ts';
import type { MachineInventory } from '../capabilities/inventory/fit.ts';
import { fraction, mix, pick } from './random.ts';
import { osOf } from './synthetic-machine.ts';

/** The software of simulated machines: mostly the same, and on some of them something worth searching for. */

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
