import { expect } from 'chai';
import {
  defaultRoute,
  defaultRoute6,
  graphicsOf,
  collectOnLinux,
  parseApk,
  parseDpkg,
  parseFlatpak,
  parseRpm,
  parseSnap,
} from '../../../../../src/agent/capabilities/inventory/linux.ts';
import { lastUserOf, cleanDmi } from '../../../../../src/agent/capabilities/inventory/sources.ts';
import { collectInventory } from '../../../../../src/agent/capabilities/inventory/collect.ts';
import { Reading } from '../../../../../src/agent/core/plain-text.ts';
import { recordedSources } from './recorded-sources.ts';

/** As the programs print it, or the files have it. */
const DPKG = `installed\tadduser\t3.134\tDebian Adduser Developers <adduser@packages.debian.org>
config-files\tapache2\t2.4.62-1~deb12u2\tDebian Apache Maintainers <debian-apache@lists.debian.org>
installed\tlibc6:amd64\t2.36-9+deb12u10\tGNU Libc Maintainers <debian-glibc@lists.debian.org>
installed\tlibc6:i386\t2.36-9+deb12u10\tGNU Libc Maintainers <debian-glibc@lists.debian.org>
half-installed\tbroken\t1.0\tSomebody <a@example.org>
`;
const RPM = `bash\t5.2.26-3.fc40\tFedora Project\t1712345678
gpg-pubkey\ta15b79cc-63d04c2c\t(none)\t1712345600
perl-libs\t4:5.38.2-507.fc40\tFedora Project\t1712345680
own-tool\t1.0-1\t(none)\t1712345690
`;
const APK = `C:Q1p78yvTLG094tHE1+dToJGbmYzQE=
P:alpine-baselayout
V:3.4.3-r2
A:x86_64
S:8936
I:331776
T:Alpine base dir structure and init scripts
U:https://git.alpinelinux.org/cgit/aports/tree/main/alpine-baselayout
L:GPL-2.0-only
o:alpine-baselayout
m:Natanael Copa <ncopa@alpinelinux.org>
t:1698346862
F:dev
F:dev/pts

C:Q1BTIxqdfMTyZVEAV3XCWdpdVuDWc=
P:musl
V:1.2.4_git20230717-r4
m:Timo Teräs <timo.teras@iki.fi>

`;
const SNAP = `Name      Version         Rev    Tracking         Publisher   Notes
core22    20240823        1621   latest/stable    canonical✓  base
firefox   131.0.2-1       5091   latest/stable/…  mozilla✓    -
own-tool  0.1             x1     -                -           -
`;
const LSPCI = `00:00.0 "Host bridge" "Intel Corporation" "8th Gen Core Processor Host Bridge/DRAM Registers" -r07 "Dell" "Device 085c"
00:02.0 "VGA compatible controller" "Intel Corporation" "CoffeeLake-S GT2 [UHD Graphics 630]" "Dell" "Device 085c"
01:00.0 "3D controller" "NVIDIA Corporation" "GP108M [GeForce MX150]" -ra1 "Dell" "GP108M [GeForce MX150]"
`;
const ROUTES = `Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT
wlan0\t00000000\t0101A8C0\t0003\t0\t0\t600\t00000000\t0\t0\t0
eth0\t00000000\t0100000A\t0003\t0\t0\t100\t00000000\t0\t0\t0
down0\t00000000\t0100000A\t0002\t0\t0\t1\t00000000\t0\t0\t0
eth0\t0000000A\t00000000\t0001\t0\t0\t100\t00FFFFFF\t0\t0\t0
`;
const ROUTES6 = `fe800000000000000000000000000000 40 00000000000000000000000000000000 00 00000000000000000000000000000000 00000400 00000001 00000000 00000001     eth0
00000000000000000000000000000000 00 00000000000000000000000000000000 00 fe8000000000000002155dfffe3a0c01 00000064 00000003 00000000 00000003     eth1
00000000000000000000000000000000 00 00000000000000000000000000000000 00 00000000000000000000000000000000 ffffffff 00000001 00000000 00200200       lo
`;
const LAST = `reboot   system boot  6.1.0-26-amd64   Fri Nov 20 08:11   still running
anna.long-name tty2         tty2             Fri Nov 20 08:12   still logged in
ben      pts/0        10.0.0.7         Thu Nov 19 17:03 - 17:40  (00:37)

wtmp begins Sat Nov  1 00:00:02 2025
`;

