import { inTenant } from '../../platform/db/tenant-filter.ts';
import type { SearchSource } from '../search/index.ts';

export const deviceSearch: SearchSource = {
  type: 'devices',
  permission: 'devices:read',
  table: 'devices',
  where: (caller) => `${inTenant(caller, 's.org_id')} and s.condition <> 'decommissioned'`,
  haystack: 's.search_text',
  title: `coalesce(s.display_name, s.hostname)`,
  description: `case when s.display_name is null then s.os_version else s.hostname end`,
  order: 's.search_text',
};
