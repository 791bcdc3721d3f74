import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { mkdir, open, rename, rm, statfs } from 'node:fs/promises';
import path from 'node:path';
import { syncFolder } from '../../os/files/private-file.ts';
import { checkBytes } from '../../os/installation/checked-bytes.ts';
import { componentFolder, programName, RELEASE_FILE, releaseFolder } from '../../os/installation/layout.ts';
import type { SignedRelease } from '../../os/installation/release-check.ts';
import type { Offer } from './offer.ts';
import { UpdateFault } from './update-fault.ts';

const SPARE_BYTES = 64 * 1024 * 1024;

/** Twice the size, for the download and the copy that is installed, and some more for everything else. */
export async function assertSpace(folders: readonly string[], size: number): Promise<void> {
  for (const folder of folders) {
    await mkdir(folder, { recursive: true });
    const { bavail, bsize } = await statfs(folder);
    const needed = 2 * size + SPARE_BYTES;
    if (bavail * bsize < needed) {
      const message = `${folder} has ${bavail * bsize} bytes free; the upgrade needs ${needed}.`;
      throw new UpdateFault('NO_SPACE', message, true);
    }
  }
}

/** Throws `ReleaseRefused` where the download is not what was signed; it is removed then. */
export async function checkDownload(file: string, { manifest }: SignedRelease): Promise<void> {
  const handle = await open(file, 'r');
  try {
    await checkBytes(handle, manifest);
  } catch (error) {
    await rm(file, { force: true });
    throw error;
  } finally {
    await handle.close();
  }
}

/**
 * Puts a checked download in its place: a folder that gets its name when everything in it is on the disk. A folder that
 * runs is never written to.
 */
export async function stage(
  programs: string,
  { component, release }: Offer,
  download: string,
): Promise<void> {
  const { version, sha256 } = release.manifest;
  const parent = componentFolder(programs, component);
  const folder = releaseFolder(programs, component, version);
  const part = `${folder}.part`;
  await rm(part, { recursive: true, force: true });
  await mkdir(part, { recursive: true, mode: 0o755 });
  const copied = await copy(
    download,
    path.join(part, programName(component)),
    component === 'watchdog' ? 0o755 : 0o644,
  );
  if (copied !== sha256) {
    throw new UpdateFault('CHECKSUM_MISMATCH', 'The file changed while it was copied.', true);
  }
  await write(path.join(part, RELEASE_FILE), `${JSON.stringify(release, null, 2)}\n`);
  await syncFolder(part);
  // A folder of that name holds a damaged or withdrawn release: a good one would not be staged again.
  await rm(folder, { recursive: true, force: true });
  await rename(part, folder);
  await syncFolder(parent);
  await rm(download, { force: true });
}

/** Returns the hash of what was written. */
async function copy(from: string, to: string, mode: number): Promise<string> {
  const hash = createHash('sha256');
  const handle = await open(to, 'wx', mode);
  try {
    for await (const chunk of createReadStream(from, { highWaterMark: 256 * 1024 })) {
      const bytes = chunk as Buffer;
      hash.update(bytes);
      await handle.appendFile(bytes);
    }
    await handle.chmod(mode);
    await handle.sync();
  } finally {
    await handle.close();
  }
  return hash.digest('hex');
}

async function write(file: string, text: string): Promise<void> {
  const handle = await open(file, 'wx', 0o644);
  try {
    await handle.writeFile(text);
    await handle.sync();
  } finally {
    await handle.close();
  }
}
