import { SYSTEM_ROLES } from '../../../src/features/users/index.ts';
import { type Tx, withSystem } from '../../../src/platform/db/transaction.ts';
import { newId } from '../../../src/platform/ids.ts';
import { clientSecretContext } from '../../../src/features/sso/sso.model.ts';
import { createEncryptor } from '../../../src/platform/secrets/sealed.ts';
import type { OidcProvider } from '../oidc-provider.ts';
import { TEST_AUTHORITY } from '../https-server.ts';
import { signingKey } from '../saml-certificates.ts';
import { createTestApp, TEST_ENCRYPTION_KEY, type TestApp, type TestAppOptions } from '../test-app.ts';

/** A server whose identity providers may be on loopback. */
export const createSsoApp = (options: TestAppOptions = {}): Promise<TestApp> =>
  createTestApp({
    ...options,
    outbound: { ca: TEST_AUTHORITY, ...options.outbound },
    env: { SSO_ALLOWED_PRIVATE_CIDRS: '127.0.0.0/8', ...options.env },
  });

/** Where browsers reach the server: the host that its redirects name. */
export const browserUrl = (app: TestApp): string => app.url;

export const query = async <Row extends object>(
  app: TestApp,
  sql: string,
  values: readonly (string | number | boolean)[] = [],
): Promise<Row[]> =>
  withSystem(app.server.database.pool, 'test', async (tx: Tx) => {
    const { rows } = await tx.raw<{ rows: Row[] }>(sql, [...values]);
    return rows;
  });

export type Owner = { org_id: string } | { partner_id: string };

/** A provider as an administrator has set it up and switched on. What it leaves out is a SAML provider that nobody runs. */
export async function insertProvider(
  app: TestApp,
  owner: Owner,
  row: Record<string, unknown> = {},
): Promise<string> {
  const id = typeof row['id'] === 'string' ? row['id'] : newId();
  const saml = {
    type: 'saml',
    entity_id: 'https://idp.test/metadata',
    sso_url: 'https://127.0.0.1:4443/sso',
    certificate: signingKey('signing').certificate,
  };
  await withSystem(app.server.database.pool, 'test', (tx) =>
    tx('sso_providers').insert({
      id,
      ...owner,
      name: 'Test provider',
      status: 'active',
      attribute_mapping: JSON.stringify({ email: 'email', name: 'name' }),
      default_role_id: 'org_id' in owner ? SYSTEM_ROLES.organizationViewer : null,
      ...(row['type'] === 'oidc' ? {} : saml),
      ...row,
    }),
  );
  return id;
}

/** A provider at an identity provider of OpenID Connect that the test runs, with a client of its own there. */
export async function insertOidcProvider(
  app: TestApp,
  idp: OidcProvider,
  owner: Owner,
  row: Record<string, unknown> = {},
): Promise<string> {
  const id = newId();
  const { clientId, clientSecret } = idp.addClient(`${browserUrl(app)}/api/v1/sso/callback`);
  const sealer = createEncryptor({ current: TEST_ENCRYPTION_KEY, old: [] });
  return insertProvider(app, owner, {
    id,
    type: 'oidc',
    issuer: idp.issuer,
    client_id: clientId,
    client_secret: sealer.seal(clientSecret, clientSecretContext(id)),
    authorization_url: `${idp.issuer}/auth`,
    token_url: `${idp.issuer}/token`,
    userinfo_url: `${idp.issuer}/me`,
    jwks_url: `${idp.issuer}/jwks`,
    sends_issuer: true,
    ...row,
  });
}

/** The organization has proved that it owns a mail domain, which counts for the provider of its partner as well. */
export const proveDomain = (app: TestApp, orgId: string, domain = 'example.com') =>
  query(
    app,
    `insert into sso_domains (id, org_id, domain, status, token, verified_at)
    values (?, ?, ?, 'verified', 'x', now())`,
    [newId(), orgId, domain],
  );
