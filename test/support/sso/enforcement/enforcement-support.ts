import { createAccessTokens } from '../../../../src/features/auth/authenticator.ts';
import { openSession } from '../../../../src/features/auth/session.service.ts';
import { withSystem } from '../../../../src/platform/db/transaction.ts';
import { newId } from '../../../../src/platform/ids.ts';
import type { Person } from '../../factories.ts';
import type { TestApp } from '../../test-app.ts';
import { insertProvider, type Owner, query } from '../sso-support.ts';

/** A provider that is active and enforced. */
export const enforceFor = (app: TestApp, owner: Owner, named: readonly Person[] = [], row: object = {}) =>
  insertProvider(app, owner, {
    name: 'Acme Login',
    enforce_sso: true,
    break_glass_user_ids: named.map(({ id }) => id),
    ...row,
  });

/** A session that a person has opened with a provider. */
export async function openSessionBy(app: TestApp, { id: userId }: Person, providerId: string) {
  const { sessionId } = await withSystem(app.server.database.pool, 'test', (tx) =>
    openSession(
      tx,
      userId,
      { ip: '127.0.0.1', trusted: false, userAgent: null },
      { mfa: false, provider: { id: providerId, name: 'Acme Login', mfa: false } },
    ),
  );
  // Rights are read from the database on each request, so these stand for nothing.
  const claims = {
    scope: 'organization',
    partnerId: null,
    orgId: null,
    roleId: newId(),
    mfa: false,
  } as const;
  return { sessionId, token: createAccessTokens(app.jwtSecret).issue({ userId, sessionId, ...claims }) };
}

interface Entry {
  org_id: string | null;
  partner_id: string | null;
  resource_id: string;
  details: Record<string, unknown>;
  result: string;
}

/** The audit entries of an action, oldest first, once they are sealed. */
export async function entriesOf(app: TestApp, action: string, actorId: string): Promise<Entry[]> {
  await app.server.chainWriter.flush();
  return query(
    app,
    `select org_id, partner_id, resource_id, details, result from audit_logs where action = ? and actor_id = ? order by id`,
    [action, actorId],
  );
}
