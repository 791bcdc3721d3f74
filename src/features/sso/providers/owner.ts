import type { Tx } from '../../../platform/db/transaction.ts';
import { Organization } from '../../organizations/index.ts';
import { Partner } from '../../partners/index.ts';
import type { SsoProvider } from './provider.model.ts';

export interface Owner {
  kind: 'organization' | 'partner';
  name: string;
  orgId: string | null;
  /** The partner itself, or the partner of the organization: an organization's audit entries name both. */
  partnerId: string;
}

export async function ownerOf(
  tx: Tx,
  { orgId, partnerId }: Pick<SsoProvider, 'orgId' | 'partnerId'>,
): Promise<Owner> {
  if (partnerId !== null) {
    const { name } = await Partner.query(tx).findById(partnerId).throwIfNotFound();
    return { kind: 'partner', name, orgId: null, partnerId };
  }
  const organization = await Organization.query(tx)
    .findById(orgId ?? '')
    .throwIfNotFound();
  return { kind: 'organization', name: organization.name, orgId, partnerId: organization.partnerId };
}
