import type { Tx } from '../../../platform/db/transaction.ts';
import { UPGRADE_CAPABILITY } from '../../../protocol/index.ts';
import type { PinnedComponent } from '../targets/target.schema.ts';
import { type DeviceGroup, VERSION_COLUMN } from './device-groups.ts';
import type { SettingsClass } from './staged-organizations.ts';

/** Of each platform so many devices belong to the first wave, where there are as many. */
const EACH_PLATFORM = 3;

export interface FirstWave {
  /** How many places hold the number of devices that was asked for. */
  places: number;
  /** Some devices of each platform. */
  devices: string[];
}

/** Chooses the first wave among the devices of these groups. */
export async function chooseFirstWave(
  tx: Tx,
  { id, component }: { id: string; component: PinnedComponent },
  {
    classes,
    groups,
    size,
  }: { classes: readonly SettingsClass[]; groups: readonly DeviceGroup[]; size: number },
): Promise<FirstWave> {
  const version = VERSION_COLUMN[component];
  const { rows } = await tx.raw<{ rows: [FirstWave] }>(
    `with members as (
      select d.id, d.os_type, d.architecture, rollout_place(cast(:id as uuid), d.id) as place
      from unnest(cast(:orgIds as uuid[]), cast(:orgClasses as integer[])) as c (org_id, class)
      join devices d on d.org_id = c.org_id and d.condition <> 'decommissioned'
        and d.auto_update and cast(:capability as text) = any(d.capabilities)
      where (c.class, d.os_type, d.architecture, ${version}) in (
        select * from unnest(cast(:classes as integer[]), cast(:osTypes as text[]), cast(:architectures as text[]),
          cast(:versions as text[])))
    ), ranked as (
      select id, place, row_number() over (order by place, id) as rank,
        row_number() over (partition by os_type, architecture order by place, id) as rank_on_platform
      from members
    )
    select coalesce(max(place) filter (where rank <= :size), 0) + 1 as places,
      coalesce(array_agg(id order by place, id) filter (where rank_on_platform <= ${EACH_PLATFORM}), '{}') as devices
    from ranked`,
    {
      id,
      size,
      capability: UPGRADE_CAPABILITY,
      orgIds: classes.flatMap(({ orgIds }) => orgIds),
      orgClasses: classes.flatMap(({ orgIds }, at) => orgIds.map(() => at)),
      classes: groups.map(({ settingsClass }) => settingsClass),
      osTypes: groups.map(({ osType }) => osType),
      architectures: groups.map(({ architecture }) => architecture),
      versions: groups.map(({ current }) => current),
    },
  );
  return rows[0];
}
