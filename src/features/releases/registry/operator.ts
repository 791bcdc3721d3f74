import { createReadStream } from 'node:fs';
import { stat } from 'node:fs/promises';
import type { Db } from '../../../platform/db/pool.ts';
import { type Tx, withSystem } from '../../../platform/db/transaction.ts';
import type { AuditTrail } from '../../../platform/http/audit.ts';
import type { AuditNote } from '../../../platform/http/route.ts';
import type { Logger } from '../../../platform/logger.ts';
import { promoteNote, publishNote } from './audit-notes.ts';
import { type Promotion, promote } from './promotion.ts';
import { register, type Registration, type RegistryParts, type ReleaseName } from './registration.ts';
import { AgentRelease } from './release.model.ts';
import type { PromoteRequest } from './release.schema.ts';

/** What the operator of the installation can do about releases, without signing in. */

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
  const file = await parts.files.receive(createReadStream(path), { sha256, length });
  try {
    return await withSystem(parts.db, 'register a release', async (tx) => {
      const registration = await register(tx, parts, { ...name, file, notes });
      const { release, isNew } = registration;
      if (isNew) await record(tx, parts, 'agent_version.publish', publishNote(release, registration));
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
    await record(tx, parts, 'agent_version.promote', promoteNote(request.version, promotion));
    return promotion;
  });
}

const record = (tx: Tx, { audit, log }: OperatorParts, action: string, note: AuditNote) =>
  audit.record(tx, {
    action,
    resourceType: 'agent_version',
    ...note,
    actor: { kind: 'system', scope: 'system', orgId: null, partnerId: null },
    state: { client: { ip: null, userAgent: null }, log },
  });
