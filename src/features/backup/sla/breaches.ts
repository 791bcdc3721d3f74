import type { Db } from '../../../platform/db/pool.ts';
import { withSystem } from '../../../platform/db/transaction.ts';
import { followCauses } from '../../alerts/index.ts';
import { SLA_BREACH } from '../core/alert-kinds.ts';

/** SQL: which devices an SLA is about. Groups are followed as they change. */
const TARGETS = `from backup_sla_configs c join backup_readiness b on b.org_id = c.org_id
  and (b.device_id = any(c.target_devices)
    or exists (select from device_group_members m where m.device_id = b.device_id and m.group_id = any(c.target_groups))
    or c.target_devices = '{}' and c.target_groups = '{}')
  where c.is_active`;

/**
 * Makes the events of SLAs follow the figures that were last computed: the newest snapshot is older than the target, the
 * estimate of a restore is longer than the target, or a scheduled backup is missing.
 */
const FOLLOW = `
  with wanted as (
    select c.id, c.org_id, b.device_id, 'rpo_breach' as type,
      jsonb_build_object('targetMinutes', c.rpo_target_minutes, 'minutes', b.rpo_minutes) as details
    ${TARGETS} and (b.rpo_minutes is null or b.rpo_minutes > c.rpo_target_minutes)
    union all
    select c.id, c.org_id, b.device_id, 'rto_breach',
      jsonb_build_object('targetMinutes', c.rto_target_minutes, 'minutes', b.rto_minutes)
    ${TARGETS} and b.rto_minutes > c.rto_target_minutes
    union all
    select c.id, c.org_id, b.device_id, 'missed_backup', '{}'
    ${TARGETS} and b.device_id = any(:missed::uuid[])
  ), ended as (
    update backup_sla_events e set resolved_at = now() where e.resolved_at is null and not exists (
      select from wanted w where w.id = e.sla_config_id and w.device_id = e.device_id and w.type = e.event_type)
  )
  insert into backup_sla_events (id, org_id, sla_config_id, device_id, event_type, details)
  select new_row_id(), org_id, id, device_id, type, details from wanted
  on conflict (sla_config_id, device_id, event_type) where resolved_at is null do nothing`;

interface Breach {
  orgId: string;
  deviceId: string;
  name: string;
  slas: string;
}

/** @param missed  the devices of which a scheduled backup is missing */
export const followBreaches = (db: Db, missed: readonly string[]): Promise<void> =>
  withSystem(db, 'make the events of SLAs follow', async (tx) => {
    await tx.raw(FOLLOW, { missed: [...missed] });
    const { rows } = await tx.raw<{ rows: Breach[] }>(
      `select e.org_id as "orgId", e.device_id as "deviceId", coalesce(nullif(d.display_name, ''), d.hostname) as name,
        string_agg(distinct c.name, ', ') as slas
      from backup_sla_events e join backup_sla_configs c on c.id = e.sla_config_id join devices d on d.id = e.device_id
      where e.resolved_at is null and c.alert_on_breach group by 1, 2, 3`,
    );
    await followCauses(tx, {
      kind: SLA_BREACH,
      alerts: rows.map(({ orgId, deviceId, name, slas }) => ({
        orgId,
        deviceId,
        kind: SLA_BREACH,
        severity: 'high',
        title: `${name}: the backups are not as an SLA expects`,
        message: `Not met: ${slas}.`,
      })),
      why: 'The SLA is met again.',
    });
  });
