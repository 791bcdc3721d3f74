import { z } from 'zod';
import { clock } from '../../clock.ts';
import type { Context } from '../../platform/context.ts';
import { patchRecorded } from '../../platform/db/base-model.ts';
import { inTenant, nameOrder } from '../../platform/db/statement.ts';
import { namingConflict } from '../../platform/db/database-errors.ts';
import type { Tx } from '../../platform/db/transaction.ts';
import { AppError, notFound } from '../../platform/errors.ts';
import { toPage } from '../../platform/http/pagination.ts';
import { defineJob } from '../../platform/jobs/definition.ts';
import type { Jobs } from '../../platform/jobs/jobs.ts';
import { omitUndefined } from '../../platform/omit-undefined.ts';
import type { Encryptor } from '../../platform/secrets/sealed.ts';
import { assertManageable, assertOrganizationAccess, lockOrganization } from '../organizations/index.ts';
import { EncryptionKey, EncryptionKeyVersion, passwordOf, sealedVersion } from './key.model.ts';
import { type Repositories, repositoriesOf } from './key.queries.ts';
import type { KeyQuery, NewEncryptionKey } from './key.schema.ts';

export const RotationProgress = z.object({ done: z.number().int(), postponed: z.number().int() });

/**
 * Over all repositories of all keys that were rotated. Added with each rotation, and every five minutes for what was busy
 * in the round before.
 */
export const ROTATE = defineJob({
  name: 'backup.rotate-keys',
  input: z.object({}),
  result: RotationProgress,
  progress: RotationProgress,
  inCluster: 1,
  attempts: 1,
});

const MAX_KEYS = 100;

const accessible = (ctx: Pick<Context, 'tx' | 'caller'>) =>
  EncryptionKey.query(ctx.tx).whereRaw(inTenant(ctx.caller, 'backup_encryption_keys.org_id'));
type ShownKey = EncryptionKey & { fingerprint: string; keyType: 'aes_256'; repositories: Repositories };

/** The material of a version of a key, the newest one if none is named. */
export async function readKeyMaterial(
  tx: Tx,
  { keyId, version }: { keyId: string; version?: number },
  encryptor: Encryptor,
): Promise<{ version: number; material: Buffer }> {
  const found = await EncryptionKeyVersion.query(tx)
    .where(omitUndefined({ key_id: keyId, version }))
    .orderBy('version', 'desc')
    .first();
  if (found === undefined) throw new Error('an encryption key has no such version');
  return { version: found.version, material: Buffer.from(passwordOf(encryptor, found), 'base64') };
}

export async function listKeys(ctx: Context, query: KeyQuery) {
  if (query.orgId !== undefined) await assertOrganizationAccess(ctx, query.orgId);
  const keys = accessible(ctx)
    .orderByRaw(`${nameOrder('name')}, id`)
    .page(query.page - 1, query.limit);
  if (query.orgId !== undefined) void keys.where('org_id', query.orgId);
  const { results, total } = await keys;
  return toPage(query, { results: await withFingerprints(ctx, results), total });
}

export async function readKey(ctx: Context, id: string): Promise<ShownKey> {
  const key = await accessible(ctx).findById(id);
  if (key === undefined) throw notFound('Encryption key');
  return one(await withFingerprints(ctx, [key]));
}

export async function createKey(
  ctx: Context,
  { material, ...input }: NewEncryptionKey,
  encryptor: Encryptor,
): Promise<ShownKey> {
  await assertOrganizationAccess(ctx, input.orgId);
  await assertManageable(ctx, input.orgId);
  // Serialized by a lock on the organization, so that the limit holds.
  await lockOrganization(ctx.tx, input.orgId);
  const present = await EncryptionKey.query(ctx.tx).where('org_id', input.orgId).resultSize();
  if (present >= MAX_KEYS) throw new AppError('limit_reached', `Encryption key limit reached (${MAX_KEYS}).`);
  const key = await namingConflict(
    EncryptionKey.query(ctx.tx).insertAndFetch({ ...input, createdBy: ctx.caller.userId }),
    'backup_encryption_keys_name',
    'body.name',
    'Another encryption key of this organization has this name.',
  );
  return withVersion(
    ctx,
    key,
    sealedVersion(encryptor, { orgId: key.orgId, keyId: key.id, version: 1, material }),
  );
}

/** For the demo, which makes a key without a request. Answers its id. */
export async function makeEncryptionKey(
  tx: Tx,
  { orgId, name }: { orgId: string; name: string },
  encryptor: Encryptor,
): Promise<string> {
  const known = await EncryptionKey.query(tx).findOne({ org_id: orgId, name });
  if (known !== undefined) return known.id;
  const { id } = await EncryptionKey.query(tx).insertAndFetch({ orgId, name, createdBy: null });
  await EncryptionKeyVersion.query(tx).insert(
    sealedVersion(encryptor, { orgId, keyId: id, version: 1, material: undefined }),
  );
  return id;
}

/**
 * Makes a new version. Repositories get it at once, one after another; until all have it the status is `rotating`, and no
 * further version is made.
 */
export async function rotateKey(
  ctx: Context,
  id: string,
  { secrets, jobs }: { secrets: Encryptor; jobs: Pick<Jobs, 'enqueue'> },
): Promise<ShownKey> {
  const key = await accessible(ctx).findById(id).forNoKeyUpdate();
  if (key === undefined) throw notFound('Encryption key');
  await assertManageable(ctx, key.orgId);
  if (key.status === 'rotating') {
    throw new AppError('conflict', 'The rotation before this one has not reached every repository yet.');
  }
  const version = key.version + 1;
  const { orgId } = key;
  const next = sealedVersion(secrets, { orgId, keyId: id, version, material: undefined });
  const rotated = await patchRecorded(ctx, key, { version, status: 'rotating', rotatedAt: clock.date() });
  await jobs.enqueue(ctx.tx, ROTATE, {});
  return withVersion(ctx, rotated, next);
}

async function withVersion(
  ctx: Context,
  key: EncryptionKey,
  version: ReturnType<typeof sealedVersion>,
): Promise<ShownKey> {
  await EncryptionKeyVersion.query(ctx.tx).insert(version);
  return one(await withFingerprints(ctx, [key]));
}

async function withFingerprints(
  { tx }: Pick<Context, 'tx'>,
  keys: readonly EncryptionKey[],
): Promise<ShownKey[]> {
  const versions = await EncryptionKeyVersion.query(tx)
    .select('key_id', 'version', 'fingerprint')
    .whereIn(
      'key_id',
      keys.map(({ id }) => id),
    );
  const repositories = await repositoriesOf(tx, keys);
  return keys.map((key) => {
    const { fingerprint } = one(
      versions.filter((each) => each.keyId === key.id && each.version === key.version),
    );
    return Object.assign(key, {
      keyType: 'aes_256' as const,
      fingerprint,
      repositories: repositories.get(key.id) ?? { total: 0, onNewestVersion: 0, outOfReach: 0 },
    });
  });
}

function one<T>([only]: readonly T[]): T {
  if (only === undefined) throw new Error('an encryption key has no such version');
  return only;
}
