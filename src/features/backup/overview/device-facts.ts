import { z } from 'zod';
import type { Tx } from '../../../platform/db/transaction.ts';
import { DeviceFacts } from '../core/protection.ts';
import { addChainEnds } from '../databases/chain-ends.ts';

/** Which devices: those named, or a page of all that are backed up and that the transaction sees. */
export type FactsOf = { deviceIds: readonly string[] } | { after: string; limit: number };

const ms = (time: string) => `extract(epoch from ${time}) * 1000`;

/** Enough to know what is usual. */
const SNAPSHOTS = 11;
const RESTORES = 5;

const PROOF = (type: string) => `(
  select jsonb_build_object('status', v.status, 'at', ${ms('v.finished_at')}) from backup_verifications v
  where v.repository_id = r.id and v.verification_type = '${type}' and v.finished_at is not null
    and v.error_code is null
  order by v.finished_at desc limit 1)`;

/** Sizes of logs and differential backups say nothing about those before, nor about how long a restore takes. */
const IS_WHOLE = `coalesce(s.details ->> 'backupType', 'full') = 'full'`;

/** Of several machines, one that was not consistent counts. */
const CONSISTENCY = `case when s.details -> 'machines' @> '[{"consistency":"none"}]' then 'none'
  else s.details ->> 'consistency' end`;

const PROTECTIONS = `(
  select coalesce(jsonb_agg(jsonb_build_object(
    'repositoryId', r.id, 'configId', c.id, 'configName', c.name, 'provider', r.provider,
    'frequency', case when c.enabled then c.schedule ->> 'frequency' end,
    'since', ${ms('greatest(c.scheduled_since, r.created_at)')},
    'snapshots', (
      select coalesce(jsonb_agg(jsonb_build_object('id', s.id, 'receivedAt', ${ms('s.received_at')},
        'sizeBytes', case when ${IS_WHOLE} then s.size_bytes end, 'fileCount', s.file_count,
        'changedFiles', case when ${IS_WHOLE} then s.changed_files end,
        'receivedBytes', case when ${IS_WHOLE} then s.received_bytes end,
        'isPartial', s.is_partial,
        'lacksFiles', s.lacks_files, 'emptySources', s.empty_sources, 'consistency', ${CONSISTENCY}) order by s.received_at desc, s.id desc), '[]')
      from (select * from backup_snapshots s where s.device_id = d.id and s.repository_id = r.id
        and s.removed_at is null order by s.received_at desc, s.id desc limit ${SNAPSHOTS}) s),
    'lastJob', (
      select jsonb_build_object('status', j.status, 'errorCode', j.error_code, 'errorMessage', j.error_message,
        'finishedAt', ${ms('j.finished_at')})
      from backup_jobs j where j.device_id = d.id and j.config_id = c.id
        and j.status in ('completed', 'partial', 'failed') order by j.created_at desc, j.id desc limit 1),
    'failuresOfWeek', (
      select count(*) from backup_jobs j where j.device_id = d.id and j.config_id = c.id and j.status = 'failed'
        and j.created_at > now() - interval '7 days'),
    'integrity', ${PROOF('integrity')},
    'testRestore', ${PROOF('test_restore')},
    'keyRotatesSince', (select ${ms('k.rotated_at')} from backup_encryption_keys k
      where k.id = r.encryption_key_id and k.status = 'rotating'),
    'hasDatabases', exists (select from backup_snapshots s where s.repository_id = r.id and s.removed_at is null
      and s.backup_type = 'database')
  ) order by c.name, c.id), '[]')
  from backup_repositories r join backup_configs c on c.id = r.config_id
  where r.org_id = d.org_id and r.device_id = d.id)`;

/** Of the snapshots of the device, to whichever device. */
const REAL_RESTORES = `
  select 1 as rank, t.finished_at as at, t.restored_bytes as bytes,
    extract(epoch from t.finished_at - t.started_at) as seconds
  from backup_snapshots s join backup_restores t on t.snapshot_id = s.id
  where s.device_id = d.id and t.status in ('completed', 'partial') and not t.dry_run
    and t.restored_bytes > 0 and t.finished_at > t.started_at`;
const TEST_RESTORES = `
  select 2, v.finished_at, v.size_bytes, v.restore_seconds from backup_verifications v
  where v.device_id = d.id and v.verification_type = 'test_restore' and v.finished_at is not null
    and v.restore_seconds > 0 and v.size_bytes > 0`;

const RESTORES_OF_DEVICE = `(
  select coalesce(jsonb_agg(jsonb_build_object('bytes', bytes, 'seconds', seconds)), '[]') from (
    select *, min(rank) over () as best from (${REAL_RESTORES} union all ${TEST_RESTORES}) measured
    order by rank, at desc limit ${RESTORES}) newest
  where rank = best)`;

const SLA_TARGETS = `(
  select jsonb_build_object('rpoMinutes', min(c.rpo_target_minutes), 'rtoMinutes', min(c.rto_target_minutes))
  from backup_sla_configs c where c.org_id = d.org_id and c.is_active
    and (d.id = any(c.target_devices)
      or exists (select from device_group_members m
        where m.org_id = d.org_id and m.device_id = d.id and m.group_id = any(c.target_groups))
      or c.target_devices = '{}' and c.target_groups = '{}'))`;

const Rows = z.array(DeviceFacts);

/** What is known of how devices are protected. Devices that nothing backs up are left out of a page. */
export async function readDeviceFacts(tx: Tx, wanted: FactsOf): Promise<DeviceFacts[]> {
  const [which, bindings, limit] =
    'deviceIds' in wanted
      ? ['d.id = any(:deviceIds::uuid[])', { deviceIds: [...wanted.deviceIds] }, '']
      : [
          'd.id > :after and exists (select from backup_repositories r where r.org_id = d.org_id and r.device_id = d.id)',
          { after: wanted.after },
          `limit ${wanted.limit}`,
        ];
  const { rows } = await tx.raw<{ rows: unknown }>(
    `select d.id as "deviceId", d.org_id as "orgId",
      coalesce(nullif(d.display_name, ''), d.hostname) as "deviceName",
      ${PROTECTIONS} as protections, ${RESTORES_OF_DEVICE} as restores, ${SLA_TARGETS} as "slaTargets"
    from devices d where ${which} order by d.id ${limit}`,
    bindings,
  );
  const devices = Rows.parse(rows);
  await addChainEnds(tx, devices);
  return devices;
}
