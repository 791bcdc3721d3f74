import type { Query } from '../../../platform/db/pool.ts';
import { inTenant } from '../../../platform/db/tenant-filter.ts';
import type { TenantScope } from '../../../platform/db/tenant-scope.ts';
import type { Tx } from '../../../platform/db/transaction.ts';

/** The devices that conditions are evaluated on. The SQL of all fields uses the aliases `d` (device) and `p` (presence). */

/** The status of a device: its condition if that is not normal, otherwise whether it is connected or reports over HTTP. */
export const STATUS_SQL = `case when d.condition <> 'normal' then d.condition
  when p.state = 'connected' or p.reports_until > now() then 'online' else 'offline' end`;

export const PRESENCE_JOIN = 'left join device_presence p on p.device_id = d.id and p.org_id = d.org_id';

/** The devices that a caller can see, without decommissioned ones. */
export const visibleDevices = (tx: Tx, caller: TenantScope): Query =>
  allDevices(tx, caller).where('d.condition', '<>', 'decommissioned');

export const decommissionedDevices = (tx: Tx, caller: TenantScope): Query =>
  allDevices(tx, caller).where('d.condition', 'decommissioned');

const allDevices = (tx: Tx, caller: TenantScope): Query =>
  tx('devices as d').joinRaw(PRESENCE_JOIN).whereRaw(inTenant(caller, 'd.org_id'));
