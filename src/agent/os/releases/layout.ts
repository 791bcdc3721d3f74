import os, { homedir, platform } from 'node:os';
import path from 'node:path';
import { z } from 'zod';
import type { UpgradableComponent } from '../../../protocol/index.ts';
import { osType } from '../machine.ts';
import { randomBytes, createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { lstat, readlink, rename, rm, symlink, copyFile, open, stat } from 'node:fs/promises';
import { hasCode, readPrivateJson, syncFolder, writePrivateJson } from '../files/private-file.ts';

/**
 * The programs of this machine: `<programs>/<component>/<version>/` contains one release and its `release.json`, and
 * `<programs>/<component>/current` names the active version. The folder of a running release is never written to.
 */
export function defaultProgramsDir(): string {
  const own = ownProgramsDir();
  if (own !== undefined) return own;
  switch (osType()) {
    case 'windows':
      return path.win32.join(process.env['ProgramFiles'] ?? String.raw`C:\Program Files`, 'Muster');
    case 'macos':
      return '/Library/Muster';
    default:
      return '/opt/muster';
  }
}

/** The platform of this machine as releases name it. */
export const ownPlatform = (): { os: string; architecture: string } => ({
  os: osType(),
  architecture: os.arch(),
});

/** The program in the folder of a release. */
export const programName = (component: UpgradableComponent): string =>
  component === 'agent' ? 'muster-agent.cjs' : osType() === 'windows' ? 'muster-agent.exe' : 'muster-agent';

export const RELEASE_FILE = 'release.json';

export const componentFolder = (programs: string, component: UpgradableComponent): string =>
  path.join(programs, component);

/** Throws for a version that is not a valid folder name. */
export const releaseFolder = (programs: string, component: UpgradableComponent, version: string): string =>
  path.join(componentFolder(programs, component), ReleaseVersion.parse(version));

export const programFile = (programs: string, component: UpgradableComponent, version: string): string =>
  path.join(releaseFolder(programs, component, version), programName(component));

/**
 * The programs folder of this executable, run from the folder of a version or from the stable path of a Windows task;
 * `undefined` if it runs from anywhere else.
 */
export function ownProgramsDir(executable: string = process.execPath): string | undefined {
  const folder = path.dirname(executable);
  for (const component of [path.dirname(folder), folder]) {
    if (path.basename(component) === 'watchdog') return path.dirname(component);
  }
  return undefined;
}

/** The default folder for the agent's files. */
export function defaultDataDir(): string {
  const given = process.env['MUSTER_AGENT_DIR'];
  if (given !== undefined && given !== '') return given;
  if (platform() === 'win32') {
    return path.join(process.env['ProgramData'] ?? String.raw`C:\ProgramData`, 'muster-agent');
  }
  return process.getuid?.() === 0 ? '/var/lib/muster-agent' : path.join(homedir(), '.muster-agent');
}

const NUMBER = String.raw`(0|[1-9]\d{0,8})`;
const SYNTAX = new RegExp(String.raw`^${NUMBER}\.${NUMBER}\.${NUMBER}(?:-rc\.${NUMBER})?$`);

/** A version that may become the name of a folder: `1.4.0`, or a candidate such as `1.4.0-rc.2`. */
export const ReleaseVersion = z
  .string()
  .max(20)
  .regex(SYNTAX, 'must be a version such as 1.4.0 or 1.4.0-rc.2');

/**
 * Negative if `a` comes before `b`, by the order of semantic versions: a candidate comes before its release. An
 * invalid version comes before all others.
 */
export function compareReleases(a: string, b: string): number {
  const [one, other] = [partsOf(a), partsOf(b)];
  for (const [at, part] of one.entries()) {
    const order = part - (other[at] ?? 0);
    if (order !== 0) return order;
  }
  return 0;
}

function partsOf(version: string): number[] {
  const found = SYNTAX.exec(version);
  if (found === null || version.length > 20) return [-1, 0, 0, 0];
  const [major, minor, patch, candidate] = found.slice(1);
  // A release comes after all of its candidates.
  return [
    Number(major),
    Number(minor),
    Number(patch),
    candidate === undefined ? Number.MAX_SAFE_INTEGER : Number(candidate),
  ];
}

/**
 * The active version of a component: the link `current` to its folder, or on Windows the file `current.json`, because
 * links need a privilege there. Both are replaced atomically, so a power failure leaves either the former or the new
 * one.
 */
const LINK = 'current';
const FILE = 'current.json';
const CurrentFile = z.object({ version: ReleaseVersion });

const usesLink = (platform: NodeJS.Platform) => platform !== 'win32';

/** `undefined` if none was chosen, or if the link does not lead to a release beside it. */
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

/** @param version  `undefined`: none; the agent that is embedded in the executable is used */
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
    // The file is written last: if the program cannot be placed, the choice has not changed.
    if (component === 'watchdog') await placeStableProgram(programs, version);
    return writePrivateJson(name, { version: ReleaseVersion.parse(version) });
  }
  const draft = `${name}.${randomBytes(8).toString('hex')}.draft`;
  await symlink(ReleaseVersion.parse(version), draft);
  try {
    // A folder in place of the link would receive the link. It cannot be ours.
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

/**
 * Windows has no link to the current executable, so a copy of it is kept under a stable path: the scheduled task runs
 * it, and an upgrade replaces it.
 */
export const stableProgram = (programs: string): string =>
  path.join(componentFolder(programs, 'watchdog'), programName('watchdog'));

/** The file of a running program cannot be overwritten on Windows, but it can be renamed. */
const IN_USE = ['EPERM', 'EACCES', 'EBUSY'];

/**
 * Copies the executable of a version to the stable path. Does nothing if it is already there, or if the version is not
 * installed.
 */
export async function placeStableProgram(programs: string, version: string): Promise<void> {
  const [from, to] = [programFile(programs, 'watchdog', version), stableProgram(programs)];
  const size = await sizeOf(from);
  if (size === undefined) return;
  if ((await sizeOf(to)) === size && (await sha256Of(to)) === (await sha256Of(from))) return;
  const mark = randomBytes(8).toString('hex');
  const [draft, former] = [`${to}.${mark}.draft`, `${to}.${mark}.old`];
  try {
    await copyFile(from, draft);
    const handle = await open(draft, 'r+');
    try {
      await handle.sync();
    } finally {
      await handle.close();
    }
    await rename(draft, to).catch(async (error: unknown) => {
      if (!IN_USE.some((code) => hasCode(error, code))) throw error;
      await rename(to, former);
      // It is still running. The next start removes it.
      await rename(draft, to).catch(async (failure: unknown) => {
        await rename(former, to);
        throw failure;
      });
    });
  } catch (error) {
    await rm(draft, { force: true });
    throw error;
  }
}

const sizeOf = async (file: string): Promise<number | undefined> =>
  (await stat(file).catch(() => undefined))?.size;

export async function sha256Of(file: string): Promise<string> {
  const hash = createHash('sha256');
  for await (const chunk of createReadStream(file)) hash.update(chunk as Buffer);
  return hash.digest('hex');
}
