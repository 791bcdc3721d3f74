import { readFile } from 'node:fs/promises';
import os from 'node:os';

/** The name that a Linux distribution gives itself, such as "Debian GNU/Linux 12 (bookworm)", or the kernel's version. */
export async function osVersion(): Promise<string> {
  // The file exists on Linux only.
  const release = await readFile('/etc/os-release', 'utf8').catch(() => '');
  return /^PRETTY_NAME="?([^"\n]+)"?$/m.exec(release)?.[1] ?? os.version();
}
