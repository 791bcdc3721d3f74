import { AppError } from '../../../platform/errors.ts';
import type { Tx } from '../../../platform/db/transaction.ts';
import type { Target } from './platform.ts';
import { type Promotion, promoteIfNewest } from './promotion.ts';
import type { ReceivedFile, ReleaseFiles } from './release-files.ts';
import type { ReleaseKeys } from './release-keys.ts';
import { lockReleases } from './release-lock.ts';
import { AgentRelease } from './release.model.ts';
import { isPrerelease } from './version.ts';

export interface RegistryParts {
  files: ReleaseFiles;
  keys: ReleaseKeys;
  /** AGENT_AUTO_PROMOTE. */
  promotesItself: boolean;
}

export type ReleaseName = Target & { version: string };

export interface Registration {
  release: AgentRelease;
  /** False where the same file was registered before. */
  isNew: boolean;
  promotion: Promotion;
}

/** Throws `conflict` where the version is registered with other bytes: what was published does not change. */
export async function assertFree(tx: Tx, name: ReleaseName, sha256: string): Promise<void> {
  assertSame(await find(tx, name), sha256);
}

/** Signs and registers a file that was received. The same file under the same name again repairs what is on the disk. */
export async function register(
  tx: Tx,
  { files, keys, promotesItself }: RegistryParts,
  { file, notes, ...name }: ReleaseName & { file: ReceivedFile; notes: string | undefined },
): Promise<Registration> {
  await lockReleases(tx);
  const known = await find(tx, name);
  assertSame(known, file.sha256);
  await files.keep(file);
  const nothing: Promotion = { promoted: [], demoted: [] };
  if (known !== undefined) return { release: known, isNew: false, promotion: nothing };

  const manifest = { ...name, sha256: file.sha256, size: file.size };
  const release = await AgentRelease.query(tx).insertAndFetch({
    ...manifest,
    ...(await keys.sign(tx, manifest)),
    source: 'local',
    notes: notes ?? null,
    isPrerelease: isPrerelease(name.version),
  });
  if (!promotesItself) return { release, isNew: true, promotion: nothing };
  const promotion = await promoteIfNewest(tx, release);
  return { release: await release.$query(tx), isNew: true, promotion };
}

const find = (tx: Tx, { version, component, os, architecture }: ReleaseName) =>
  AgentRelease.query(tx).findOne({ version, component, os, architecture });

function assertSame(known: AgentRelease | undefined, sha256: string): void {
  if (known === undefined || (known.sha256 === sha256 && known.source === 'local')) return;
  throw new AppError(
    'conflict',
    `Version ${known.version} of ${known.component} for ${known.os} ${known.architecture} is registered with another file. Publish the file under a new version.`,
  );
}
