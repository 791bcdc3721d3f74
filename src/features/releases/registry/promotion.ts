import { AppError, notFound } from '../../../platform/errors.ts';
import type { Tx } from '../../../platform/db/transaction.ts';
import { omitUndefined } from '../../../platform/omit-undefined.ts';
import type { Target } from './platform.ts';
import type { ReleaseKeys } from './release-keys.ts';
import { lockReleases } from './release-lock.ts';
import { AgentRelease } from './release.model.ts';
import type { PromoteRequest } from './release.schema.ts';
import { compareVersions } from './version.ts';

export interface Promotion {
  promoted: PromotedRelease[];
  demoted: PromotedRelease[];
}
type PromotedRelease = Target & { version: string };

/**
 * Makes all releases of a version what devices upgrade to, in place of those that were: all platforms or none. An
 * operator may promote a lower version than the present one, and a candidate.
 */
export async function promote(
  tx: Tx,
  keys: ReleaseKeys,
  { version, component }: PromoteRequest,
): Promise<Promotion> {
  await lockReleases(tx);
  const releases = await AgentRelease.query(tx)
    .where(omitUndefined({ version, component }))
    .orderBy(['component', 'os', 'architecture']);
  if (releases.length === 0) throw notFound(`Version ${version}`);
  const isTrusted = await keys.verifier(tx);
  const untrusted = releases.filter((release) => !isTrusted(release));
  if (untrusted.length > 0) {
    throw new AppError(
      'release_untrusted',
      `Nothing was promoted: the signature of ${untrusted.map(nameOf).join(', ')} does not hold.`,
      { details: { untrusted: untrusted.map(targetOf) } },
    );
  }
  return makeTargets(tx, releases);
}

/** Promotes new stable releases, except those on whose platform a higher version is promoted. Of a caller with the lock. */
export async function promoteNewest(tx: Tx, releases: readonly AgentRelease[]): Promise<Promotion> {
  const promoted = await AgentRelease.query(tx).where({ promoted: true });
  const present = new Map(promoted.map((one) => [platformOf(one), one.version]));
  const newest = releases.filter((release) => {
    const version = present.get(platformOf(release));
    return !release.isPrerelease && (version === undefined || compareVersions(release.version, version) > 0);
  });
  return newest.length === 0 ? { promoted: [], demoted: [] } : makeTargets(tx, newest);
}

async function makeTargets(tx: Tx, releases: readonly AgentRelease[]): Promise<Promotion> {
  const platforms = new Set(releases.map(platformOf));
  const ids = new Set(releases.map(({ id }) => id));
  const before = await AgentRelease.query(tx).where({ promoted: true });
  const demoted = before.filter((one) => platforms.has(platformOf(one)) && !ids.has(one.id));
  // The index allows one promoted release of a platform, so the earlier ones go first.
  await AgentRelease.query(tx)
    .findByIds(demoted.map(({ id }) => id))
    .patch({ promoted: false });
  await AgentRelease.query(tx)
    .findByIds([...ids])
    .patch({ promoted: true });
  return { promoted: releases.map(targetOf), demoted: demoted.map(targetOf) };
}

const platformOf = ({ component, os, architecture }: Target) => `${component} for ${os} ${architecture}`;
const nameOf = (release: AgentRelease) => `${platformOf(release)} ${release.version}`;
const targetOf = ({ component, os, architecture, version }: AgentRelease): PromotedRelease => ({
  component,
  os,
  architecture,
  version,
});
