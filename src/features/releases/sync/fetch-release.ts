import { createHash } from 'node:crypto';
import type { Db } from '../../../platform/db/pool.ts';
import { withSystem } from '../../../platform/db/transaction.ts';
import type { Target } from '../registry/platform.ts';
import type { Content } from '../registry/registration.ts';
import type { ReleaseName } from '../registry/platform.ts';
import type { ReleaseFiles } from '../registry/release-files.ts';
import { AgentRelease } from '../registry/release.model.ts';
import { type AssetDownloads, AssetFault } from './asset-download.ts';
import { type Checksum, CHECKSUMS, parseChecksums } from './checksums.ts';
import type { GithubRelease } from './github-release.ts';
import { assetFault, digestFault, type Failure, keyOf, type Planned, planOf } from './plan.ts';

export interface FetchParts {
  db: Db;
  files: ReleaseFiles;
  downloads: AssetDownloads;
  /** BINARY_SOURCE. */
  source: 'github' | 'local';
}

/** A file that is what the release says it is. */
export interface Fetched {
  file: string;
  target: Target;
  sha256: string;
  /** `undefined` where it was registered before, and nothing was downloaded. */
  content: Content | undefined;
}

export interface FetchedRelease extends Pick<GithubRelease, 'version' | 'notes' | 'isPrerelease'> {
  files: Fetched[];
  failed: Failure[];
}

const CHECKSUMS_MAX_BYTES = 1 << 20;

/**
 * Downloads and checks the files of a release, one after another. A file that fails is listed, and the others go on. What
 * the answer has received has to be registered or discarded.
 */
export async function fetchRelease(parts: FetchParts, release: GithubRelease): Promise<FetchedRelease> {
  const { version, notes, isPrerelease } = release;
  const fetched: FetchedRelease = { version, notes, isPrerelease, files: [], failed: [] };
  try {
    const checksums = await attempt(fetched, CHECKSUMS, () => readChecksums(parts, release));
    if (checksums === undefined) return fetched;
    const plan = planOf(release, checksums);
    fetched.failed.push(...plan.failed);
    if (plan.files.length + plan.failed.length === 0) {
      fetched.failed.push({ file: 'muster-…', reason: 'The release has no file of Muster.' });
    }
    const registered = await registeredFiles(parts, version);
    for (const planned of plan.files) {
      const { asset, target, sha256 } = planned;
      const content = await attempt(fetched, asset.name, () =>
        contentOf(parts, planned, { ...target, version }, registered.get(keyOf(target))),
      );
      if (content === undefined) continue;
      const isKnown = content === 'registered';
      fetched.files.push({ file: asset.name, target, sha256, content: isKnown ? undefined : content });
    }
    return fetched;
  } catch (error) {
    await discardAll(parts.files, fetched);
    throw error;
  }
}

export async function discardAll(files: ReleaseFiles, fetched: FetchedRelease): Promise<void> {
  for (const { content } of fetched.files) if (content?.kind === 'file') await files.discard(content.file);
}

async function readChecksums(
  { downloads, source }: FetchParts,
  { assets }: GithubRelease,
): Promise<ReadonlyMap<string, Checksum>> {
  const asset = assets.find(({ name }) => name === CHECKSUMS);
  if (asset === undefined) throw new AssetFault('The release does not have it.');
  const fault = assetFault(asset, CHECKSUMS_MAX_BYTES);
  if (fault !== undefined) throw new AssetFault(fault);
  const bytes = await downloads.bytes(asset, source === 'local');
  const digest = digestFault(asset, createHash('sha256').update(bytes).digest('hex'));
  if (digest !== undefined) throw new AssetFault(digest);
  return parseChecksums(bytes.toString('utf8'));
}

async function contentOf(
  { downloads, files, source }: FetchParts,
  { asset, sha256 }: Planned,
  name: ReleaseName,
  known: Registered | undefined,
): Promise<Content | 'registered'> {
  if (known !== undefined && known.sha256 !== sha256) {
    throw new AssetFault('This version is registered with another file. What was published does not change.');
  }
  // Files that are here stay here. Links become files where this server is to serve them.
  if (known !== undefined && (known.source === 'local' || source === 'github')) return 'registered';
  if (source === 'local') return { kind: 'file', file: await downloads.receive(files, asset, name, sha256) };
  await downloads.assertServed(asset, name, sha256);
  return { kind: 'link', url: asset.browser_download_url, sha256, size: asset.size };
}

type Registered = Pick<AgentRelease, 'sha256' | 'source'>;

async function registeredFiles({ db }: FetchParts, version: string): Promise<Map<string, Registered>> {
  const rows = await withSystem(db, 'read which files of a release are registered', (tx) =>
    AgentRelease.query(tx).where({ version }),
  );
  return new Map(rows.map((row) => [keyOf(row), row]));
}

/** `undefined` where the file has a fault, which is listed. */
async function attempt<T>(
  { failed }: FetchedRelease,
  file: string,
  work: () => Promise<T>,
): Promise<T | undefined> {
  try {
    return await work();
  } catch (error) {
    if (!(error instanceof AssetFault)) throw error;
    failed.push({ file, reason: error.message });
    return undefined;
  }
}
