import { z } from 'zod';
import {
  type ApiKey,
  createApiKeyOf,
  listEveryApiKey,
  NewApiKey,
  revokeApiKeyById,
} from '../features/api-keys/index.ts';
import { loadUserRights } from '../features/auth/index.ts';
import { Organization } from '../features/organizations/index.ts';
import { findUserByEmail, User } from '../features/users/index.ts';
import { type Tx, withSystem } from '../platform/db/transaction.ts';
import type { CommandIo } from './io.ts';
import { contextAs, recordAsOperator, withInstallation } from './with-installation.ts';

export interface NewKeyOptions {
  /** The person whose rights the key has, within its permissions. */
  person: string;
  name: string;
  permission: string[];
  organization?: string;
  expiresAt?: string;
  rateLimit?: string;
  json?: true;
}

/** The key is shown only once, and not stored. */
export async function createKey(io: CommandIo, { json, ...options }: NewKeyOptions): Promise<void> {
  const { person, organization, name, permission: scopes, expiresAt, rateLimit } = options;
  const created = await withInstallation(io, { migrates: false }, ({ db, log }) =>
    withSystem(db, 'create an API key for the operator', async (tx) => {
      const user = await findUserByEmail(tx, person);
      const rights = user === undefined ? undefined : await loadUserRights(tx, user.id);
      if (rights === undefined) {
        throw new Error(`No user with the address ${person} can sign in.`);
      }
      const input = NewApiKey.safeParse({
        name,
        scopes,
        ...(organization === undefined ? {} : { orgId: await organizationId(tx, organization) }),
        ...(expiresAt === undefined ? {} : { expiresAt }),
        ...(rateLimit === undefined ? {} : { rateLimit: Number(rateLimit) }),
      });
      if (!input.success) throw new Error(faultsOf(input.error.issues));
      const key = await createApiKeyOf(contextAs(tx, log, rights), input.data);
      await recordAsOperator(tx, log, {
        action: 'api_key.create',
        ...subjectOf(key),
        details: { by: 'operator', scopes: key.scopes, person },
      });
      return key;
    }),
  );
  if (json === true) {
    io.stdout.write(`${JSON.stringify({ ok: true, apiKey: { ...described(created), key: created.key } })}\n`);
    return;
  }
  io.stderr.write(`The key ${created.id} acts for ${person}. It is shown once:\n`);
  io.stdout.write(`${created.key}\n`);
}

export async function listKeys(io: CommandIo, { json }: { json?: true }): Promise<void> {
  const keys = await withInstallation(io, { migrates: false }, ({ db }) =>
    withSystem(db, 'list the API keys for the operator', async (tx) => {
      const found = await listEveryApiKey(tx);
      const makers = await User.query(tx).whereIn('id', [
        ...new Set(found.map(({ createdBy }) => createdBy)),
      ]);
      const emails = new Map(makers.map(({ id, email }) => [id, email]));
      return found.map((key) => ({ key, person: emails.get(key.createdBy) ?? key.createdBy }));
    }),
  );
  if (json === true) {
    const apiKeys = keys.map(({ key, person }) => ({ ...described(key), person }));
    io.stdout.write(`${JSON.stringify({ ok: true, apiKeys })}\n`);
    return;
  }
  if (keys.length === 0) io.stdout.write('There is no API key. Create one with: api-keys create\n');
  for (const { key, person } of keys) {
    io.stdout.write(`${key.id}  ${key.keyPrefix}…  ${key.name}, of ${person}, ${stateOf(key)}\n`);
  }
}

export async function revokeKey(io: CommandIo, id: string, { json }: { json?: true }): Promise<void> {
  if (!z.uuid().safeParse(id).success) throw new Error(`${id} is no id of an API key: the list shows them.`);
  const { key, wasRevoked } = await withInstallation(io, { migrates: false }, ({ db, log }) =>
    withSystem(db, 'revoke an API key for the operator', async (tx) => {
      const revoked = await revokeApiKeyById(tx, id);
      if (!revoked.wasRevoked) {
        await recordAsOperator(tx, log, {
          action: 'api_key.revoke',
          ...subjectOf(revoked.key),
          details: { by: 'operator' },
        });
      }
      return revoked;
    }),
  );
  const text = wasRevoked
    ? `The key "${key.name}" was revoked before. Nothing was changed.`
    : `The key "${key.name}" opens nothing any more.`;
  io.stdout.write(json === true ? `${JSON.stringify({ ok: true, id, message: text })}\n` : `${text}\n`);
}

/** By its id, or by a unique name. */
async function organizationId(tx: Tx, given: string): Promise<string> {
  const found = await Organization.query(tx)
    .whereNull('deleted_at')
    .where(z.uuid().safeParse(given).success ? { id: given } : { name: given })
    .limit(2);
  const [organization, another] = found;
  if (organization === undefined) throw new Error(`There is no organization ${given}.`);
  if (another !== undefined) {
    throw new Error(`Several organizations are called ${given}: give the id of one.`);
  }
  return organization.id;
}

const OPTIONS: Readonly<Record<string, string>> = {
  name: '--name',
  scopes: '--permission',
  expiresAt: '--expires-at',
  rateLimit: '--rate-limit',
};

const faultsOf = (issues: readonly { path: PropertyKey[]; message: string }[]): string =>
  issues.map(({ path, message }) => `${OPTIONS[String(path[0])] ?? String(path[0])}: ${message}`).join('\n');

const subjectOf = ({ id, name, orgId }: Pick<ApiKey, 'id' | 'name' | 'orgId'>) => ({
  resourceType: 'api_key',
  resourceId: id,
  resourceName: name,
  orgId,
});

/** The JSON output of a key. */
type Shown = Pick<
  ApiKey,
  'id' | 'orgId' | 'name' | 'keyPrefix' | 'scopes' | 'rateLimit' | 'expiresAt' | 'revokedAt'
>;
const described = ({ id, orgId, name, keyPrefix, scopes, rateLimit, expiresAt, revokedAt }: Shown) => ({
  id,
  orgId,
  name,
  keyPrefix,
  scopes,
  rateLimit,
  expiresAt,
  revokedAt,
});

function stateOf({
  revokedAt,
  expiresAt,
  lastUsedAt,
}: Pick<ApiKey, 'revokedAt' | 'expiresAt' | 'lastUsedAt'>) {
  if (revokedAt !== null) return `revoked ${revokedAt.toISOString()}`;
  const used = lastUsedAt === null ? 'never used' : `last used ${lastUsedAt.toISOString()}`;
  return expiresAt === null ? used : `expires ${expiresAt.toISOString()}, ${used}`;
}
