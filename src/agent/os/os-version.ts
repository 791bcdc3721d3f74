import { readFile } from 'node:fs/promises';
import os from 'node:os';

/** The name and the version of the operating system, as its maker writes them. */

/** `undefined` if the file does not exist or cannot be read. */
type ReadText = (file: string) => Promise<string | undefined>;

const readIfThere: ReadText = (file) => readFile(file, 'utf8').catch(() => undefined);

/**
 * For example "Debian GNU/Linux 12 (bookworm)" or "macOS 14.5"; the description of the kernel if the system has no such
 * file. Each file is read on its own system only: a Windows program under Wine sees the files of the Linux below it.
 */
export async function osVersion(
  platform: NodeJS.Platform = process.platform,
  read: ReadText = readIfThere,
): Promise<string> {
  if (platform === 'linux') return (await linuxName(read)) ?? os.version();
  if (platform === 'darwin') return macosName((await read(SYSTEM_VERSION)) ?? '') ?? os.version();
  return os.version();
}

/** In the order of os-release(5). The first is the one that an administrator may replace. */
const OS_RELEASE = ['/etc/os-release', '/usr/lib/os-release'];
/** From before os-release existed. Their first line is the name. */
const ONE_LINE = [
  '/etc/redhat-release',
  '/etc/SuSE-release',
  '/etc/slackware-version',
  '/etc/gentoo-release',
];

async function linuxName(read: ReadText): Promise<string | undefined> {
  for (const file of OS_RELEASE) {
    const name = distributionName((await read(file)) ?? '');
    if (name !== undefined) return name;
  }
  for (const file of ONE_LINE) {
    const [line = ''] = ((await read(file)) ?? '').split('\n');
    if (line.trim() !== '') return line.trim();
  }
  return assignments((await read('/etc/lsb-release')) ?? '').get('DISTRIB_DESCRIPTION') || undefined;
}

/**
 * The name of a distribution with its version, from an os-release file. Rolling and minimal distributions leave the
 * version out of their names, and Alpine its last part, so it is added from `VERSION_ID`. `undefined` without any name.
 */
export function distributionName(release: string): string | undefined {
  const fields = assignments(release);
  const name = fields.get('PRETTY_NAME') || fields.get('NAME');
  if (!name) return undefined;
  // Arch Linux ships the placeholder TEMPLATE_VERSION_ID.
  const version = [fields.get('VERSION_ID'), fields.get('VERSION')].find((text) => /^v?\d/.test(text ?? ''));
  if (version === undefined) return name;
  const [major = ''] = /\d+/.exec(version) ?? [];
  if (!new RegExp(`(?<!\\d)${major}(?!\\d)`).test(name)) return `${name} ${version}`;
  return name.replace(/\d+(?:\.\d+)+/, (short) => (version.startsWith(`${short}.`) ? version : short));
}

/** The variables of a file of shell assignments. Later ones replace earlier ones; everything else is ignored. */
function assignments(content: string): ReadonlyMap<string, string> {
  const found = new Map<string, string>();
  for (const [, name = '', value = ''] of content.matchAll(/^\s*([A-Za-z_]\w*)=(.*)$/gm)) {
    found.set(name, unquoted(value.trim()));
  }
  return found;
}

/** Without the quotes of the shell, and the backslashes that its double quotes need. */
function unquoted(value: string): string {
  const [, double, single] = /^(?:"((?:[^"\\]|\\.)*)"|'([^']*)')/.exec(value) ?? [];
  const text = single ?? (double ?? value).replace(/\\([\\"$`'])/g, '$1');
  return text.trim();
}

const SYSTEM_VERSION = '/System/Library/CoreServices/SystemVersion.plist';

function macosName(plist: string): string | undefined {
  const value = (key: string) => new RegExp(`<key>${key}</key>\\s*<string>([^<]+)</string>`).exec(plist)?.[1];
  const version = value('ProductUserVisibleVersion') ?? value('ProductVersion');
  return version === undefined ? undefined : `${value('ProductName') ?? 'macOS'} ${version}`;
}
