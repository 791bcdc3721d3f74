import { Reading } from '../../core/plain-text.ts';
import { lastUserOf, type Collector, cleanDmi, type FoundSoftware, nonEmpty } from './sources.ts';
import type { Sources } from '../../os/machine-sources.ts';

/** The software of a Linux machine, from each package manager that it has. */

const DPKG = ['-W', '-f', '${db:Status-Status}\\t${binary:Package}\\t${Version}\\t${Maintainer}\\n'];
const RPM = [
  '-qa',
  '--qf',
  '%{NAME}\\t%|EPOCH?{%{EPOCH}:}:{}|%{VERSION}-%{RELEASE}\\t%{VENDOR}\\t%{INSTALLTIME}\\n',
];
const FLATPAK = ['list', '--app', '--columns=name,version,origin'];

/** `undefined` if the machine has none of these package managers. */
async function linuxSoftware(sources: Sources, reading: Reading): Promise<FoundSoftware[] | undefined> {
  const managers: Record<string, () => Promise<FoundSoftware[] | undefined>> = {
    async dpkg() {
      const output = await sources.output('dpkg-query', DPKG);
      if (output === undefined) return undefined;
      return parseDpkg(output, await sources.written('/var/lib/dpkg/info').catch(() => new Map()));
    },
    rpm: async () => parsed(parseRpm, await sources.output('rpm', RPM)),
    apk: async () => parsed(parseApk, await sources.file('/lib/apk/db/installed')),
    flatpak: async () => parsed(parseFlatpak, await sources.output('flatpak', FLATPAK)),
    snap: async () => parsed(parseSnap, await sources.output('snap', ['list'])),
  };
  const before = reading.failed.length;
  const found = await Promise.all(
    Object.entries(managers).map(async ([source, read]) => {
      const entries = await reading.from(source, read);
      return entries?.map((entry) => ({ ...entry, source }));
    }),
  );
  const isThereNone = found.every((entries) => entries === undefined) && reading.failed.length === before;
  return isThereNone ? undefined : found.flatMap((entries) => entries ?? []);
}

const parsed = (parse: (output: string) => FoundSoftware[], output: string | undefined) =>
  output === undefined ? undefined : parse(output);

const lines = (output: string) => output.split('\n').filter((line) => line.trim() !== '');
/** Removes the address from a name such as `Debian GCC Maintainers <gcc@example.org>`. */
const nameOnly = (person: string | undefined) => nonEmpty(person?.replace(/\s*<[^>]*>\s*$/, ''));

/** @param written  the times of the files in dpkg's folder: it writes the list of a package when it installs it */
export function parseDpkg(output: string, written: ReadonlyMap<string, number>): FoundSoftware[] {
  return lines(output).flatMap((line) => {
    const [status, binary = '', version, maintainer] = line.split('\t');
    // dpkg also lists removed packages with remaining configuration.
    if (status !== 'installed' || binary === '') return [];
    // A library may be installed for several architectures, which are listed once.
    const name = binary.replace(/:\w+$/, '');
    const installedAt = written.get(`${binary}.list`) ?? written.get(`${name}.list`);
    return [{ name, version: nonEmpty(version), publisher: nameOnly(maintainer), installedAt }];
  });
}

export function parseRpm(output: string): FoundSoftware[] {
  return lines(output).flatMap((line) => {
    const [name = '', version, vendor, seconds] = line.split('\t');
    // rpm lists its signing keys as packages.
    if (name === '' || name === 'gpg-pubkey') return [];
    const publisher = nonEmpty(vendor);
    return [{ name, version: nonEmpty(version), publisher, installedAt: Number(seconds) * 1000 }];
  });
}

/** Alpine's database: a block of `letter:value` lines for each package. */
export function parseApk(content: string): FoundSoftware[] {
  return content.split(/\n\n+/).flatMap((block) => {
    const value = (letter: string) => new RegExp(`^${letter}:(.*)$`, 'm').exec(block)?.[1];
    const name = nonEmpty(value('P'));
    return name === undefined
      ? []
      : [{ name, version: nonEmpty(value('V')), publisher: nameOnly(value('m')) }];
  });
}

export function parseFlatpak(output: string): FoundSoftware[] {
  return lines(output).flatMap((line) => {
    const [name = '', version, origin] = line.split('\t');
    return name.trim() === ''
      ? []
      : [{ name: name.trim(), version: nonEmpty(version), publisher: nonEmpty(origin) }];
  });
}

