import { randomBytes } from 'node:crypto';
import { chmod, copyFile, lstat, mkdir, open, readFile, rename, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { syncFolder } from '../files/private-file.ts';
import { chooseRelease, currentRelease } from '../installation/current-release.ts';
import { programFile } from '../installation/layout.ts';
import { placeStableProgram, sha256Of } from '../installation/stable-program.ts';
import { linkedProgram, type ServicePlace } from './service-place.ts';

/**
 * Copies an executable to the place of its version and makes it the current one. Doing it again changes nothing.
 * @returns whether anything changed
 */
export async function installProgram(
  programs: string,
  executable: string,
  version: string,
): Promise<boolean> {
  const file = programFile(programs, 'watchdog', version);
  const isThere = await isSameFile(executable, file);
  if (!isThere) await copyProgram(executable, file);
  if ((await currentRelease(programs, 'watchdog')) === version) {
    // An earlier release has installed it without the path that never changes.
    if (process.platform === 'win32') await placeStableProgram(programs, version);
    return !isThere;
  }
  await chooseRelease(programs, 'watchdog', version);
  return true;
}

/** Under another name first: a program that runs is replaced and never written to. */
async function copyProgram(from: string, to: string): Promise<void> {
  await mkdir(path.dirname(to), { recursive: true, mode: 0o755 });
  const draft = `${to}.${randomBytes(8).toString('hex')}.draft`;
  try {
    await copyFile(from, draft);
    await chmod(draft, 0o755);
    const handle = await open(draft, 'r+');
    try {
      await handle.sync();
    } finally {
      await handle.close();
    }
    await rename(draft, to);
  } catch (error) {
    await rm(draft, { force: true });
    throw error;
  }
  await syncFolder(path.dirname(to));
}

async function isSameFile(one: string, other: string): Promise<boolean> {
  const sizes = await Promise.all(
    [one, other].map(async (file) =>
      lstat(file).then(
        ({ size }) => size,
        () => -1,
      ),
    ),
  );
  if (sizes[0] !== sizes[1]) return false;
  const [first, second] = await Promise.all([one, other].map(sha256Of));
  return first === second;
}

/** The command `muster-agent` for people, with the folder of this installation. Pure. */
export function commandScript(place: ServicePlace): string {
  return `#!/bin/sh
# Written by muster-agent service install.
if [ -z "\${MUSTER_AGENT_DIR-}" ]; then
  MUSTER_AGENT_DIR=${shellWord(place.dataDir)}
fi
export MUSTER_AGENT_DIR
${place.prefix === '' ? '' : `MUSTER_PREFIX=${shellWord(place.prefix)}\nexport MUSTER_PREFIX\n`}exec ${shellWord(linkedProgram(place))} "$@"
`;
}

const shellWord = (text: string) => `'${text.replaceAll("'", String.raw`'\''`)}'`;

/** @returns whether anything changed */
export async function writeIfChanged(file: string, content: string, mode: number): Promise<boolean> {
  if ((await readFile(file, 'utf8').catch(() => undefined)) === content) return false;
  await mkdir(path.dirname(file), { recursive: true });
  const draft = `${file}.${randomBytes(8).toString('hex')}.draft`;
  await writeFile(draft, content, { mode, flag: 'wx' });
  await chmod(draft, mode);
  await rename(draft, file);
  return true;
}
