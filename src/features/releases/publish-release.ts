import { AppError, notFound } from '../../platform/errors.ts';
import type { Tx } from '../../platform/db/transaction.ts';
import { type ReleaseName, isPrerelease, type Target, compareVersions } from './release-name.ts';
import type { ReceivedFile, ReleaseFiles } from './release-files.ts';
import type { ReleaseKeys } from './release-keys.ts';
import { lockReleases } from './release.queries.ts';
import { AgentRelease } from './release.model.ts';
import { omitUndefined } from '../../platform/omit-undefined.ts';
import type { PromoteRequest } from './release.schema.ts';
import type { AuditTrail } from '../../platform/http/audit.ts';
import type { AuditNote } from '../../platform/http/route.ts';
import type { Logger } from '../../platform/logger.ts';

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

/** Throws `conflict` if the version is registered with other bytes: what was published does not change. */
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
    // A file that is here is served from here, even if only its address was known before.
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

/** The audit entries of releases, for routes and for the command line. */

type Published = ReleaseName & { id: string; sha256: string };

export const releaseNote = ({ id, version, ...release }: Published): AuditNote => ({
  resourceId: id,
  resourceName: version,
  details: { ...platformDetails(release), sha256: release.sha256 },
});

/** The audit entries of a publication; none if nothing was changed. */
export function publishNotes(
  release: Published,
  { change, promotion }: Pick<Registration, 'change' | 'promotion'>,
): (AuditNote & { action: string })[] {
  if (change === 'none') return [];
  if (change === 'signed') return [signNote(release)];
  const note = releaseNote(release);
  const details = { ...note.details, ...promotion };
  return [{ action: 'agent_version.publish', ...note, details }];
}

export const signNote = (release: Published) => ({ action: 'agent_version.sign', ...releaseNote(release) });

export const promoteNote = (version: string, promotion: Promotion): AuditNote => ({
  resourceName: version,
  details: { ...promotion, ...promotionChange(promotion) },
});

/** The promoted versions before and after a promotion, on the platforms that it concerns. */
export const promotionChange = ({ promoted, demoted }: Promotion) => ({
  before: { promoted: demoted },
  after: { promoted },
});

const platformDetails = ({ component, os, architecture }: Target) => ({ component, os, architecture });

/** Records what the operator's command line or a job did: an act of the system, of no tenant. */
export const recordAsSystem = (
  tx: Tx,
  { audit, log }: { audit: Pick<AuditTrail, 'record'>; log: Logger },
  { action, resourceType = 'agent_version', ...note }: AuditNote & { action: string; resourceType?: string },
) =>
  audit.record(tx, {
    action,
    resourceType,
    ...note,
    actor: { kind: 'system', scope: 'system', orgId: null, partnerId: null },
    state: { client: { ip: null, userAgent: null }, log },
  });
