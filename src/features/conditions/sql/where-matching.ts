import { clock } from '../../../clock.ts';
import type { Caller } from '../../../platform/context.ts';
import type { Query } from '../../../platform/db/pool.ts';
import { inTenant } from '../../../platform/db/tenant-filter.ts';
import type { TenantScope } from '../../../platform/db/tenant-scope.ts';
import type { SqlValue } from '../fields/sql-fragment.ts';
import type { SqlSource } from './to-sql.ts';

/** Restricts a query on `visibleDevices` to matching devices. `now` is in milliseconds. */
export function whereMatching<Row extends object>(
  query: Query<Row>,
  conditions: SqlSource,
  {
    caller,
    now = clock.now(),
    prefix = 'matching',
  }: { caller: Caller | TenantScope; now?: number; prefix?: string },
): Query<Row> {
  const { text, values, named } = conditions.toSql({ now, tenant: inTenant(caller, 'd.org_id'), prefix });
  for (const one of named) {
    void query.withMaterialized(one.name, query.client.raw(one.text, bindings(one.values)));
  }
  return query.whereRaw(text, bindings(values));
}

/** Knex does not accept readonly arrays. */
const bindings = (values: readonly SqlValue[]) =>
  values.map((value) => (typeof value === 'object' ? [...value] : value));
