import { type FoundSoftware, nonEmpty } from './collector.ts';
import type { Sources } from './sources.ts';

/** The software of a Linux machine, from each package manager that it has. */

const DPKG = ['-W', '-f', '${db:Status-Status}\\t${binary:Package}\\t${Version}\\t${Maintainer}\\n'];
const RPM = [
  '-qa',
  '--qf',
  '%{NAME}\\t%|EPOCH?{%{EPOCH}:}:{}|%{VERSION}-%{RELEASE}\\t%{VENDOR}\\t%{INSTALLTIME}\\n',
];
const FLATPAK = ['list', '--app', '--columns=name,version,origin'];

/** `undefined` where the machine has none of these package managers. */
export async function linuxSoftware(sources: Sources): Promise<FoundSoftware[] | undefined> {
  const [dpkg, rpm, apk, flatpak, snap] = await Promise.all([
    sources.output('dpkg-query', DPKG),
    sources.output('rpm', RPM),
    sources.file('/lib/apk/db/installed'),
    sources.output('flatpak', FLATPAK),
    sources.output('snap', ['list']),
  ]);
  if ([dpkg, rpm, apk, flatpak, snap].every((output) => output === undefined)) return undefined;
  const written = dpkg === undefined ? new Map() : await sources.written('/var/lib/dpkg/info');
  return [
    ...parseDpkg(dpkg ?? '', written),
    ...parseRpm(rpm ?? ''),
    ...parseApk(apk ?? ''),
    ...parseFlatpak(flatpak ?? ''),
    ...parseSnap(snap ?? ''),
  ];
}

const lines = (output: string) => output.split('\n').filter((line) => line.trim() !== '');
/** Removes the address from a name such as `Debian GCC Maintainers <gcc@example.org>`. */
const nameOnly = (person: string | undefined) => nonEmpty(person?.replace(/\s*<[^>]*>\s*$/, ''));

/** @param written  the times of the files in dpkg's folder: it writes the list of a package when it installs it */
export function parseDpkg(output: string, written: ReadonlyMap<string, number>): FoundSoftware[] {
  return lines(output).flatMap((line) => {
    const [status, binary = '', version, maintainer] = line.split('\t');
    // dpkg also lists removed packages whose configuration is left.
    if (status !== 'installed' || binary === '') return [];
    // A library may be installed for several architectures. Readers do not need to see them.
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
    return [{ name, version: nonEmpty(version), publisher: nonEmpty(publisher?.replace(/[✓✪*]+$/u, '')) }];
  });
}