describe('agent: the inventory of a Linux machine', () => {
  it('lists the packages of dpkg with maintainer and date', () => {
    const written = new Map([
      ['adduser.list', 1_747_699_200_000],
      ['libc6:amd64.list', 1_747_699_300_000],
    ]);
    expect(parseDpkg(DPKG, written)).to.deep.equal([
      {
        name: 'adduser',
        version: '3.134',
        publisher: 'Debian Adduser Developers',
        installedAt: 1_747_699_200_000,
      },
      {
        name: 'libc6',
        version: '2.36-9+deb12u10',
        publisher: 'GNU Libc Maintainers',
        installedAt: 1_747_699_300_000,
      },
      {
        name: 'libc6',
        version: '2.36-9+deb12u10',
        publisher: 'GNU Libc Maintainers',
        installedAt: undefined,
      },
    ]);
  });

  it('lists the packages of rpm without its signing keys', () => {
    expect(parseRpm(RPM)).to.deep.equal([
      { name: 'bash', version: '5.2.26-3.fc40', publisher: 'Fedora Project', installedAt: 1_712_345_678_000 },
      {
        name: 'perl-libs',
        version: '4:5.38.2-507.fc40',
        publisher: 'Fedora Project',
        installedAt: 1_712_345_680_000,
      },
      { name: 'own-tool', version: '1.0-1', publisher: undefined, installedAt: 1_712_345_690_000 },
    ]);
  });

  it('lists the packages of apk, flatpak and snap', () => {
    expect(parseApk(APK)).to.deep.equal([
      { name: 'alpine-baselayout', version: '3.4.3-r2', publisher: 'Natanael Copa' },
      { name: 'musl', version: '1.2.4_git20230717-r4', publisher: 'Timo Teräs' },
    ]);
    expect(
      parseFlatpak('GNU Image Manipulation Program\t2.10.38\tflathub\nDraft\t\tflathub\n'),
    ).to.deep.equal([
      { name: 'GNU Image Manipulation Program', version: '2.10.38', publisher: 'flathub' },
      { name: 'Draft', version: undefined, publisher: 'flathub' },
    ]);
    expect(parseSnap(SNAP)).to.deep.equal([
      { name: 'core22', version: '20240823', publisher: 'canonical' },
      { name: 'firefox', version: '131.0.2-1', publisher: 'mozilla' },
      { name: 'own-tool', version: '0.1', publisher: undefined },
    ]);
    expect(parseSnap('No snaps are installed yet. Try "snap install hello-world".\n')).to.deep.equal([]);
  });

  it('names the graphics card by its product name', () => {
    expect(graphicsOf(LSPCI)).to.equal('Intel UHD Graphics 630');
    const amd =
      '0a:00.0 "VGA compatible controller" "Advanced Micro Devices, Inc. [AMD/ATI]" "Navi 23" -rc1 "" ""';
    expect(graphicsOf(amd)).to.equal('Advanced Micro Devices Navi 23');
    expect(graphicsOf('00:00.0 "Host bridge" "Intel" "x"')).to.equal(undefined);
  });

  it('finds the interface of the default route with the lowest metric that is up', () => {
    expect(defaultRoute(ROUTES)).to.equal('eth0');
    expect(defaultRoute6(ROUTES6)).to.equal('eth1');
    for (const nothing of ['', ROUTES.split('\n')[0]!, 'what is this?\nx y z']) {
      expect(defaultRoute(nothing)).to.equal(undefined);
      expect(defaultRoute6(nothing)).to.equal(undefined);
    }
  });

  it('finds the user who signed in last', () => {
    expect(lastUserOf(LAST)).to.equal('anna.long-name');
    expect(lastUserOf('\nwtmp begins Sat Nov  1 00:00:02 2025\n')).to.equal(undefined);
  });

  it('ignores the placeholders of firmware', () => {
    for (const blank of [
      'To Be Filled By O.E.M.',
      'Default string',
      'System Product Name',
      '0',
      'None',
      ' \n',
    ]) {
      expect(cleanDmi(blank), blank).to.equal(undefined);
    }
    expect(cleanDmi('OptiPlex 7010\n')).to.equal('OptiPlex 7010');
    expect(cleanDmi('Raspberry Pi 4 Model B Rev 1.4\0')).to.equal('Raspberry Pi 4 Model B Rev 1.4');
  });

  it('reads the sources that exist, and no others', async () => {
    const sources = recordedSources({
      os: 'linux',
      files: {
        '/sys/class/dmi/id/sys_vendor': 'Dell Inc.\n',
        '/sys/class/dmi/id/product_name': 'OptiPlex 7010\n',
        '/proc/net/route': ROUTES,
      },
      outputs: { 'dpkg-query': DPKG, lspci: LSPCI, last: LAST, flatpak: 'GIMP\t2.10\tflathub\n' },
    });
    const { hardware, software, ...more } = await collectOnLinux(sources, { software: true });
    expect(hardware).to.deep.equal({
      manufacturer: 'Dell Inc.',
      model: 'OptiPlex 7010',
      serialNumber: undefined,
      gpuModel: 'Intel UHD Graphics 630',
    });
    expect(more).to.deep.equal({ primaryInterface: 'eth0', lastUser: 'anna.long-name' });
    expect(software!.map(({ name }) => name)).to.deep.equal(['adduser', 'libc6', 'libc6', 'GIMP']);
  });

  it('has no software list without a package manager', async () => {
    const bare = recordedSources({ os: 'linux' });
    expect((await collectOnLinux(bare, { software: true })).software).to.equal(undefined);
  });

  describe('of which one source fails', () => {
    const outputs = {
      'dpkg-query': DPKG,
      rpm: RPM,
      flatpak: 'GIMP\t2.10\tflathub\n',
      snap: SNAP,
      lspci: LSPCI,
    };
    const files = {
      '/sys/class/dmi/id/product_name': 'OptiPlex 7010\n',
      '/lib/apk/db/installed': APK,
    };
    const own = { eth0: [{ address: '10.0.0.7', mac: '02:00:00:00:00:01', internal: false }] };
    const machine = (more: object) => ({
      ...recordedSources({ os: 'linux', files, outputs, interfaces: own as never }),
      ...more,
    });
    const sourceOf: Record<string, string> = { 'dpkg-query': 'dpkg' };

    for (const program of Object.keys(outputs)) {
      it(`has everything else if ${program} fails, and names it`, async () => {
        const broken = { ...outputs, [program]: new Error('error: cannot communicate\nwith server') };
        const sources = recordedSources({ os: 'linux', files, outputs: broken, interfaces: own as never });
        const gathered = await collectInventory(sources, expect.fail);
        const source = sourceOf[program] ?? program;
        expect(gathered.failed).to.deep.equal([{ source, message: 'error: cannot communicate' }]);
        expect(gathered.hardware).to.deep.include({ model: 'OptiPlex 7010' });
        expect(gathered.interfaces?.map(({ name }) => name)).to.deep.equal(['eth0']);
        const listed = new Set(gathered.software?.map((entry) => entry.source));
        const all = ['dpkg', 'rpm', 'apk', 'flatpak', 'snap'];
        expect(listed).to.deep.equal(new Set(all.filter((name) => name !== source)));
      });
    }

    it('has everything else if the interfaces cannot be listed, and if a file hangs', async () => {
      const broken = machine({
        interfaces() {
          throw new Error('uv_interface_addresses returned Unknown system error 13');
        },
      });
      const gathered = await collectInventory(broken, expect.fail);
      expect(gathered).not.to.have.any.keys('interfaces', 'network');
      expect(gathered.failed?.map(({ source }) => source)).to.deep.equal(['interfaces']);
      expect(gathered.software).not.to.deep.equal([]);

      const reading = new Reading();
      const late = reading.from('apk', () => new Promise<string>(() => {}), 20);
      expect([await late, reading.failed.map(({ source }) => source)]).to.deep.equal([undefined, ['apk']]);
    });

    it('delivers an empty list if its only package manager fails', async () => {
      const snap = new Error('error: cannot list snaps');
      const gathered = await collectInventory(
        recordedSources({ os: 'linux', outputs: { snap } }),
        expect.fail,
      );
      expect(gathered.software).to.deep.equal([]);
      expect(gathered.failed?.map(({ source }) => source)).to.deep.equal(['snap']);
    });
  });
});
