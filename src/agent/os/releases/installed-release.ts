import { createHash } from 'node:crypto';
import { lstat, open, readdir, type FileHandle } from 'node:fs/promises';
import path from 'node:path';
import { UpgradableComponent, type ReleaseManifest } from '../../../protocol/index.ts';
import { openBelow } from '../files/open-folder.ts';
import { componentFolder, programName, RELEASE_FILE, ReleaseVersion, compareReleases } from './layout.ts';
import { checkRelease, type Expected, ReleaseRefused, SignedRelease } from './release-check.ts';
import { z } from 'zod';
import { readPrivateJson, writePrivateJson } from '../files/private-file.ts';

const RELEASE_FILE_MAX_BYTES = 16_384;
/** The script is some hundred kilobytes. Its bytes are kept in memory. */
const SCRIPT_MAX_BYTES = 64 * 1024 * 1024;

/** The agent's script of a version, and its path. The bytes are those that were verified. Throws `ReleaseRefused`. */
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

/** Verifies an installed release with all its bytes. Throws `ReleaseRefused`. */
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

/** The installed versions of a component, including ones that fail verification. */
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
  // Windows cannot open folders, so each part of the path is checked. Only administrators can change them.
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

type Bytes = Pick<ReleaseManifest, 'size' | 'sha256'>;

/** The bytes of a release, if they match its manifest. They are read once. */
async function readChecked(file: FileHandle, { size, sha256 }: Bytes): Promise<Buffer> {
  await assertSize(file, size);
  const bytes = Buffer.alloc(size);
  let length = 0;
  while (length < size) {
    const { bytesRead } = await file.read(bytes, length, size - length, length);
    if (bytesRead === 0) break;
    length += bytesRead;
  }
  assertHash(length === size ? createHash('sha256').update(bytes).digest('hex') : '', sha256);
  return bytes;
}

/** The same for a file that is too large to be kept in memory. */
export async function checkBytes(file: FileHandle, { size, sha256 }: Bytes): Promise<void> {
  await assertSize(file, size);
  const hash = createHash('sha256');
  const buffer = Buffer.alloc(256 * 1024);
  for (let at = 0; at < size; ) {
    const { bytesRead } = await file.read(buffer, 0, Math.min(buffer.length, size - at), at);
    if (bytesRead === 0) break;
    hash.update(buffer.subarray(0, bytesRead));
    at += bytesRead;
  }
  assertHash(hash.digest('hex'), sha256);
}

/** The size is checked first, so that a file of any size costs nothing. */
async function assertSize(file: FileHandle, size: number): Promise<void> {
  const found = await file.stat();
  if (found.size !== size) {
    throw new ReleaseRefused(
      'SIZE_MISMATCH',
      `The file has ${found.size} bytes, and its manifest names ${size}.`,
    );
  }
}

function assertHash(found: string, expected: string): void {
  if (found !== expected) {
    throw new ReleaseRefused('CHECKSUM_MISMATCH', 'The file is not the one that its manifest names.');
  }
}

/** The versions that were healthy on this machine, per component. */
const Proven = z.object({
  /** The highest version that was ever healthy: no older one is started, except by a pin. */
  floor: ReleaseVersion.optional(),
  /** The healthy versions, newest first. A roll-back goes to one of them. */
  healthy: z.array(ReleaseVersion).max(10).default([]),
  /** A version below the floor that the server has pinned explicitly. */
  pinned: ReleaseVersion.optional(),
});
export type Proven = z.infer<typeof Proven>;
const ProvenFile = z.partialRecord(UpgradableComponent, Proven);

const KEEP = 3;
const fileIn = (dataDir: string) => path.join(dataDir, 'upgrades', 'proven.json');

async function load(dataDir: string): Promise<z.infer<typeof ProvenFile>> {
  const kept = ProvenFile.safeParse(await readPrivateJson(fileIn(dataDir)).catch(() => undefined));
  return kept.success ? kept.data : {};
}

export async function provenReleases(dataDir: string, component: UpgradableComponent): Promise<Proven> {
  return (await load(dataDir))[component] ?? { healthy: [] };
}

/**
 * The lowest version that may be started, for a start of this version: none if it has been healthy here, so that a
 * roll-back finds it, or if it is pinned. Pure.
 */
export const floorForStart = ({ floor, healthy, pinned }: Proven, version: string): string | undefined =>
  pinned === version || healthy.includes(version) ? undefined : floor;

/** Records a healthy version: it becomes the first choice, and older ones are refused from now on. Pure. */
export function afterHealthy({ floor, healthy, pinned }: Proven, version: string): Proven {
  const isHigher = floor === undefined || compareReleases(version, floor) > 0;
  return {
    floor: isHigher ? version : floor,
    healthy: [version, ...healthy.filter((each) => each !== version)].slice(0, KEEP),
    // A pin ends with the next version that does not need it.
    ...(pinned === version && !isHigher ? { pinned } : {}),
  };
}

/**
 * Records a roll-back. A version that was considered healthy before is no longer a target of roll-backs, and no floor.
 * Pure.
 */
export function afterRollback({ floor, healthy, pinned }: Proven, version: string): Proven {
  const kept = pinned === undefined || pinned === version ? {} : { pinned };
  if (healthy[0] !== version) return { floor, healthy, ...kept };
  const others = healthy.filter((each) => each !== version);
  const highest = [...others].sort(compareReleases).at(-1);
  return { floor: floor === version ? highest : floor, healthy: others, ...kept };
}

export async function changeProven(
  dataDir: string,
  component: UpgradableComponent,
  change: (proven: Proven) => Proven,
): Promise<void> {
  const all = await load(dataDir);
  await writePrivateJson(fileIn(dataDir), { ...all, [component]: change(all[component] ?? { healthy: [] }) });
}
