import { readFile } from 'node:fs/promises';
import os from 'node:os';

/**
 * The name that a Linux distribution gives itself, such as "Debian GNU/Linux 12 (bookworm)", or what the system says of
 * itself. Only Linux has the file by right: elsewhere it may belong to something else.
 */
export async function osVersion(
  platform: NodeJS.Platform = process.platform,
  file = '/etc/os-release',
): Promise<string> {
  if (platform !== 'linux') return os.version();
  const release = await readFile(file, 'utf8').catch(() => '');
  return /^PRETTY_NAME="?([^"\n]+)"?$/m.exec(release)?.[1] ?? os.version();
}
