import type { Db } from '../../../platform/db/pool.ts';
import { type Tx, withSystem } from '../../../platform/db/transaction.ts';
import { AppError, notFound } from '../../../platform/errors.ts';
import { type Promotion, promoteNewest } from '../registry/promotion.ts';
import { registerOnly, type Registration, type RegistryParts } from '../registry/registration.ts';
import { lockReleases } from '../registry/release-lock.ts';
import { AgentRelease } from '../registry/release.model.ts';
import {
  discardAll,
  type Fetched,
  type FetchedRelease,
  type FetchParts,
  fetchRelease,
} from './fetch-release.ts';
import type { GithubApi } from './github-api.ts';
import { type GithubRelease, latestStable } from './github-release.ts';
import { type Failure, keyOf } from './plan.ts';

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
  /** Those that were not registered before. */
  added: AgentRelease[];
  promotion: Promotion;
}

const NOTHING: Promotion = { promoted: [], demoted: [] };

/** Registers releases of a repository on GitHub (docs/decisions/release-sync.md). */
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

  /** The latest stable release; `undefined` where there is none, or where it was complete once before. */
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
      return { reason: 'Its release was changed by somebody else at the same time.' };
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
