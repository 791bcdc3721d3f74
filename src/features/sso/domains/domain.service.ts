import type { Tx } from '../../../platform/db/transaction.ts';
import { asciiDomain, owningDomains } from './domain-name.ts';
import { SsoDomain } from './domain.model.ts';

/**
 * Whether the organization has proved to own a domain, or a parent of it. Where another organization has proved a longer
 * part of the name, the domain is that organization's. Needs a transaction across tenants, which sees both.
 */
export async function isDomainProven(tx: Tx, orgId: string, domain: string): Promise<boolean> {
  const name = asciiDomain(domain);
  if (name === undefined) return false;
  const closest = await SsoDomain.query(tx)
    .where('status', 'verified')
    .whereRaw('domain = any(?::text[])', [owningDomains(name)])
    .orderByRaw('length(domain) desc')
    .first();
  return closest?.orgId === orgId;
}
