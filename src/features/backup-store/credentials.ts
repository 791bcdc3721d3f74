import { timingSafeEqual } from 'node:crypto';
import type { Db } from '../../platform/db/pool.ts';
import { runPrepared, type Tx } from '../../platform/db/transaction.ts';
import { AppError, notFound } from '../../platform/errors.ts';
import { newId } from '../../platform/ids.ts';
import { isWellFormed, newToken, tokenHash } from '../../platform/secrets/tokens.ts';
import {
  type KnownObject,
  type Role,
  type StoreAccess,
  type Target,
  WRITES_AS_DEVICE,
} from './store-protocol.ts';
import { shareRepository } from './store.queries.ts';

/**
 * Credentials of the store: each opens one repository, for one job and some hours. The user name is the id, and only the
 * password is a secret, because restic hides passwords of URLs in its messages and shows user names.
 */

export interface NewCredential {
  repositoryId: string;
  role: Role;
  /** The job that it is for. */
  jobId?: string;
  /** For the role `as-of`: the time at which the repository is shown. */
  asOf?: Date;
  expiresAt: Date;
}

export interface IssuedCredential {
  id: string;
  user: string;
  /** Not readable afterwards: the store keeps its hash. */
  secret: string;
}

/**
 * Throws `conflict` if a device would write into a repository that is being pruned, and if the state that is asked
 * for has been purged.
 */
export async function issueCredential(tx: Tx, wanted: NewCredential): Promise<IssuedCredential> {
  const { repositoryId, role, jobId, asOf, expiresAt } = wanted;
  if ((role === 'as-of') !== (asOf !== undefined)) throw new Error('a time belongs to the role as-of');
  const id = newId();
  const secret = newToken('backupStore');
  const repository = await shareRepository(tx, repositoryId);
  if (repository === undefined) throw notFound('Repository');
  if (WRITES_AS_DEVICE.has(role) && repository.isPruned) {
    throw new AppError('conflict', 'The repository is being pruned. Wait until that has ended.');
  }
  const { purgedThrough } = repository;
  if (asOf !== undefined && purgedThrough !== null && asOf < purgedThrough) {
    throw new AppError(
      'conflict',
      `What was deleted before ${purgedThrough.toISOString()} is gone. Choose a later time.`,
    );
  }
  await tx('backup_store_credentials').insert({
    id,
    org_id: repository.orgId,
    repository_id: repositoryId,
    secret_hash: tokenHash(secret),
    role,
    job_id: jobId ?? null,
    as_of: asOf ?? null,
    expires_at: expiresAt,
  });
  return { id, user: id, secret };
}

/** From now on the credential opens nothing, and its locks do not count. */
export async function endCredential(tx: Tx, id: string): Promise<void> {
  await tx('backup_store_credentials').where({ id }).whereNull('ended_at').update({ ended_at: tx.fn.now() });
}

/** Ends all credentials of a job, or of a restore that runs. */
export async function endCredentialsOfJob(tx: Tx, jobId: string): Promise<void> {
  await tx('backup_store_credentials')
    .where({ job_id: jobId })
    .whereNull('ended_at')
    .update({ ended_at: tx.fn.now() });
}

/** Extends them, including those that have expired. */
export async function extendCredentialsOfJob(tx: Tx, jobId: string, expiresAt: Date): Promise<void> {
  await tx('backup_store_credentials')
    .where({ job_id: jobId })
    .whereNull('ended_at')
    .update({ expires_at: expiresAt });
}

/** An expired credential stays expired. */
export async function extendCredential(tx: Tx, id: string, expiresAt: Date): Promise<void> {
  await tx('backup_store_credentials')
    .where({ id })
    .whereNull('ended_at')
    .where('expires_at', '>', tx.fn.now())
    .update({ expires_at: expiresAt });
}

interface RequestRow {
  secret_hash: string;
  role: Role;
  repository_id: string;
  org_id: string;
  partner_id: string;
  job_id: string | null;
  as_of: Date | null;
  snapshot_name: string | null;
  expires_at: Date;
  is_live: boolean;
  is_pruning: boolean;
  size: string | null;
  object_credential_id: string | null;
  object_role: Role | null;
  arrived_at: Date | null;
  trashed_at: Date | null;
  lost_at: Date | null;
}

const REQUEST = {
  name: 'backup-store-request',
  text: 'select * from backup_store_request($1, $2, $3)',
};

const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

/** The credential in `Authorization: Basic …`, if it can be one of the store. */
export function basicCredential(header: string | undefined): { id: string; secret: string } | undefined {
  const [, encoded] = /^Basic ([A-Za-z0-9+/=]{1,400})$/i.exec(header ?? '') ?? [];
  if (encoded === undefined) return undefined;
  const [id = '', secret = '', ...rest] = Buffer.from(encoded, 'base64').toString('latin1').split(':');
  if (rest.length > 0 || !UUID.test(id) || !isWellFormed('backupStore', secret)) return undefined;
  return { id, secret };
}

/** `undefined` unless the credential is right, has not ended, and is of this repository. */
export async function findAccess(
  db: Db,
  { id, secret }: { id: string; secret: string },
  { repositoryId, target }: { repositoryId: string; target: Target },
): Promise<StoreAccess | undefined> {
  const { type, name }: { type?: string; name?: string } = target.kind === 'object' ? target : {};
  const [row] = await runPrepared<RequestRow>(db, REQUEST, [id, type ?? '', name ?? '']);
  // The comparison takes as long for a wrong secret as for none.
  const expected = Buffer.from(row?.secret_hash ?? '0'.repeat(64));
  const isRight = timingSafeEqual(Buffer.from(tokenHash(secret)), expected);
  if (row === undefined || !isRight || !row.is_live || row.repository_id !== repositoryId) return undefined;
  return {
    credentialId: id,
    role: row.role,
    repositoryId,
    orgId: row.org_id,
    partnerId: row.partner_id,
    jobId: row.job_id,
    asOf: row.as_of,
    snapshotName: row.snapshot_name,
    expiresAt: row.expires_at,
    isPruning: row.is_pruning,
    object: objectOf(row),
  };
}

function objectOf(row: RequestRow): KnownObject | undefined {
  if (row.size === null || row.arrived_at === null) return undefined;
  return {
    size: Number(row.size),
    credentialId: row.object_credential_id,
    writerRole: row.object_role,
    arrivedAt: row.arrived_at,
    trashedAt: row.trashed_at,
    lostAt: row.lost_at,
  };
}

/** Whether an object exists for the holder of the credential. */
export function isVisible({ asOf, object }: Pick<StoreAccess, 'asOf' | 'object'>): boolean {
  if (object === undefined || object.lostAt !== null) return false;
  if (asOf === null) return object.trashedAt === null;
  return object.arrivedAt <= asOf && (object.trashedAt === null || object.trashedAt > asOf);
}
