import { inTenant } from '../../platform/db/tenant-filter.ts';
import { haystackOf, type SearchSource } from '../search/index.ts';

export const scriptSearch: SearchSource = {
  type: 'scripts',
  permission: 'scripts:read',
  table: 'scripts',
  where: (caller) => `(${inTenant(caller, 's.org_id')} or s.partner_id = :partnerId)`,
  haystack: haystackOf('s.name', 's.description'),
  title: 's.name',
  description: 's.description',
  order: 'lower(s.name)',
};
