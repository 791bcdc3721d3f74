import type { Requirement } from '../../../session/index.ts';

export const SSO_READ: Requirement = 'organizations:read';
/** The server asks for the second factor besides. */
export const SSO_WRITE: Requirement = 'organizations:write';

/** What is read again after a change of a provider. */
export const PROVIDER_READS = ['GET /sso/providers', 'GET /sso/providers/{id}'] as const;
