import type { Tx } from '../../../platform/db/transaction.ts';
import { visibleDevices, whereMatching, withPatternTimeout } from '../../conditions/index.ts';
import { conditionsWithin } from '../../filters/index.ts';
import { organizationScope } from '../../groups/index.ts';
import type { BackupConfig } from '../configs/config.model.ts';
import { SOURCE_WORK } from '../sources/index.ts';
import type { SlotWork } from '../core/slot-work.ts';

/** A job that waits for its device longer than this fails, and the next slot adds a new one. */
const WAIT_DAYS = 30;

/**
 * Adds the jobs of a slot whose second has come, in one statement: for the devices that the targets of the configuration
 * name at this moment. A device with a job of the configuration in flight gets none, and none gets two.
 * @returns how many were added
 */
export async function addScheduledJobs(
  tx: Tx,
  config: Pick<BackupConfig, 'id' | 'orgId' | 'targets' | 'sources' | 'schedule'>,
  timeZone: string,
  { slot, after, upTo, spread }: NonNullable<SlotWork['jobs']>,
): Promise<number> {
  const { id, orgId, targets, sources, schedule } = config;
  const { all = false, deviceIds = [], groupIds = [], filterId } = targets;
  const systems = SOURCE_WORK[sources.kind].systems(sources);
  const conditions = filterId === undefined ? undefined : await conditionsWithin(tx, { orgId, filterId });
  const scope = organizationScope(orgId);
  const devices = visibleDevices(tx, scope).where('d.org_id', orgId).select('d.id');
  const matching =
    conditions === undefined
      ? tx.raw('select null::uuid as id where false')
      : whereMatching(devices, conditions, { caller: scope });
  const add = () =>
    tx.raw<{ rowCount: number }>(ADD, {
      matching,
      id,
      orgId,
      all,
      deviceIds,
      groupIds,
      systems,
      timeZone,
      isOwnZone: schedule?.timezone !== undefined,
      slot,
      after,
      upTo,
      spread,
      waitDays: WAIT_DAYS,
    } as never);
  const { rowCount } = await (conditions === undefined ? add() : withPatternTimeout(tx, conditions, add));
  return rowCount;
}

/** The second of a device within the spread: the same for each slot, and another one for each configuration. */
const SECOND = `(uuid_hash_extended(d.id, uuid_hash_extended(:id::uuid, 0)) & 2147483647) % :spread::int`;

const ADD = `
  with matching as materialized (:matching)
  insert into backup_jobs (id, org_id, device_id, config_id, type, slot, due_at, expires_at)
  select new_row_id(), d.org_id, d.id, :id::uuid, 'scheduled', :slot::timestamptz,
    :slot::timestamptz + make_interval(secs => ${SECOND}),
    :slot::timestamptz + make_interval(days => :waitDays::int)
  from devices d
  where d.org_id = :orgId::uuid and d.condition not in ('pending', 'decommissioned') and d.os_type = any(:systems::text[])
    and ${SECOND} > :after::int and ${SECOND} <= :upTo::int
    and (:isOwnZone::boolean
      or d.site_id in (select s.id from sites s where s.org_id = :orgId::uuid and s.timezone = :timeZone))
    and (:all::boolean or d.id = any(:deviceIds::uuid[])
      or exists (select from device_group_members m
        where m.org_id = :orgId::uuid and m.group_id = any(:groupIds::uuid[]) and m.device_id = d.id)
      or d.id in (select matching.id from matching))
  on conflict do nothing`;
