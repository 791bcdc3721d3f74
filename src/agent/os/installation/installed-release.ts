import { lstat, open, readdir, type FileHandle } from 'node:fs/promises';
import path from 'node:path';
import type { UpgradableComponent } from '../../../protocol/index.ts';
import { openBelow } from '../files/open-folder.ts';
import { checkBytes, readChecked } from './checked-bytes.ts';
import { componentFolder, programName, RELEASE_FILE } from './layout.ts';
import { checkRelease, type Expected, ReleaseRefused, SignedRelease } from './release-check.ts';
import { ReleaseVersion } from './release-version.ts';

const RELEASE_FILE_MAX_BYTES = 16_384;
/** The script is some hundred kilobytes. Its bytes are kept in memory. */
const SCRIPT_MAX_BYTES = 64 * 1024 * 1024;

/** The agent's script of a version, and where it is. The bytes are the ones that were checked. Throws `ReleaseRefused`. */
export async function readScript(
  programs: string,
  version: string,
  expected: Expected,
): Promise<{ bytes: Buffer; file: string }> {
  const { manifest } = await releaseOf(programs, version, expected);
  if (manifest.size > SCRIPT_MAX_BYTES) {
    throw new ReleaseRefused('SIZE_MISMATCH', `The script is larger than ${SCRIPT_MAX_BYTES} bytes.`);
  }
  const file = path.join(componentFolder(programs, 'agent'), version, programName('agent'));
  const bytes = await withFile(programs, 'agent', version, programName('agent'), (handle) =>
    readChecked(handle, manifest),
  );
  return { bytes, file };
}

/** Checks an installed release with all its bytes. Throws `ReleaseRefused`. */
export async function checkInstalled(
  programs: string,
  version: string,
  expected: Expected,
): Promise<SignedRelease> {
  const release = await releaseOf(programs, version, expected);
  const { component } = expected;
  await withFile(programs, component, version, programName(component), (handle) =>
    checkBytes(handle, release.manifest),
  );
  return release;
}

/** The versions that are installed of a component, whether or not they hold. */
export async function installedVersions(programs: string, component: UpgradableComponent): Promise<string[]> {
  const names = await readdir(componentFolder(programs, component)).catch(() => []);
  return names.filter((name) => ReleaseVersion.safeParse(name).success);
}

async function releaseOf(programs: string, version: string, expected: Expected): Promise<SignedRelease> {
  const text = await withFile(programs, expected.component, version, RELEASE_FILE, async (handle) => {
    const { size } = await handle.stat();
    return size > RELEASE_FILE_MAX_BYTES ? '' : handle.readFile('utf8');
  });
  const release = SignedRelease.safeParse(jsonIn(text));
  if (!release.success || release.data.manifest.version !== version) {
    throw new ReleaseRefused('NOT_INSTALLED', `The release ${version} has no valid ${RELEASE_FILE}.`);
  }
  checkRelease(release.data, expected);
  return release.data;
}

/** Reads a file of a release. No part of its path below the programs may be a link. */
async function withFile<T>(
  programs: string,
  component: UpgradableComponent,
  version: string,
  name: string,
  read: (file: FileHandle) => Promise<T>,
): Promise<T> {
  let handle: FileHandle;
  try {
    handle = await openInside(programs, [component, ReleaseVersion.parse(version), name]);
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw new ReleaseRefused('NOT_INSTALLED', `The release ${version} cannot be opened: ${reason}`);
  }
  try {
    return await read(handle);
  } finally {
    await handle.close();
  }
}

async function openInside(folder: string, names: string[]): Promise<FileHandle> {
  if (process.platform !== 'win32') return openBelow(folder, path.join(...names));
  // Windows opens no folders, so each part is looked at. Only administrators can change them.
  let at = folder;
  for (const name of names) {
    at = path.join(at, name);
    if ((await lstat(at)).isSymbolicLink()) throw new Error(`${at} is a link.`);
  }
  return open(at, 'r');
}

function jsonIn(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
