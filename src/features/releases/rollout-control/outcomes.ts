import type { Tx } from '../../../platform/db/transaction.ts';
import type { Outcomes } from '../rollouts/halting.ts';
import type { AgentRollout } from '../rollouts/rollout.model.ts';
import type { NamedDevice } from './device-groups.ts';

/**
 * How the upgrades of a rollout ended since it was started or resumed, by its rows of device_upgrades alone. What counts
 * of a device is the end of its latest attempt that has ended, so a device that fails again and again counts once.
 */

type Judged = Pick<AgentRollout, 'id' | 'judgedFrom'>;

const ENDED = `
  ended as materialized (
    select distinct on (device_id) device_id, org_id, state = 'completed' as is_healthy, finished_at
    from device_upgrades
    where rollout_id = cast(:id as uuid) and finished_at >= cast(:judgedFrom as timestamptz)
    order by device_id, finished_at desc, id desc
  ), in_order as (
    -- Devices that ended alike, one after another, have the same difference.
    select *, row_number() over (order by finished_at, device_id)
      - row_number() over (partition by is_healthy order by finished_at, device_id) as run
    from ended
  ), runs as (
    select run, count(*)::integer as length, min(finished_at) as began_at
    from in_order where not is_healthy group by run
  )`;

export async function readOutcomes(tx: Tx, { id, judgedFrom }: Judged): Promise<Outcomes> {
  const { rows } = await tx.raw<{ rows: [Outcomes] }>(
    `with ${ENDED}
    select count(*) filter (where is_healthy)::integer as healthy,
      count(*) filter (where not is_healthy)::integer as failed,
      coalesce((select max(length) from runs), 0) as "failuresInARow",
      (select count(distinct device_id)::integer from device_upgrades
        where rollout_id = cast(:id as uuid) and state not in ('offered', 'completed', 'failed', 'rolled_back')
      ) as "underWay"
    from ended`,
    { id, judgedFrom },
  );
  return rows[0];
}

/** The devices that failed, the last ones first; or those of the first long sequence of failures. */
export async function failedDevices(
  tx: Tx,
  { id, judgedFrom }: Judged,
  { inARow }: { inARow: boolean },
): Promise<NamedDevice[]> {
  const { rows } = await tx.raw<{ rows: NamedDevice[] }>(
    `with ${ENDED}
    select d.id as "deviceId", d.org_id as "orgId", coalesce(nullif(d.display_name, ''), d.hostname) as name
    from in_order o join devices d on d.id = o.device_id
    where not o.is_healthy
      ${inARow ? 'and o.run = (select run from runs order by length desc, began_at limit 1)' : ''}
    order by o.finished_at desc, d.id`,
    { id, judgedFrom },
  );
  return rows;
}
