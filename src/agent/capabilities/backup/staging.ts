import { isUtf8 } from 'node:buffer';
import { readdir, rm, rmdir, stat } from 'node:fs/promises';
import path from 'node:path';
import { z } from 'zod';
import { clock } from '../../../clock.ts';
import { hasCode, readPrivateJson, writePrivateJson } from '../../os/files/private-file.ts';
import { nameBytes } from '../../os/files/open-folder.ts';
import { openPrivateFolder } from '../../os/files/private-folder.ts';
import { isWriteRefused, targetError } from '../../repository/local-engine.ts';

const FailedPaths = z.array(z.object({ path: z.string(), reason: z.string() }));

const Fetched = z.object({
  files: z.number(),
  bytes: z.number(),
  failed: z
    .object({ paths: FailedPaths, count: z.number() })
    // As earlier agents have written it.
    .or(FailedPaths.transform((paths) => ({ paths, count: paths.length }))),
});

/** State that an interrupted restore keeps for its next run. */
const StagedRestore = z.object({
  folder: z.string(),
  snapshotId: z.string(),
  /** Present once everything is fetched and the files are being moved into place. */
  fetched: Fetched.optional(),
});
export type StagedRestore = z.infer<typeof StagedRestore>;

export interface StagingPlace {
  snapshotId: string;
  target: Buffer;
  /** The device number of the target's disk. */
  disk: bigint;
}

/** How long the files of an interrupted restore are kept. */
const KEPT_MS = 7 * 24 * 3_600_000;

/**
 * Private folders that restores fetch into. restic follows links in its target, so no other user may be able
 * to write there or to replace a folder above it. Each folder is on the disk of the final target, so moving
 * is fast and keeps all file attributes.
 */
export class StagingFolders {
  readonly #folder: string;
  readonly #records: string;
  readonly #warn: (message: string) => void;
  #clearing: Promise<void> = Promise.resolve();

  /** @param folder  a private folder of the agent */
  constructor(folder: string, warn: (message: string) => void) {
    this.#folder = path.join(folder, 'staging');
    this.#records = path.join(folder, 'restores');
    this.#warn = warn;
  }

  /** Starts to remove old files of interrupted restores, which may take minutes. */
  clear(): void {
    this.#clearing = this.#removeOld().catch((error: unknown) => {
      this.#warn(`What earlier restores have left could not be removed: ${String(error)}`);
    });
  }

  async #removeOld(): Promise<void> {
    const names = await readdir(this.#records).catch((error: unknown) => {
      if (hasCode(error, 'ENOENT')) return [];
      throw error;
    });
    for (const name of names.filter((each) => each.endsWith('.json'))) {
      const { mtimeMs } = await stat(path.join(this.#records, name));
      if (clock.now() - mtimeMs > KEPT_MS) await this.remove(path.basename(name, '.json'));
    }
  }

  /**
   * The files that an earlier run of the restore has fetched from the same snapshot, if they are on the
   * target's disk.
   */
  async find(restoreId: string, { snapshotId, disk }: StagingPlace): Promise<StagedRestore | undefined> {
    await this.#clearing;
    const record = StagedRestore.safeParse(
      await readPrivateJson(this.#file(restoreId)).catch(() => undefined),
    ).data;
    if (record === undefined) return undefined;
    const found = await stat(record.folder, { bigint: true }).catch(() => undefined);
    if (found?.dev === disk && record.snapshotId === snapshotId) return record;
    await this.remove(restoreId);
    return undefined;
  }

  /** Creates the folder of a restore on the disk of the target. Throws `AgentError`. */
  async create(restoreId: string, { snapshotId, target, disk }: StagingPlace): Promise<StagedRestore> {
    await openPrivateFolder(this.#folder);
    const folder =
      (await diskOf(this.#folder)) === disk
        ? await openPrivateFolder(path.join(this.#folder, shortName(restoreId)))
        : await onOtherDisk(target, disk, OTHER + shortName(restoreId));
    const staged = { folder, snapshotId };
    await this.keep(restoreId, staged);
    return staged;
  }

  /** The path, in bytes, of the folder that `create` would make. */
  async lengthFor(restoreId: string, target: string): Promise<number> {
    const name = shortName(restoreId);
    const present = await nearest(nameBytes(target));
    const disk = await diskOf(present);
    const own = path.join(this.#folder, name);
    if ((await diskOf(await nearest(Buffer.from(own)))) === disk) return Buffer.byteLength(own);
    for (const parent of withParents(present)) {
      if ((await diskOf(parent)) === disk) return Buffer.byteLength(path.join(parent, OTHER + name));
    }
    return Buffer.byteLength(own);
  }

  async keep(restoreId: string, staged: StagedRestore): Promise<void> {
    await writePrivateJson(this.#file(restoreId), staged);
  }

  async remove(restoreId: string): Promise<void> {
    const file = this.#file(restoreId);
    const record = StagedRestore.safeParse(await readPrivateJson(file).catch(() => undefined)).data;
    try {
      if (record !== undefined) await rm(record.folder, { recursive: true, force: true, maxRetries: 3 });
      await rm(file, { force: true });
    } catch (error) {
      this.#warn(
        `The files of restore ${restoreId} could not be removed. The agent tries again later: ${String(error)}`,
      );
    }
  }

  #file(restoreId: string): string {
    return path.join(this.#records, `${restoreId}.json`);
  }
}

/** Each restored path lies below it and must not exceed the system's limit. The id ends with random characters. */
const shortName = (restoreId: string) => restoreId.slice(-12);
const OTHER = '.muster-';

/** The folder, or the nearest existing one above it. */
async function nearest(folder: Buffer): Promise<Buffer> {
  const isThere = await stat(folder).then(
    () => true,
    () => false,
  );
  const end = folder.lastIndexOf(path.sep);
  return isThere || end < 1 ? folder : nearest(folder.subarray(0, end));
}

const diskOf = async (folder: string | Buffer) => (await stat(folder, { bigint: true })).dev;

/** As close to the root of the disk as possible, where other users have the least rights. */
async function onOtherDisk(target: Buffer, disk: bigint, name: string): Promise<string> {
  for (const parent of withParents(target)) {
    if ((await diskOf(parent)) !== disk) continue;
    const folder = path.join(parent, name);
    try {
      return await openPrivateFolder(folder);
    } catch (error) {
      await rmdir(folder).catch(() => {});
      if (isWriteRefused(error)) continue;
      throw targetError(
        'TARGET_UNSAFE',
        'The disk to restore to has no folder that only the agent can write to. Restore without a target, and move the files.',
      );
    }
  }
  throw targetError('TARGET_NOT_WRITABLE', 'The agent may not create a folder on the disk to restore to.');
}

/** From the root down. restic cannot be given a path that is not UTF-8. */
function withParents(folder: Buffer): string[] {
  const text = folder.toString('utf8');
  const names = text.split(path.sep);
  const known = isUtf8(folder) ? names.length : names.findIndex((name) => name.includes('\ufffd'));
  return names
    .slice(0, known)
    .map((_, at) => names.slice(0, at + 1).join(path.sep) + (at === 0 ? path.sep : ''));
}
