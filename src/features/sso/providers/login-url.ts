import type { SsoProvider } from './provider.model.ts';

/** The path at which a sign-in with the provider of an organization or a partner begins. */
export const loginUrlOf = ({ orgId, partnerId }: Pick<SsoProvider, 'orgId' | 'partnerId'>): string =>
  partnerId === null ? `/api/v1/sso/login/${orgId ?? ''}` : `/api/v1/sso/login/partner/${partnerId}`;
