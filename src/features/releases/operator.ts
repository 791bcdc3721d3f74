import { createReadStream } from 'node:fs';
import { stat } from 'node:fs/promises';
import type { Db } from '../../platform/db/pool.ts';
import { withSystem } from '../../platform/db/transaction.ts';
import { notFound } from '../../platform/errors.ts';
import type { AuditTrail } from '../../platform/http/audit.ts';
import type { Logger } from '../../platform/logger.ts';
import { omitUndefined } from '../../platform/omit-undefined.ts';
import type { ReleaseKey } from '../../protocol/index.ts';
import {
  promoteNote,
  publishNotes,
  recordAsSystem,
  signNote,
  type Promotion,
  promote,
  register,
  type Registration,
  type RegistryParts,
} from './publish-release.ts';
import type { ReleaseName } from './release-name.ts';
import { lockReleases } from './release.queries.ts';
import { AgentRelease } from './release.model.ts';
import type { PromoteRequest } from './release.schema.ts';

/**
 * The parts of releases for commands beside the server. The door of the feature loads all of it, which takes longer
 * than any of these commands.
 */
export { Architecture, Component, OperatingSystem } from './release-name.ts';
export type { Promotion } from './publish-release.ts';
export { openReleaseFiles } from './release-files.ts';
export { ReleaseKeys } from './release-keys.ts';
export type { PromoteRequest } from './release.schema.ts';

/** Actions of the operator of the installation on releases, without signing in. */

export interface OperatorParts extends RegistryParts {
  db: Db;
  log: Logger;
  audit: Pick<AuditTrail, 'record'>;
}

/** Newest first. */
export function listAllReleases(db: Db): Promise<AgentRelease[]> {
  return withSystem(db, 'list the releases', (tx) =>
    AgentRelease.query(tx).orderBy([
      { column: 'created_at', order: 'desc' },
      { column: 'id', order: 'desc' },
    ]),
  );
}

/** Copies a file into the data folder and registers it. */
export async function addRelease(
  parts: OperatorParts,
  name: ReleaseName,
  { path, sha256, notes }: { path: string; sha256: string | undefined; notes: string | undefined },
): Promise<Registration> {
  const { size: length } = await stat(path);
  await parts.keys.ensure(parts.db);
  const file = await parts.files.receive(createReadStream(path), { name, sha256, length });
  try {
    return await withSystem(parts.db, 'register a release', async (tx) => {
      const registration = await register(tx, parts, { ...name, file, notes });
      for (const note of publishNotes(registration.release, registration)) {
        await recordAsSystem(tx, parts, note);
      }
      return registration;
    });
  } catch (error) {
    await parts.files.discard(file);
    throw error;
  }
}

export function promoteVersion(parts: OperatorParts, request: PromoteRequest): Promise<Promotion> {
  return withSystem(parts.db, 'promote a version', async (tx) => {
    const promotion = await promote(tx, parts.keys, request);
    const note = promoteNote(request.version, promotion);
    await recordAsSystem(tx, parts, { action: 'agent_version.promote', ...note });
    return promotion;
  });
}

/**
 * Signs again with the present key what earlier keys have signed. What no key of this installation has signed is not
 * signed here: its bytes would have to be seen, as `addRelease` does.
 */
export function signReleases(
  parts: OperatorParts,
  only: { version?: string },
): Promise<{ signed: AgentRelease[]; refused: AgentRelease[] }> {
  return withSystem(parts.db, 'sign releases with the present key', async (tx) => {
    await lockReleases(tx);
    const isTrusted = await parts.keys.verifier(tx);
    const releases = await AgentRelease.query(tx).where(omitUndefined(only)).orderBy(['created_at', 'id']);
    if (only.version !== undefined && releases.length === 0) throw notFound(`Version ${only.version}`);
    const signed: AgentRelease[] = [];
    const refused = releases.filter((release) => !isTrusted(release));
    for (const release of releases.filter((one) => !refused.includes(one))) {
      const { keyId, signature } = await parts.keys.sign(tx, release);
      if (keyId === release.keyId) continue;
      await release.$query(tx).patch({ keyId, signature });
      await recordAsSystem(tx, parts, signNote(release));
      signed.push(release);
    }
    return { signed, refused };
  });
}

/** Replaces the key that signs releases. */
export function rotateReleaseKey(parts: OperatorParts, how: { vouched: boolean }): Promise<ReleaseKey> {
  return withSystem(parts.db, 'replace the key that signs releases', async (tx) => {
    const key = await parts.keys.rotate(tx, how);
    await recordAsSystem(tx, parts, {
      action: 'release_key.rotate',
      resourceType: 'release_key',
      resourceId: key.id,
      details: { signedBy: key.signedBy ?? null },
    });
    return key;
  });
}
