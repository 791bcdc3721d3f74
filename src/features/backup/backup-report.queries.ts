import { z } from 'zod';
import { countedByStatus, countOutcomes, OutcomeCounts, reportPart } from '../report-part.ts';
import { BACKUP } from './add-job.ts';
import { isProtectedSql } from './overview.queries.ts';

const count = z.number().int();
const bytes = z.number().nullable().describe('Null if it is not known, which it is for 100 days.');

const BackupReport = z
  .object({
    jobs: OutcomeCounts.describe('Backups that were begun, by how they stand now.'),
    devices: count.describe('Devices that had a snapshot at the end.'),
    protectedDevices: count.describe(
      'Those with a snapshot in a repository whose last integrity verification had passed.',
    ),
    restores: OutcomeCounts.describe(
      'Restores that were begun, also those to virtual machines, by how they stand now.',
    ),
    storedBytes: bytes,
    storedBytesBefore: bytes,
  })
  .meta({ id: 'BackupReport' });

/** Of devices; cloud services are backed up apart. */
export const backupReport = reportPart({
  permission: 'backup:read',
  shape: BackupReport,
  keptDays: async () => BACKUP.keptDays,
  async read({ tx }, { orgId, from, to, isRunning }) {
    interface Row extends Record<'jobs' | 'restores', Record<string, number>> {
      devices: number;
      protectedDevices: number;
      storedBytes: string | null;
      storedBytesBefore: string | null;
    }
    const began = (w: string) =>
      `${w}.org_id = :orgId and ${w}.created_at >= :from and ${w}.created_at < :to`;
    // What is stored is noted at the end of each day of UTC.
    const storedAt = (at: string) =>
      `(select sum(u.bytes) from backup_usage_days u
        where u.org_id = :orgId and u.day = (${at}::timestamptz at time zone 'UTC')::date - 1)`;
    const { rows } = await tx.raw<{ rows: [Row] }>(
      `with repositories as materialized (
        select r.id, r.device_id, r.stored_bytes, ${isProtectedSql('r', ':to::timestamptz')} as is_protected,
          exists (select from backup_snapshots s where s.repository_id = r.id and s.received_at < :to
            and (s.removed_at is null or s.removed_at >= :to)) as has_snapshot
        from backup_repositories r where r.org_id = :orgId and r.created_at < :to)
      select ${countedByStatus(`select w.status from work w where ${began('w')} and w.kind = '${BACKUP.kind}'`)} as jobs,
        ${countedByStatus(`select r.status from backup_restores r where ${began('r')} and not r.dry_run
          union all select v.status from backup_vm_restores v where ${began('v')}`)} as restores,
        (select count(distinct device_id)::integer from repositories where has_snapshot) as devices,
        (select count(distinct device_id)::integer from repositories where is_protected) as "protectedDevices",
        ${isRunning ? '(select sum(stored_bytes) from repositories)' : storedAt(':to')} as "storedBytes",
        ${storedAt(':from')} as "storedBytesBefore"`,
      { orgId, from, to },
    );
    const [{ jobs, restores, storedBytes, storedBytesBefore, ...devices }] = rows;
    return {
      ...devices,
      jobs: countOutcomes(jobs),
      restores: countOutcomes(restores, DONE),
      storedBytes: storedBytes === null ? null : Number(storedBytes),
      storedBytesBefore: storedBytesBefore === null ? null : Number(storedBytesBefore),
    };
  },
});

/** The machine of an instant boot runs, or has been given up: the restore itself was done. */
const DONE = ['completed', 'active', 'discarded'];
