import { type FoundSoftware, nonEmpty } from './collector.ts';
import type { Reading } from '../../core/reading.ts';
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
export async function linuxSoftware(
  sources: Sources,
  reading: Reading,
): Promise<FoundSoftware[] | undefined> {
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
