import { AppError } from '../../../platform/errors.ts';
import type { Tx } from '../../../platform/db/transaction.ts';
import type { ReleaseName } from './platform.ts';
import { type Promotion, promoteNewest } from './promotion.ts';
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

/** Where the bytes of a release are: in a file that was received, or where GitHub serves them to devices. */
export type Content =
  | { kind: 'file'; file: ReceivedFile }
  | { kind: 'link'; url: string; sha256: string; size: number };

/** `none`: the same file was registered before. `signed`: it was, and its signature did not hold any more. */
export type Change = 'none' | 'added' | 'signed';

export interface Registration {
  release: AgentRelease;
  change: Change;
  promotion: Promotion;
}

/** Throws `conflict` where the version is registered with other bytes: what was published does not change. */
export async function assertFree(tx: Tx, name: ReleaseName, sha256: string): Promise<void> {
  assertSame(await find(tx, name), sha256);
}

/**
 * Signs and registers a file that was received. The same file under the same name again repairs what is on the disk, and a
 * signature that does not hold.
 */
export async function register(
  tx: Tx,
  parts: RegistryParts,
  { file, notes, ...name }: ReleaseName & { file: ReceivedFile; notes: string | undefined },
): Promise<Registration> {
  await lockReleases(tx);
  const { release, change } = await registerOnly(tx, parts, {
    name,
    content: { kind: 'file', file },
    notes: notes ?? null,
    isPrerelease: isPrerelease(name.version),
  });
  if (change !== 'added' || !parts.promotesItself) {
    return { release, change, promotion: { promoted: [], demoted: [] } };
  }
  const promotion = await promoteNewest(tx, [release]);
  return { release: await release.$query(tx), change, promotion };
}

/** The same without a promotion. Of a caller with the lock. */
export async function registerOnly(
  tx: Tx,
  { files, keys }: Pick<RegistryParts, 'files' | 'keys'>,
  {
    name,
    content,
    notes,
    isPrerelease: isCandidate,
  }: { name: ReleaseName; content: Content; notes: string | null; isPrerelease: boolean },
): Promise<Pick<Registration, 'release' | 'change'>> {
  const { sha256, size } = content.kind === 'file' ? content.file : content;
  const known = await find(tx, name);
  assertSame(known, sha256);
  if (content.kind === 'file') await files.keep(content.file);
  const place =
    content.kind === 'file'
      ? { source: 'local' as const, downloadUrl: null }
      : { source: 'github' as const, downloadUrl: content.url };
  const manifest = { ...name, sha256, size };
  if (known !== undefined) {
    // A file that is here is served from here, also where only its address was known before.
    if (content.kind === 'file' && known.source === 'github') await known.$query(tx).patch(place);
    if ((await keys.verifier(tx))(known)) return { release: known, change: 'none' };
    await known.$query(tx).patch({ size, ...(await keys.sign(tx, manifest)) });
    return { release: known, change: 'signed' };
  }
  const signature = await keys.sign(tx, manifest);
  const release = await AgentRelease.query(tx).insertAndFetch({
    ...manifest,
    ...signature,
    ...place,
    notes,
    isPrerelease: isCandidate,
  });
  return { release, change: 'added' };
}

const find = (tx: Tx, { version, component, os, architecture }: ReleaseName) =>
  AgentRelease.query(tx).findOne({ version, component, os, architecture });

function assertSame(known: AgentRelease | undefined, sha256: string): void {
  if (known === undefined || known.sha256 === sha256) return;
  throw new AppError(
    'conflict',
    `Version ${known.version} of ${known.component} for ${known.os} ${known.architecture} is registered with another file. Publish the file under a new version.`,
  );
}
