import { randomBytes } from 'node:crypto';
import { lstat, readlink, rename, rm, symlink } from 'node:fs/promises';
import path from 'node:path';
import { z } from 'zod';
import type { UpgradableComponent } from '../../../protocol/index.ts';
import { hasCode, readPrivateJson, syncFolder, writePrivateJson } from '../files/private-file.ts';
import { componentFolder } from './layout.ts';
import { ReleaseVersion } from './release-version.ts';
import { placeStableProgram } from './stable-program.ts';

/**
 * Which release of a component is used: the link `current` to its folder, or on Windows the file `current.json`, because
 * links need a privilege there. Both are replaced in one step, so that a power cut leaves the former or the new one.
 */
const LINK = 'current';
const FILE = 'current.json';
const CurrentFile = z.object({ version: ReleaseVersion });

const usesLink = (platform: NodeJS.Platform) => platform !== 'win32';

/** `undefined` where none was chosen, or where the link leads anywhere but to a release beside it. */
export async function currentRelease(
  programs: string,
  component: UpgradableComponent,
  platform: NodeJS.Platform = process.platform,
): Promise<string | undefined> {
  const folder = componentFolder(programs, component);
  try {
    const named = usesLink(platform)
      ? await readlink(path.join(folder, LINK))
      : CurrentFile.safeParse(await readPrivateJson(path.join(folder, FILE))).data?.version;
    return ReleaseVersion.safeParse(named).data;
  } catch {
    return undefined;
  }
}

/** @param version  `undefined`: none; the agent that came with the executable is used */
export async function chooseRelease(
  programs: string,
  component: UpgradableComponent,
  version: string | undefined,
  platform: NodeJS.Platform = process.platform,
): Promise<void> {
  const folder = componentFolder(programs, component);
  const name = path.join(folder, usesLink(platform) ? LINK : FILE);
  if (version === undefined) {
    await rm(name, { force: true });
    return syncFolder(folder).catch((error: unknown) => {
      if (!hasCode(error, 'ENOENT')) throw error;
    });
  }
  if (!usesLink(platform)) {
    // The file comes last: where the program cannot be placed, nothing was chosen.
    if (component === 'watchdog') await placeStableProgram(programs, version);
    return writePrivateJson(name, { version: ReleaseVersion.parse(version) });
  }
  const draft = `${name}.${randomBytes(8).toString('hex')}.draft`;
  await symlink(ReleaseVersion.parse(version), draft);
  try {
    // A folder in the place of the link would take the link in. It is nothing of ours.
    if ((await lstat(name).catch(() => undefined))?.isDirectory() === true) {
      await rm(name, { recursive: true, force: true });
    }
    await rename(draft, name);
  } catch (error) {
    await rm(draft, { force: true });
    throw error;
  }
  await syncFolder(folder);
}
