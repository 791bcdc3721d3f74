import { withSystem, type Tx } from '../../src/platform/db/transaction.ts';
import { newId } from '../../src/platform/ids.ts';
import { hashPassword } from '../../src/platform/secrets/passwords.ts';
import { newToken, tokenHash } from '../../src/platform/secrets/tokens.ts';
import { SYSTEM_ROLES } from '../../src/features/users/index.ts';
import { createAccessTokens } from '../../src/features/auth/authenticator.ts';
import { openSession } from '../../src/features/auth/session.service.ts';
import type { Db } from '../../src/platform/db/pool.ts';
import type { TestApp } from './test-app.ts';

/** Rows with every value filled in, so that a test names just what it is about. */

/** A server, be it in this process or another one, and its database. */
export type Ground = Pick<TestApp, 'call' | 'log'> & {
  server: { database: { pool: Db } };
  /** Of a server that signs with a secret that the test knows: its people get sessions without signing in. */
  jwtSecret?: string;
};

let count = 0;
const next = () => ++count;

export const PASSWORD = 'Correct-Horse-9';
let passwordHash: Promise<string> | undefined;

type Row = Record<string, unknown>;

async function insert(app: Ground, table: string, row: Row): Promise<string> {
  const id = newId();
  await withSystem(app.server.database.pool, 'test data', (tx: Tx) => tx(table).insert({ id, ...row }));
  return id;
}

export const buildPartner = (app: Ground, row: Row = {}) =>
  insert(app, 'partners', {
    name: `Partner ${next()}`,
    slug: `partner-${newId()}`,
    status: 'active',
    ...row,
  });

export const buildOrganization = (app: Ground, partnerId: string, row: Row = {}) =>
  insert(app, 'organizations', {
    partner_id: partnerId,
    name: `Organization ${next()}`,
    slug: `org-${newId()}`,
    ...row,
  });

export const buildSite = (app: Ground, orgId: string, row: Row = {}) =>
  insert(app, 'sites', { org_id: orgId, name: `Site ${next()}`, ...row });

export interface Person {
  id: string;
  email: string;
  token: string;
}

type Membership =
  | { scope: 'system'; role?: string }
  | {
      scope: 'partner';
      partnerId: string;
      role?: string;
      orgAccess?: 'all' | 'selected' | 'none';
      orgIds?: string[];
    }
  | { scope: 'organization'; orgId: string; role?: string };

/**
 * A person with a membership and a session. The session is made as sign-in makes it, without the cost of checking a
 * password; tests of sign-in itself call `signIn`.
 */
export async function buildPerson(app: Ground, membership: Membership): Promise<Person> {
  const id = newId();
  const email = `person-${next()}-${newId().slice(-6)}@example.com`;
  passwordHash ??= hashPassword(PASSWORD);
  const user = {
    id,
    email,
    name: `Person ${count}`,
    password_hash: await passwordHash,
    email_verified_at: new Date(),
  };
  const { jwtSecret } = app;
  const token = await withSystem(app.server.database.pool, 'test data', async (tx) => {
    await tx('users').insert(user);
    const roleId = await insertMembership(tx, id, membership);
    if (jwtSecret === undefined) return undefined;
    const { sessionId } = await openSession(tx, id, { ip: '127.0.0.1', trusted: false, userAgent: null });
    return createAccessTokens(jwtSecret).issue({
      userId: id,
      sessionId,
      scope: membership.scope,
      partnerId: membership.scope === 'partner' ? membership.partnerId : null,
      orgId: membership.scope === 'organization' ? membership.orgId : null,
      roleId,
      mfa: false,
    });
  });
  return { id, email, token: token ?? (await signIn(app, email)) };
}

/** Answers the id of the role. */
async function insertMembership(tx: Tx, userId: string, membership: Membership): Promise<string> {
  switch (membership.scope) {
    case 'system': {
      const { role = SYSTEM_ROLES.systemAdmin } = membership;
      await tx('system_users').insert({ user_id: userId, role_id: role });
      return role;
    }
    case 'partner': {
      const { partnerId, role = SYSTEM_ROLES.partnerAdmin, orgAccess = 'all', orgIds = [] } = membership;
      await tx('partner_users').insert({
        partner_id: partnerId,
        user_id: userId,
        role_id: role,
        org_access: orgAccess,
        org_ids: orgIds,
      });
      return role;
    }
    case 'organization': {
      const { orgId, role = SYSTEM_ROLES.organizationAdmin } = membership;
      await tx('organization_users').insert({ org_id: orgId, user_id: userId, role_id: role });
      return role;
    }
    default:
      return membership satisfies never;
  }
}

export async function signIn(app: Ground, email: string, password = PASSWORD): Promise<string> {
  const answer = await app.call('POST', '/auth/login', { body: { email, password } });
  if (answer.status !== 200) throw new Error(`sign-in failed: ${JSON.stringify(answer.body)}`);
  return answer.body.tokens.accessToken;
}

/** An enrollment key; the answer is the key itself. */
export async function buildEnrollmentKey(app: Ground, orgId: string, row: Row = {}): Promise<string> {
  const key = newToken('enrollmentKey');
  await insert(app, 'enrollment_keys', {
    org_id: orgId,
    name: 'Test key',
    key_hash: tokenHash(key),
    key_prefix: key.slice(0, 10),
    ...row,
  });
  return key;
}

export const MACHINE = {
  hostname: 'DESK-1',
  osType: 'linux',
  osVersion: 'Debian 12',
  architecture: 'x64',
  agentVersion: '1.0.0',
} as const;

export interface EnrolledDevice {
  deviceId: string;
  orgId: string;
  siteId: string;
  token: string;
}

/** A device that came in through the ordinary enrollment route. @param token  that it has already */
export async function buildDevice(
  app: Ground,
  orgId: string,
  machine: Row = {},
  token?: string,
): Promise<EnrolledDevice> {
  const enrollmentKey = await buildEnrollmentKey(app, orgId);
  const answer = await app.call('POST', '/agents/enroll', {
    body: { ...MACHINE, hostname: `DESK-${next()}`, ...machine, enrollmentKey },
    ...(token === undefined ? {} : { token }),
  });
  if (answer.status !== 201) {
    throw new Error(
      `enrollment failed: ${JSON.stringify([answer.body, app.log.filter((line) => line['level'] === 'error')])}`,
    );
  }
  return answer.body;
}

/** One partner with one organization, and people of each scope. */
export async function buildTenant(app: Ground) {
  const partnerId = await buildPartner(app);
  const orgId = await buildOrganization(app, partnerId);
  const siteId = await buildSite(app, orgId);
  return {
    partnerId,
    orgId,
    siteId,
    admin: await buildPerson(app, { scope: 'partner', partnerId }),
    technician: await buildPerson(app, {
      scope: 'organization',
      orgId,
      role: SYSTEM_ROLES.organizationTechnician,
    }),
  };
}

/** From now on the person's sessions count as opened with a second factor. */
export async function giveSecondFactor<P extends Pick<Person, 'id'>>(app: Ground, person: P): Promise<P> {
  await withSystem(app.server.database.pool, 'test data', async (tx) => {
    await tx('users').where({ id: person.id }).update({ mfa_enabled: true });
    await tx('sessions').where({ user_id: person.id }).update({ mfa: true });
  });
  return person;
}
