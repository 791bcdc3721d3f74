import { sealContext } from '../../platform/secrets/sealed.ts';

/** The columns of this feature that are stored sealed. */
export const SEALED_SSO_COLUMNS = [
  { table: 'sso_providers', column: 'client_secret', id: 'id' },
  { table: 'user_sso_identities', column: 'access_token', id: 'id' },
  { table: 'user_sso_identities', column: 'refresh_token', id: 'id' },
  { table: 'sso_exchange_codes', column: 'refresh_token', id: 'code_hash' },
] as const;

/** The seal of each value includes its table, column and row, so that it cannot be moved to another place. */
export const clientSecretContext = (providerId: string) =>
  sealContext('sso_providers', 'client_secret', providerId);
export const identityTokenContext = (column: 'access_token' | 'refresh_token', identityId: string) =>
  sealContext('user_sso_identities', column, identityId);
export const exchangeTokenContext = (codeHash: string) =>
  sealContext('sso_exchange_codes', 'refresh_token', codeHash);
