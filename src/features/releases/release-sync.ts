import type { Db } from '../../platform/db/pool.ts';
import { type Tx, withSystem } from '../../platform/db/transaction.ts';
import { AppError, notFound } from '../../platform/errors.ts';
import {
  type Promotion,
  promoteNewest,
  registerOnly,
  type Registration,
  type RegistryParts,
  type Content,
} from './publish-release.ts';
import { lockReleases } from './release.queries.ts';
import { AgentRelease } from './release.model.ts';
import {
  type GithubApi,
  type GithubRelease,
  latestStable,
  type Asset,
  type AssetDownloads,
  AssetFault,
  type Checksum,
  CHECKSUMS,
  parseChecksums,
} from './github-releases.ts';
import { createHash } from 'node:crypto';
import type { Target, ReleaseName } from './release-name.ts';
import { type ReleaseFiles, MAX_BYTES } from './release-files.ts';
import { releaseTargetOf } from '../../protocol/index.ts';

/** A file of a release that is not registered, and why. */
interface Failure {
  file: string;
  reason: string;
}

/** A file to register, with the hash that it must have. */
interface Planned {
  target: Target;
  asset: Asset;
  sha256: string;
}

interface Plan {
  files: Planned[];
  failed: Failure[];
}

/** The parts of a release that can be registered, as far as that is known before the download. */
function planOf({ assets }: GithubRelease, checksums: ReadonlyMap<string, Checksum>): Plan {
  const named = new Map(assets.map((asset) => [asset.name, asset]));
  const names = new Set([...named.keys(), ...checksums.keys()]);
  const ours = [...names].toSorted().flatMap((file) => {
    const target = releaseTargetOf(file);
    return target === undefined ? [] : [{ file, target }];
  });
  const plan: Plan = { files: [], failed: [] };
  for (const { file, target } of ours) {
    const [asset, checksum] = [named.get(file), checksums.get(file)];
    const isAlone = ours.filter((one) => keyOf(one.target) === keyOf(target)).length === 1;
    const reason = isAlone ? faultOf(asset, checksum) : 'The release has two files for the same platform.';
    if (asset === undefined || checksum === undefined || checksum === 'ambiguous' || reason !== undefined) {
      plan.failed.push({ file, reason: reason ?? 'It cannot be registered.' });
    } else plan.files.push({ target, asset, sha256: checksum.sha256 });
  }
  return plan;
}

function faultOf(asset: Asset | undefined, checksum: Checksum | undefined): string | undefined {
  if (asset === undefined) return `${CHECKSUMS} lists it, but the release does not have it.`;
  if (checksum === undefined) return `It is not listed in ${CHECKSUMS}.`;
  if (checksum === 'ambiguous') return `${CHECKSUMS} lists it twice.`;
  return assetFault(asset, MAX_BYTES) ?? digestFault(asset, checksum.sha256);
}

/** Why an asset is not worth downloading. */
function assetFault({ state, size }: Asset, maxBytes: number): string | undefined {
  if (state !== 'uploaded') return 'Its upload to GitHub is not complete.';
  if (size === 0) return 'It is empty.';
  return size > maxBytes ? `It is larger than the ${maxBytes} bytes that are accepted.` : undefined;
}

/** The hash that GitHub computed, if there is one, is a third opinion. */
function digestFault({ digest }: Asset, sha256: string): string | undefined {
  const [algorithm, value] = (digest ?? '').split(':');
  return algorithm === 'sha256' && value !== sha256
    ? `GitHub gives the SHA-256 ${value} for it, and not ${sha256}.`
    : undefined;
}

const keyOf = ({ component, os, architecture }: Target) => `${component}:${os}/${architecture}`;

interface FetchParts {
  db: Db;
  files: ReleaseFiles;
  downloads: AssetDownloads;
  /** BINARY_SOURCE. */
  source: 'github' | 'local';
}

/** A file that is what the release says it is. */
interface Fetched {
  file: string;
  target: Target;
  sha256: string;
  /** `undefined` if it was registered before, and nothing was downloaded. */
  content: Content | undefined;
}

interface FetchedRelease extends Pick<GithubRelease, 'version' | 'notes' | 'isPrerelease'> {
  files: Fetched[];
  failed: Failure[];
}

const CHECKSUMS_MAX_BYTES = 1 << 20;

/**
 * Downloads and checks the files of a release, one after another. A file that fails is listed, and the others go on. What
 * the answer has received has to be registered or discarded.
 */
