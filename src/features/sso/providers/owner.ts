import type { Tx } from '../../../platform/db/transaction.ts';
import { Organization } from '../../organizations/index.ts';
import { Partner } from '../../partners/index.ts';
import type { SsoProvider } from './provider.model.ts';

export interface Owner {
  kind: 'organization' | 'partner';
  name: string;
  orgId: string | null;
  /** Of an organization: its partner. Audit entries belong to both. */
  partnerId: string;
}

/** Whose provider it is. */
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
