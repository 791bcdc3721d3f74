import type { Tx } from '../../src/platform/db/transaction.ts';
import { newId } from '../../src/platform/ids.ts';
import type { SeededTenants } from './tenants.ts';

/**
 * An identity provider that a customer has begun to set up: inactive and without its secret, because none exists at this
 * address. Nobody can sign in with it, and the server calls only those that are active.
 */
export async function seedIdentityProvider(tx: Tx, { customers }: SeededTenants): Promise<void> {
  const customer = customers.find(({ slug }) => slug === 'northway-logistics');
  const issuer = 'https://login.northway.example';
  await tx('sso_providers').insert({
    id: newId(),
    org_id: customer?.id ?? null,
    name: 'Northway test provider',
    type: 'oidc',
    status: 'inactive',
    issuer,
    client_id: 'muster-demo',
    authorization_url: `${issuer}/authorize`,
    token_url: `${issuer}/token`,
    jwks_url: `${issuer}/keys`,
    attribute_mapping: JSON.stringify({ email: 'email', name: 'name' }),
    allowed_domains: 'northway.example',
  });
}
