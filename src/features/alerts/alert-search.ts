import { inTenant } from '../../platform/db/tenant-filter.ts';
import { haystackOf, type SearchSource } from '../search/index.ts';

export const alertSearch: SearchSource = {
  type: 'alerts',
  permission: 'alerts:read',
  table: 'alerts',
  where: (caller) => inTenant(caller, 's.org_id'),
  haystack: haystackOf('s.title', 's.message'),
  title: 's.title',
  description: 's.message',
  order: `array[(s.status = 'resolved')::int, -extract(epoch from s.raised_at)]`,
};
