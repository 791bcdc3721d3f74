import { expect } from 'chai';
import { collectFacts, collectInventory } from '../../../../../src/agent/capabilities/inventory/collect.ts';
import { parsePackages } from '../../../../../src/agent/capabilities/inventory/macos.ts';
import { Inventory } from '../../../../../src/protocol/index.ts';
import { recordedSources } from './recorded-sources.ts';

/** As PowerShell's ConvertTo-Json writes the table of our script on Windows 11. */
const WINDOWS = `\uFEFF{"software":[{"publisher":"Igor Pavlov","installed":"","version":"24.08","name":"7-Zip 24.08 (x64)"},{"publisher":"Mozilla","installed":"20260115","version":"145.0","name":"Mozilla Firefox (x64 de)"},{"publisher":"","installed":"1/15/2026","version":"","name":"Hauseigenes Werkzeug ü"}],"serial":"5CG1234XYZ","user":"ACME\\\\anna","processor":"Intel(R) Core(TM) i5-10500T CPU @ 2.30GHz","model":"HP EliteDesk 800 G6 Desktop Mini PC","interface":"Ethernet 2","manufacturer":"HP","graphics":"Intel(R) UHD Graphics 630"}\r\n`;

/** As `system_profiler -json` writes it on macOS 15, shortened. */
const MACOS = JSON.stringify({
  SPApplicationsDataType: [
    {
      _name: 'Firefox',
      arch_kind: 'arch_arm_i64',
      lastModified: '2026-01-05T10:11:12Z',
      obtained_from: 'identified_developer',
      path: '/Applications/Firefox.app',
      signed_by: [
        'Developer ID Application: Mozilla Corporation (43AQ936H96)',
        'Developer ID Certification Authority',
        'Apple Root CA',
      ],
      version: '145.0',
    },
    {
      _name: 'Safari',
      lastModified: '2025-11-04T08:00:00Z',
      obtained_from: 'apple',
      path: '/Applications/Safari.app',
      signed_by: ['Software Signing', 'Apple Code Signing Certification Authority', 'Apple Root CA'],
      version: '18.1',
    },
    {
      _name: 'AirPlayUIAgent',
      obtained_from: 'apple',
      path: '/System/Library/CoreServices/AirPlayUIAgent.app',
      version: '2.0',
    },
    { _name: 'Own Tool', obtained_from: 'unknown', path: '/Users/anna/Own Tool.app' },
  ],
  SPDisplaysDataType: [{ _name: 'kHW_AppleM1ProItem', sppci_model: 'Apple M1 Pro', sppci_cores: '16' }],
  SPHardwareDataType: [
    {
      _name: 'hardware_overview',
      chip_type: 'Apple M1 Pro',
      machine_model: 'MacBookPro18,3',
      machine_name: 'MacBook Pro',
      number_processors: 'proc 10:8:2',
      physical_memory: '16 GB',
      serial_number: 'C02XXXXXXXXX',
    },
  ],
});
const PKGUTIL = `package-id: org.nodejs.node.pkg
version: v20.20.2
volume: /
location: /
install-time: 1736071872

package-id: com.docker.cli
version: 0
volume: /
location: usr/local/bin
install-time: 0
`;
const ROUTE = `   route to: default
destination: default
       mask: default
    gateway: 192.168.1.1
  interface: en0
      flags: <UP,GATEWAY,DONE,STATIC,PRCLONING,GLOBAL>
`;
const LAST = `anna       console                  Fri Nov 20 08:12   still logged in
_mbsetupuser  console                  Sat Nov  1 08:12 - 08:15  (00:03)
`;

const interfaces = (name: string) =>
  ({
    lo: [
      {
        address: '127.0.0.1',
        netmask: '',
        family: 'IPv4',
        mac: '00:00:00:00:00:00',
        internal: true,
        cidr: '',
      },
    ],
    other: [
      {
        address: '172.16.0.1',
        netmask: '',
        family: 'IPv4',
        mac: '02:00:00:00:00:02',
        internal: false,
        cidr: '',
      },
    ],
    [name]: [
      {
        address: 'fe80::1%12',
        netmask: '',
        family: 'IPv6',
        mac: '02:00:00:00:00:01',
        internal: false,
        cidr: '',
        scopeid: 12,
      },
      {
        address: '192.168.1.7',
        netmask: '',
        family: 'IPv4',
        mac: '02:00:00:00:00:01',
        internal: false,
        cidr: '',
      },
    ],
  }) as never;

const sendable = (gathered: object) =>
  Inventory.safeParse({ ...gathered, collectedAt: '2026-01-01T00:00:00Z' }).error?.issues ?? [];

