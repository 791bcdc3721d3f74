import { createAccessTokens } from '../../../../src/features/auth/sessions/access-token.ts';
import { openSession } from '../../../../src/features/auth/sessions/session.service.ts';
import { withSystem } from '../../../../src/platform/db/transaction.ts';
import { newId } from '../../../../src/platform/ids.ts';
import type { Person } from '../../../support/factories.ts';
import type { TestApp } from '../../../support/test-app.ts';

export const sql = async (app: TestApp, text: string, values: readonly unknown[] = []) =>
  (await withSystem(app.server.database.pool, 'test', (tx) => tx.raw(text, values as string[])))
    .rows as Record<string, unknown>[];

/** A provider that is active and enforced, as it lies in the database. */
export async function buildProvider(app: TestApp, row: Record<string, unknown>): Promise<string> {
  const id = newId();
  const provider = {
    id,
    name: 'Acme Login',
    type: 'oidc',
    status: 'active',
    enforce_sso: true,
    attribute_mapping: JSON.stringify({ email: 'email', name: 'name' }),
    ...row,
  };
  await withSystem(app.server.database.pool, 'test', (tx) => tx('sso_providers').insert(provider));
  return id;
}

/** A session that a person has opened with a provider, as its access token. */
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

/** The audit entries of an action, oldest first, once they are sealed. */
export async function entriesOf(app: TestApp, action: string, actorId: string) {
  await app.server.auditSealer.flush();
  return sql(
    app,
    `select org_id, partner_id, resource_id, details, result from audit_logs where action = ? and actor_id = ? order by id`,
    [action, actorId],
  );
}
