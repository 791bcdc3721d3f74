import { z } from 'zod';
import type { Db } from '../../platform/db/pool.ts';
import { withSystem } from '../../platform/db/transaction.ts';
import { monitored } from './round-parts.queries.ts';

/** Changes with every rule that is created, changed or deleted. */
export async function readRevision(db: Db): Promise<string> {
  const { rows } = await withSystem(db, 'notice that alert rules have changed', (tx) =>
    tx.raw<{ rows: { revision: string }[] }>(
      `select count(*) || ' ' || coalesce(max(updated_at)::text, '') as revision from alert_rules`,
    ),
  );
  return z.string().parse(rows[0]?.revision);
}

export interface MetricRuleRow {
  orgId: string;
  id: string;
  condition: unknown;
}

/** The enabled rules about metrics, once for each organization that they cover. */
export async function readMetricRules(db: Db): Promise<MetricRuleRow[]> {
  const { rows } = await withSystem(db, 'read the alert rules about metrics', (tx) =>
    tx.raw<{ rows: MetricRuleRow[] }>(
      `select o.id as "orgId", r.id, r.condition from alert_rules r
      join (${monitored({})}) o on o.partner_id = r.partner_id and (r.org_id is null or r.org_id = o.id)
      where r.condition_kind = 'metric' and r.enabled`,
    ),
  );
  return rows;
}