describe('agent: the inventory of a Windows machine', () => {
  it('is read by one PowerShell script', async () => {
    const sources = recordedSources({
      os: 'windows',
      outputs: { powershell: WINDOWS },
      interfaces: interfaces('Ethernet 2'),
    });
    const gathered = await collectInventory(sources, expect.fail);
    expect(gathered.hardware).to.deep.include({
      manufacturer: 'HP',
      model: 'HP EliteDesk 800 G6 Desktop Mini PC',
      serialNumber: '5CG1234XYZ',
      cpuModel: 'Intel(R) Core(TM) i5-10500T CPU @ 2.30GHz',
      gpuModel: 'Intel(R) UHD Graphics 630',
    });
    expect(gathered.network).to.deep.equal({ ipAddress: '192.168.1.7', macAddress: '02:00:00:00:00:01' });
    expect(gathered.interfaces!.map(({ name, isPrimary }) => [name, isPrimary])).to.deep.equal([
      ['Ethernet 2', true],
      ['other', false],
    ]);
    expect(gathered.interfaces![0]!.ipAddresses).to.deep.equal(['fe80::1', '192.168.1.7']);
    expect(gathered.lastUser).to.equal(String.raw`ACME\anna`);
    expect(gathered.software).to.deep.equal([
      { name: '7-Zip 24.08 (x64)', version: '24.08', publisher: 'Igor Pavlov' },
      { name: 'Hauseigenes Werkzeug ü' },
      {
        name: 'Mozilla Firefox (x64 de)',
        version: '145.0',
        publisher: 'Mozilla',
        installedAt: '2026-01-15T00:00:00.000Z',
      },
    ]);
    expect(sendable(gathered)).to.deep.equal([]);
    const [program, args] = sources.calls[0]!;
    const script = Buffer.from(args.at(-1)!, 'base64').toString('utf16le');
    expect([program, args.at(-2)]).to.deep.equal(['powershell', '-EncodedCommand']);
    expect(script).to.match(/^\$WithSoftware = \$true\n/);
  });

  it('has no software list, instead of an empty one, when the registry cannot be read', async () => {
    const outputs = { powershell: '{"software":null,"manufacturer":"HP"}' };
    const gathered = await collectInventory(recordedSources({ os: 'windows', outputs }), expect.fail);
    expect(gathered).not.to.have.property('software');
    expect(gathered.failed?.map(({ source }) => source)).to.deep.equal(['programs']);
    for (const powershell of ['', 'Access is denied.', '{"software":"all"}']) {
      const sources = recordedSources({ os: 'windows', outputs: { powershell } });
      const told = await collectInventory(sources, expect.fail);
      expect(told, powershell).not.to.have.property('software');
      expect(told.failed?.[0]).to.deep.include({ source: 'powershell' });
      expect(told.failed?.[0]?.message).to.include('could not be parsed');
      expect(told.hardware).to.include.keys('cpuCores', 'ramTotalMb');
      expect(sendable(told)).to.deep.equal([]);
      // A machine enrolls with what Node knows.
      expect((await collectFacts(sources)).hardware).to.include.keys('cpuCores', 'ramTotalMb');
    }
  });
});

describe('agent: the inventory of a Mac', () => {
  it('is read from system_profiler and pkgutil', async () => {
    const sources = recordedSources({
      os: 'macos',
      outputs: { system_profiler: MACOS, pkgutil: PKGUTIL, route: ROUTE, last: LAST },
      interfaces: interfaces('en0'),
    });
    const gathered = await collectInventory(sources, expect.fail);
    expect(gathered.hardware).to.deep.include({
      manufacturer: 'Apple Inc.',
      model: 'MacBookPro18,3',
      serialNumber: 'C02XXXXXXXXX',
      cpuModel: 'Apple M1 Pro',
      gpuModel: 'Apple M1 Pro',
    });
    expect(gathered.network!.ipAddress).to.equal('192.168.1.7');
    expect(gathered.lastUser).to.equal('anna');
    expect(gathered.software).to.deep.equal([
      {
        name: 'Firefox',
        version: '145.0',
        publisher: 'Mozilla Corporation',
        installedAt: '2026-01-05T10:11:12.000Z',
        source: 'applications',
      },
      { name: 'Own Tool', source: 'applications' },
      {
        name: 'Safari',
        version: '18.1',
        publisher: 'Apple',
        installedAt: '2025-11-04T08:00:00.000Z',
        source: 'applications',
      },
      { name: 'com.docker.cli', version: '0', source: 'pkgutil' },
      {
        name: 'org.nodejs.node.pkg',
        version: 'v20.20.2',
        installedAt: '2025-01-05T10:11:12.000Z',
        source: 'pkgutil',
      },
    ]);
    expect(sendable(gathered)).to.deep.equal([]);
  });

  it('names each list that cannot be read, and has the rest', async () => {
    for (const [program, sources] of [
      ['pkgutil', ['pkgutil']],
      ['system_profiler', ['system_profiler', 'applications']],
    ] as const) {
      const outputs = { system_profiler: MACOS, pkgutil: PKGUTIL, [program]: new Error('no') };
      const machine = recordedSources({ os: 'macos', outputs, interfaces: interfaces('en0') });
      const gathered = await collectInventory(machine, expect.fail);
      expect(gathered.failed?.map(({ source }) => source)).to.deep.equal(sources);
      expect(gathered.software).not.to.deep.equal([]);
      expect(gathered.interfaces).not.to.deep.equal([]);
    }
  });

  it('has no packages when pkgutil lists none', () => {
    expect(parsePackages('')).to.deep.equal([]);
    expect(parsePackages('No receipt for "x" found at "/".\n')).to.deep.equal([]);
  });
});
