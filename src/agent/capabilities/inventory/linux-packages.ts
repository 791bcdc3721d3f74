import { type FoundSoftware, filled } from './collector.ts';
import type { Sources } from './sources.ts';

/** What is installed on a Linux machine, from each of the package managers that it has. */

const DPKG = ['-W', '-f', '${db:Status-Status}\\t${binary:Package}\\t${Version}\\t${Maintainer}\\n'];
const RPM = [
  '-qa',
  '--qf',
  '%{NAME}\\t%|EPOCH?{%{EPOCH}:}:{}|%{VERSION}-%{RELEASE}\\t%{VENDOR}\\t%{INSTALLTIME}\\n',
];
const FLATPAK = ['list', '--app', '--columns=name,version,origin'];

/** `undefined` where there is no package manager that is known here. */
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
/** A name with an address behind it, as in `Debian GCC Maintainers <gcc@example.org>`. */
const nameOnly = (person: string | undefined) => filled(person?.replace(/\s*<[^>]*>\s*$/, ''));

/** @param written  when the files of dpkg's folder were: a package's list is written when it is installed */
export function parseDpkg(output: string, written: ReadonlyMap<string, number>): FoundSoftware[] {
  return lines(output).flatMap((line) => {
    const [status, binary = '', version, maintainer] = line.split('\t');
    // Of what was removed the configuration may be left, which dpkg lists too.
    if (status !== 'installed' || binary === '') return [];
    // A library may be there for several architectures, which says nothing to a person.
    const name = binary.replace(/:\w+$/, '');
    const installedAt = written.get(`${binary}.list`) ?? written.get(`${name}.list`);
    return [{ name, version: filled(version), publisher: nameOnly(maintainer), installedAt }];
  });
}

export function parseRpm(output: string): FoundSoftware[] {
  return lines(output).flatMap((line) => {
    const [name = '', version, vendor, seconds] = line.split('\t');
    // The keys that packages are signed with are kept as if they were packages.
    if (name === '' || name === 'gpg-pubkey') return [];
    const publisher = filled(vendor);
    return [{ name, version: filled(version), publisher, installedAt: Number(seconds) * 1000 }];
  });
}

/** Alpine's database: a block of `letter:value` lines a package. */
export function parseApk(content: string): FoundSoftware[] {
  return content.split(/\n\n+/).flatMap((block) => {
    const value = (letter: string) => new RegExp(`^${letter}:(.*)$`, 'm').exec(block)?.[1];
    const name = filled(value('P'));
    return name === undefined ? [] : [{ name, version: filled(value('V')), publisher: nameOnly(value('m')) }];
  });
}

export function parseFlatpak(output: string): FoundSoftware[] {
  return lines(output).flatMap((line) => {
    const [name = '', version, origin] = line.split('\t');
    return name.trim() === ''
      ? []
      : [{ name: name.trim(), version: filled(version), publisher: filled(origin) }];
  });
}

/** A table with a head; publishers that are verified have a mark behind their names. */
export function parseSnap(output: string): FoundSoftware[] {
  const [head = '', ...rows] = lines(output);
  if (!head.startsWith('Name')) return [];
  return rows.flatMap((row) => {
    const [name = '', version, , , publisher] = row.trim().split(/\s+/);
    return [{ name, version: filled(version), publisher: filled(publisher?.replace(/[✓✪*]+$/u, '')) }];
  });
}