async function fetchRelease(parts: FetchParts, release: GithubRelease): Promise<FetchedRelease> {
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

async function discardAll(files: ReleaseFiles, fetched: FetchedRelease): Promise<void> {
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
  // Files that are here stay here. Links become files if this server is to serve them.
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

/** `undefined` if the file has a fault, which is listed. */
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

export interface SyncParts extends RegistryParts {
  db: Db;
  /** Undefined without GITHUB_RELEASES_URL. */
  github: (Pick<FetchParts, 'downloads' | 'source'> & { api: GithubApi }) | undefined;
}

export interface SyncOutcome {
  version: string;
  /** The files that are registered, now or before, such as `agent:linux/x64`. */
  synced: string[];
  failed: Failure[];
  /** The releases that were not registered before. */
  added: AgentRelease[];
  promotion: Promotion;
}

const NOTHING: Promotion = { promoted: [], demoted: [] };

/** Registers releases of a repository on GitHub (docs/decisions/releases.md). */
export class ReleaseSync {
  readonly #parts: SyncParts;
  #isFetching = false;

  constructor(parts: SyncParts) {
    this.#parts = parts;
  }

  /** Downloads and checks a release: that of a version, or the latest stable one. Not within a transaction. */
  async fetch(version: string | undefined): Promise<FetchedRelease> {
    const { api } = this.#github();
    return this.#alone(async () => {
      const release = version === undefined ? latestStable(await api.list()) : await api.find(version);
      if (release === undefined) {
        throw notFound(version === undefined ? 'A stable release on GitHub' : `Version ${version} on GitHub`);
      }
      return this.#fetched(release);
    });
  }

  /** The latest stable release; `undefined` if there is none, or if it was complete once before. */
  async fetchNew(): Promise<FetchedRelease | undefined> {
    const { api } = this.#github();
    return this.#alone(async () => {
      const release = latestStable(await api.list());
      if (release === undefined || (await this.#wasComplete(release.version))) return undefined;
      return this.#fetched(release);
    });
  }

  /**
   * Registers what was fetched. A stable release of which every file is registered promotes itself, once: not again after
   * an operator has taken it back.
   */
  async register(tx: Tx, fetched: FetchedRelease): Promise<SyncOutcome> {
    const { version, isPrerelease } = fetched;
    const failed = [...fetched.failed];
    const registered: AgentRelease[] = [];
    const added: AgentRelease[] = [];
    try {
      await lockReleases(tx);
      const isTrusted = await this.#parts.keys.verifier(tx);
      for (const one of fetched.files) {
        const result = await this.#registerOne(tx, fetched, one);
        if ('release' in result && isTrusted(result.release)) {
          registered.push(result.release);
          if (result.change === 'added') added.push(result.release);
        } else {
          const reason =
            'reason' in result
              ? result.reason
              : 'The signature of its release does not hold. Publish its file again with `releases add`.';
          failed.push({ file: one.file, reason });
        }
      }
    } catch (error) {
      await discardAll(this.#parts.files, fetched);
      throw error;
    }
    const isComplete = failed.length === 0 && (await firstComplete(tx, version));
    const promotes = isComplete && this.#parts.promotesItself && !isPrerelease;
    const promotion = promotes ? await promoteNewest(tx, registered) : NOTHING;
    return { version, synced: registered.map(keyOf), failed, added, promotion };
  }

  async #registerOne(
    tx: Tx,
    { version, notes, isPrerelease }: FetchedRelease,
    { target, sha256, content }: Fetched,
  ): Promise<Pick<Registration, 'release' | 'change'> | Pick<Failure, 'reason'>> {
    const name = { version, ...target };
    // Others may have registered or deleted it while it was downloaded.
    const known = await AgentRelease.query(tx).findOne(name);
    const isSame = known === undefined ? content !== undefined : known.sha256 === sha256;
    if (!isSame) {
      if (content?.kind === 'file') await this.#parts.files.discard(content.file);
      return { reason: 'Its release was changed by another request at the same time.' };
    }
    if (content === undefined && known !== undefined) return { release: known, change: 'none' };
    if (content === undefined) throw new Error('a file without content counts as registered');
    return registerOnly(tx, this.#parts, { name, content, notes, isPrerelease });
  }

  #github() {
    const { github } = this.#parts;
    if (github !== undefined) return github;
    throw new AppError(
      'conflict',
      'This server does not know where releases come from. Set GITHUB_RELEASES_URL, such as to https://api.github.com/repos/OWNER/REPO/releases, and start it again.',
    );
  }

  #fetched(release: GithubRelease): Promise<FetchedRelease> {
    const { db, files } = this.#parts;
    const { downloads, source } = this.#github();
    return fetchRelease({ db, files, downloads, source }, release);
  }

  #wasComplete(version: string): Promise<boolean> {
    return withSystem(this.#parts.db, 'see whether a release was fetched before', async (tx) => {
      return (await tx('release_syncs').where({ version }).first('version')) !== undefined;
    });
  }

  /** Two at once would download everything twice. */
  async #alone<T>(work: () => Promise<T>): Promise<T> {
    if (this.#isFetching) throw new AppError('conflict', 'Releases are being fetched already.');
    this.#isFetching = true;
    try {
      return await work();
    } finally {
      this.#isFetching = false;
    }
  }
}

async function firstComplete(tx: Tx, version: string): Promise<boolean> {
  const rows: unknown[] = await tx('release_syncs')
    .insert({ version })
    .onConflict('version')
    .ignore()
    .returning('version');
  return rows.length > 0;
}
