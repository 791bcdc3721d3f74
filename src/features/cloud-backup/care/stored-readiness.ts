import { z } from 'zod';
import { clock } from '../../../clock.ts';
import type { Tx } from '../../../platform/db/transaction.ts';
import type { ReadinessSource } from '../../backup/index.ts';
import { CloudFacts, cloudReadinessOf } from './readiness.ts';

/** For the overview of backups, which cannot depend on this feature. */
export const CLOUD_READINESS: ReadinessSource = {
  rows: `select c.id, c.org_id, c.name, r.score, r.rpo_minutes, r.risks, r.is_failing, r.is_late, r.is_unprotected,
      r.calculated_at
    from c2c_readiness r join c2c_configs c on c.org_id = r.org_id and c.id = r.config_id
    where c.removing_since is null`,
};

const ms = (time: string) => `extract(epoch from ${time})::float8 * 1000`;

const ENDED_RUNS = `from c2c_jobs j where j.org_id = c.org_id and j.config_id = c.id and j.type = 'backup'
      and j.status in ('completed', 'partial', 'failed')`;
const NEWEST_FIRST = 'order by j.finished_at desc, j.id desc limit 1';

const FACTS = `select c.id as "configId", c.org_id as "orgId", c.name,
    case when c.enabled then c.schedule ->> 'frequency' end as frequency,
    ${ms('coalesce(c.scheduled_since, c.created_at)')} as since,
    -- The release before this one, which may still be running, does not write the column.
    ${ms(`greatest(c.last_success_at, (select j.finished_at ${ENDED_RUNS} and j.status <> 'failed' ${NEWEST_FIRST}))`)}
      as "lastSuccessAt",
    (select jsonb_build_object('status', j.status, 'errorCode', j.error_code) ${ENDED_RUNS} ${NEWEST_FIRST}) as "lastRun",
    (select count(*)::int ${ENDED_RUNS} and j.status = 'failed' and j.finished_at > now() - interval '7 days')
      as "failuresOfWeek",
    k.last_error_code is not null as "isConnectionFailing"
  from c2c_configs c join c2c_connections k on k.org_id = c.org_id and k.id = c.connection_id
  where c.removing_since is null`;

const Rows = z.array(CloudFacts);

/** Which configurations: all of an organization, which has a hundred at most, or a page of all of them. */
export type Which = { orgId: string } | { after: string; limit: number };

/** Computes how well configurations protect what they are about, and keeps it for lists and sums. */
export async function storeReadiness(tx: Tx, which: Which, now = clock.date()): Promise<CloudFacts[]> {
  const { rows } =
    'orgId' in which
      ? await tx.raw<{ rows: unknown }>(`${FACTS} and c.org_id = ?`, [which.orgId])
      : await tx.raw<{ rows: unknown }>(`${FACTS} and c.id > ? order by c.id limit ?`, [
          which.after,
          which.limit,
        ]);
  const facts = Rows.parse(rows);
  const computed = facts.map(({ configId, orgId, ...rest }) => ({
    configId,
    orgId,
    ...cloudReadinessOf({ configId, orgId, ...rest }, now),
  }));
  await tx.raw(
    `insert into c2c_readiness (config_id, org_id, score, rpo_minutes, risks, is_failing, is_late, is_unprotected, calculated_at)
    select w."configId", w."orgId", w.score, w."rpoMinutes", w.risks, w."isFailing", w."isLate", w."isUnprotected", now()
    from jsonb_to_recordset(cast(? as jsonb)) as w ("configId" uuid, "orgId" uuid, score smallint, "rpoMinutes" integer,
      risks jsonb, "isFailing" boolean, "isLate" boolean, "isUnprotected" boolean)
    order by 1
    on conflict (config_id) do update set score = excluded.score, rpo_minutes = excluded.rpo_minutes,
      risks = excluded.risks, is_failing = excluded.is_failing, is_late = excluded.is_late,
      is_unprotected = excluded.is_unprotected, calculated_at = excluded.calculated_at`,
    [JSON.stringify(computed)],
  );
  return facts;
}
