import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { rename, rm, mkdir, open, statfs } from 'node:fs/promises';
import path from 'node:path';
import { z } from 'zod';
import { clock } from '../../../clock.ts';
import { UpgradableComponent, type Upgrade, shortened } from '../../../protocol/index.ts';
import { hasCode, readPrivateJson, syncFolder } from '../../os/files/private-file.ts';
import { checkBytes } from '../../os/releases/installed-release.ts';
import {
  ownPlatform,
  componentFolder,
  programName,
  RELEASE_FILE,
  releaseFolder,
} from '../../os/releases/layout.ts';
import { SignedRelease } from '../../os/releases/release-check.ts';
import { upgradesIn, writeNote } from '../../os/releases/upgrade-files.ts';
import { UpdateFault } from './download.ts';

/** An offer that this machine could install, as the manifest that its signature must cover. */
export interface Offer {
  component: UpgradableComponent;
  release: SignedRelease;
  url: string;
  isPinned: boolean;
}

/** Size limits of downloads: many times the size of the current programs. */
const SIZE_MAX: Readonly<Record<UpgradableComponent, number>> = {
  agent: 64 * 1024 * 1024,
  watchdog: 512 * 1024 * 1024,
};

/**
 * Validates an offer. The manifest is built for the platform of this machine, so a signature for another platform is
 * invalid. Throws `UpdateFault`. Pure except for the platform.
 */
export function readOffer(upgrade: Upgrade): Offer {
  const component = UpgradableComponent.safeParse(upgrade.component);
  if (!component.success) {
    throw new UpdateFault(
      'UNKNOWN_COMPONENT',
      `This agent does not know the component "${shortened(upgrade.component, 50)}".`,
      false,
    );
  }
  const { version, sha256, size, signature, keyId, url } = upgrade;
  if (signature === undefined || keyId === undefined || size === undefined) {
    throw new UpdateFault('SIGNATURE_MISSING', 'The release was offered without a signature.', false);
  }
  const manifest = { component: component.data, version, ...ownPlatform(), sha256, size };
  const release = SignedRelease.safeParse({ manifest, signature, keyId });
  if (!release.success) {
    const [issue] = release.error.issues;
    throw new UpdateFault(
      'INVALID_OFFER',
      `The offer is invalid: ${issue?.path.join('.')} ${issue?.message}.`,
      false,
    );
  }
  if (size > SIZE_MAX[component.data]) {
    throw new UpdateFault(
      'TOO_LARGE',
      `The release has ${size} bytes; at most ${SIZE_MAX[component.data]} are installed.`,
      false,
    );
  }
  return { component: component.data, release: release.data, url, isPinned: upgrade.pinned === true };
}

const SPARE_BYTES = 64 * 1024 * 1024;

/** Twice the size, for the download and the installed copy, and a reserve. */
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

/** Throws `ReleaseRefused` if the download is not what was signed; it is removed then. */
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
 * Installs a verified download: its folder gets its final name once everything in it is on the disk. The folder of a
 * running release is never written to.
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
  // An existing folder of that name contains a damaged or withdrawn release: a good one would not be staged again.
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

/** What the server offers now, and a manual request at the machine to install it; for the command line. */
const OfferState = z.object({
  component: z.string(),
  version: z.string(),
  /** Why it was not installed, and when the next try is due. */
  failure: z.string().optional(),
  nextTryAt: z.string().optional(),
});
export type OfferState = z.infer<typeof OfferState>;

const OFFER = 'offer.json';
const REQUEST = 'apply-request.json';

export async function readOfferState(dataDir: string): Promise<OfferState | undefined> {
  const kept = await readPrivateJson(path.join(upgradesIn(dataDir), OFFER)).catch(() => undefined);
  return OfferState.safeParse(kept).data;
}

/** Writes only changes, because this is called with each heartbeat. */
export async function writeOfferState(dataDir: string, state: OfferState | undefined): Promise<void> {
  const known = await readOfferState(dataDir);
  if (JSON.stringify(known) === JSON.stringify(state)) return;
  if (state !== undefined) return writeNote(dataDir, OFFER, state);
  await rm(path.join(upgradesIn(dataDir), OFFER), { force: true });
}

export const requestApply = (dataDir: string): Promise<void> =>
  writeNote(dataDir, REQUEST, { at: clock.date().toISOString() });

/** Whether the upgrade was requested manually; a request counts once. */
export async function takeApplyRequest(dataDir: string): Promise<boolean> {
  const file = path.join(upgradesIn(dataDir), REQUEST);
  try {
    await rename(file, `${file}.taken`);
    return true;
  } catch (error) {
    if (hasCode(error, 'ENOENT')) return false;
    throw error;
  }
}
