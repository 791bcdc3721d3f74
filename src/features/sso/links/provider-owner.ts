import type { Caller } from '../../../platform/context.ts';
import type { SsoProvider } from '../providers/provider.model.ts';

type Member = Pick<Caller, 'orgId' | 'partnerId'>;

/** Whether a person is a member of the organization or the partner that owns the provider. */
export const isOfOwner = (
  { orgId, partnerId }: Member,
  provider: Pick<SsoProvider, 'orgId' | 'partnerId'>,
): boolean => (provider.orgId === null ? provider.partnerId === partnerId : provider.orgId === orgId);