/** A table with a header. Verified publishers have a mark after their names. */
export function parseSnap(output: string): FoundSoftware[] {
  const [head = '', ...rows] = lines(output);
  if (!head.startsWith('Name')) return [];
  return rows.flatMap((row) => {
    const [name = '', version, , , publisher] = row.trim().split(/\s+/);
    return [
      { name, version: nonEmpty(version), publisher: nonEmpty(publisher?.replace(/[\u2713\u272a*]+$/u, '')) },
    ];
  });
}

const DMI = '/sys/class/dmi/id';

export const collectOnLinux: Collector = async (sources, { software, reading = new Reading() }) => {
  const dmi = async (name: string) => cleanDmi(await sources.file(`${DMI}/${name}`));
  // Boards without DMI have a device tree. The first word of its model is usually the manufacturer.
  const board = cleanDmi(await sources.file('/proc/device-tree/model'));
  return {
    hardware: {
      manufacturer: (await dmi('sys_vendor')) ?? (await dmi('board_vendor')) ?? board?.split(' ')[0],
      model: (await dmi('product_name')) ?? (await dmi('board_name')) ?? board,
      // On most machines only root can read this.
      serialNumber:
        (await dmi('product_serial')) ??
        (await dmi('board_serial')) ??
        cleanDmi(await sources.file('/proc/device-tree/serial-number')),
      gpuModel: graphicsOf((await reading.from('lspci', () => sources.output('lspci', ['-mm']))) ?? ''),
    },
    primaryInterface:
      defaultRoute((await sources.file('/proc/net/route')) ?? '') ??
      defaultRoute6((await sources.file('/proc/net/ipv6_route')) ?? ''),
    lastUser: software ? await lastUser(sources) : undefined,
    software: software ? await linuxSoftware(sources, reading) : undefined,
  };
};

/** For values that are optional in the inventory. */
const mayFail = (output: Promise<string | undefined>) => output.catch(() => undefined);

async function lastUser(sources: Sources): Promise<string | undefined> {
  const last = lastUserOf((await mayFail(sources.output('last', ['-w', '-50']))) ?? '');
  // Newer systems have no `last`. There, a signed-in user counts as the last one.
  return last ?? /^\S+/.exec((await mayFail(sources.output('who', []))) ?? '')?.[0];
}

/** The first graphics card in the output of `lspci -mm`: slot, class, maker and device, the last three in quotes. */
export function graphicsOf(output: string): string | undefined {
  const found = /^\S+ "(?:VGA compatible|3D|Display) controller" "([^"]*)" "([^"]*)"/m.exec(output);
  if (found === null) return undefined;
  const maker = found[1]?.replace(/,? (Corporation|Inc\.?)( \[.*\])?$/, '').replace(/^.*\[(.+)\]$/, '$1');
  // The retail name of a chip is in brackets.
  const model = /\[([^\]]+)\]/.exec(found[2] ?? '')?.[1] ?? found[2];
  return cleanDmi([maker, model].filter(Boolean).join(' '));
}

const UP = 0x1;
const GATEWAY = 0x2;
/** The interface of a route that leads nowhere on purpose. */
const NO_INTERFACE = '*';

/** The interface of the default route with the lowest metric, from `/proc/net/route`. */
export function defaultRoute(table: string): string | undefined {
  const routes = table
    .split('\n')
    .slice(1)
    .map((line) => line.trim().split(/\s+/))
    .filter(([name, destination, , flags = '0', , , , mask]) => {
      const bits = Number.parseInt(flags, 16);
      const isDefault = destination === '00000000' && mask === '00000000';
      return isDefault && (bits & UP) !== 0 && name !== NO_INTERFACE;
    })
    .sort((a, b) => Number(a[6]) - Number(b[6]));
  return routes[0]?.[0];
}

const ANY_ADDRESS = '0'.repeat(32);

/** The same from `/proc/net/ipv6_route`, whose numbers are all hexadecimal. */
export function defaultRoute6(table: string): string | undefined {
  const routes = table
    .split('\n')
    .map((line) => line.trim().split(/\s+/))
    .filter(([destination, prefix, , , , , , , flags = '0', name]) => {
      const bits = Number.parseInt(flags, 16);
      return destination === ANY_ADDRESS && prefix === '00' && (bits & GATEWAY) !== 0 && name !== 'lo';
    })
    .sort((a, b) => Number.parseInt(a[5] ?? '', 16) - Number.parseInt(b[5] ?? '', 16));
  return routes[0]?.[9];
}
