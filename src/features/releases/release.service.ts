import type { Context, PublicContext } from '../../platform/context.ts';
import { type Tx, withSystem } from '../../platform/db/transaction.ts';
import { AppError, notFound } from '../../platform/errors.ts';
import { FileAnswer, Redirect } from '../../platform/http/file-answer.ts';
import { type Page, toPage } from '../../platform/http/pagination.ts';
import { omitUndefined } from '../../platform/omit-undefined.ts';
import { type Target, type ReleaseName, compareVersions } from './release-name.ts';
import type { ReleaseFiles } from './release-files.ts';
import { isPinned, lockReleases } from './release.queries.ts';
import { AgentRelease } from './release.model.ts';
import type { ReleaseQuery } from './release.schema.ts';
import type { Db } from '../../platform/db/pool.ts';
import type { Logger } from '../../platform/logger.ts';

export async function listReleases(
  { tx }: Context,
  { page, limit, ...filter }: ReleaseQuery,
): Promise<Page<AgentRelease>> {
  const found = await AgentRelease.query(tx)
    .where(omitUndefined(filter))
    .orderBy([
      { column: 'created_at', order: 'desc' },
      { column: 'id', order: 'desc' },
    ])
    .page(page - 1, limit);
  return toPage({ page, limit }, found);
}

export async function latestRelease(ctx: PublicContext, target: Target): Promise<AgentRelease> {
  const release = await ctx.withSystem('find the promoted release of a platform', (tx) =>
    AgentRelease.query(tx).findOne({ ...target, promoted: true }),
  );
  if (release === undefined) throw notFound('Release');
  return release;
}

/** The file of a release from this server, or a redirect to where it is. */
export async function openDownload(
  ctx: PublicContext,
  files: ReleaseFiles,
  name: ReleaseName,
): Promise<FileAnswer | Redirect> {
  const release = await ctx.withSystem('find the release that is downloaded', (tx) =>
    AgentRelease.query(tx).findOne(name),
  );
  if (release === undefined) throw notFound('Release');
  if (release.downloadUrl !== null) return new Redirect(release.downloadUrl, 302);
  const { component, version, os, architecture, sha256, size, id: releaseId } = release;
  const place = await files.find({ sha256, size });
  if (place === undefined) {
    ctx.log.error({ releaseId, sha256, size }, 'releases.file_missing');
    throw new AppError('unavailable', 'The file of this release is missing on this server.');
  }
  if ('url' in place) return new Redirect(place.url, 302);
  return new FileAnswer({
    ...place,
    sha256,
    fileName: `muster-${component}-${version}-${os}-${architecture}`,
  });
}

/** The versions that a partner or an organization can pin. */
export async function pinnableVersions({ tx }: Context) {
  const rows = await AgentRelease.query(tx)
    .select('component', 'version', 'promoted')
    .whereIn('component', ['agent', 'watchdog']);
  const of = (component: 'agent' | 'watchdog') => {
    const own = rows.filter((row) => row.component === component);
    const versions = descending(own);
    return { versions, promoted: descending(own.filter(({ promoted }) => promoted))[0] ?? null };
  };
  return { components: { agent: of('agent'), watchdog: of('watchdog') } };
}

const descending = (releases: readonly AgentRelease[]): string[] =>
  [...new Set(releases.map(({ version }) => version))].sort((a, b) => compareVersions(b, a));

export interface DeletionParts {
  /** Removes a file that no release has any more. */
  forgetFile: (sha256: string) => Promise<void>;
  isRolledOut: (tx: Tx, release: Pick<AgentRelease, 'component' | 'version'>) => Promise<boolean>;
}

/** Deletes a release, and its file unless another release has the same. */
export async function deleteRelease(
  ctx: Context,
  id: string,
  { forgetFile, isRolledOut }: DeletionParts,
): Promise<{ success: true; release: AgentRelease }> {
  await lockReleases(ctx.tx);
  const release = await AgentRelease.query(ctx.tx).findById(id);
  if (release === undefined) throw notFound('Release');
  if (release.promoted) {
    throw new AppError('conflict', 'The release is promoted. Promote another version of its platform first.');
  }
  if (await isPinned(ctx.tx, release)) {
    throw new AppError('conflict', 'A partner or an organization pins this version. Remove its pin first.');
  }
  if (await isRolledOut(ctx.tx, release)) {
    throw new AppError(
      'conflict',
      'The newest rollout of this component is of this version. Abort it, or start another one first.',
    );
  }
  await release.$query(ctx.tx).delete();
  if (release.source === 'local') ctx.afterCommit(() => forgetFile(release.sha256));
  return { success: true, release };
}

/**
 * Removes a file that no release has any more. A file that cannot be removed stays: the release is deleted all the same.
 */
export async function removeIfUnused(
  { db, files, log }: { db: Db; files: ReleaseFiles; log: Logger },
  sha256: string,
): Promise<void> {
  try {
    await withSystem(db, 'remove the file of a deleted release', async (tx) => {
      // Without the lock, an upload of the same file could be registered between the question and the removal.
      await lockReleases(tx);
      const user = await AgentRelease.query(tx).findOne({ sha256, source: 'local' });
      if (user === undefined) await files.remove(sha256);
    });
  } catch (error) {
    log.warn({ err: error, sha256 }, 'releases.file_not_removed');
  }
}
