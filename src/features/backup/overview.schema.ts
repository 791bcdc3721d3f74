import { z } from 'zod';
import { Id, Timestamp, wholeNumber } from '../../platform/http/fields.ts';

const refresh = z
  .stringbool()
  .optional()
  .describe(
    'Computes the figures of devices anew before it answers. Those of cloud backups follow each run and each change.',
  );
const count = z.number().int();

/** Scores from here on are good. */
export const HIGH_READINESS = 85;

export const OverviewQuery = z.object({ orgId: Id.optional() });
export type OverviewQuery = z.infer<typeof OverviewQuery>;

export const ReadinessQuery = OverviewQuery.extend({ deviceId: Id.optional(), refresh });
export type ReadinessQuery = z.infer<typeof ReadinessQuery>;

export const HealthQuery = OverviewQuery.extend({ refresh });
export type HealthQuery = z.infer<typeof HealthQuery>;

export const UsageQuery = OverviewQuery.extend({ days: wholeNumber(14, 3, 90) });
export type UsageQuery = z.infer<typeof UsageQuery>;

export const DeviceParams = z.object({ deviceId: Id });

const Risk = z.object({
  code: z.string(),
  severity: z.enum(['critical', 'high', 'medium', 'low']),
  message: z.string(),
});

const ReadyDevice = z.object({
  deviceId: z.uuid(),
  orgId: z.uuid(),
  readinessScore: count.describe(
    '0 to 100: 100 less the points of each risk (docs/decisions/backup-care.md).',
  ),
  estimatedRtoMinutes: count.nullable().describe('By the measured speed of restores; null: never measured.'),
  estimatedRpoMinutes: count.nullable().describe('The age of the newest snapshot; null: there is none.'),
  riskFactors: z.array(Risk),
  calculatedAt: Timestamp,
});

const ReadyCloudConfig = z.object({
  configId: z.uuid().describe('The id of a cloud backup configuration.'),
  orgId: z.uuid(),
  name: z.string(),
  readinessScore: count.describe('0 to 100, as of devices.'),
  estimatedRpoMinutes: count.nullable().describe('The age of the last good run; null: there was none.'),
  riskFactors: z.array(Risk),
  calculatedAt: Timestamp,
});

export const RecoveryReadiness = z
  .object({
    data: z.object({
      summary: z.object({
        devices: count,
        averageScore: z.number().nullable(),
        lowReadiness: count.describe('Devices with less than 70.'),
        highReadiness: count.describe('Devices with 85 or more.'),
      }),
      devices: z.array(ReadyDevice).describe('The 500 with the lowest scores.'),
      cloudConfigs: z
        .array(ReadyCloudConfig)
        .describe('The 500 cloud backup configurations with the lowest scores; none with `deviceId`.'),
    }),
  })
  .meta({ id: 'BackupRecoveryReadiness' });

export const BackupHealth = z
  .object({
    data: z.object({
      status: z.enum(['healthy', 'degraded', 'critical']),
      devices: count,
      critical: count.describe('Devices with a critical risk.'),
      atRisk: count.describe('Devices with less than 85.'),
      risks: z.array(z.object({ code: z.string(), devices: count })),
      cloud: z
        .object({ configs: count, critical: count, atRisk: count })
        .describe('The same of cloud backup configurations. The status is about them as well.'),
    }),
  })
  .meta({ id: 'BackupHealth' });

const Job = z.object({
  id: z.uuid(),
  deviceId: z.uuid(),
  configId: z.uuid().nullable(),
  status: z.string(),
  errorCode: z.string().nullable(),
  errorMessage: z.string().nullable(),
  createdAt: Timestamp,
  finishedAt: Timestamp.nullable(),
});

export const BackupDashboard = z
  .object({
    data: z.object({
      totals: z.object({ configs: count, jobs: count, snapshots: count }),
      jobsLast24h: z.object({
        completed: count,
        failed: count,
        partial: count,
        running: count,
        queued: count,
        cancelled: count,
      }),
      storage: z.object({ totalBytes: z.number(), snapshots: count }),
      coverage: z.object({
        devices: count.describe('Devices of which anything is to be backed up.'),
        protectedDevices: count.describe('Those with a snapshot whose integrity was verified.'),
      }),
      cloud: z
        .object({
          configs: count,
          protected: count.describe('Those that are none of the following.'),
          failing: count.describe('The last run has failed, or the connection to the cloud service does.'),
          late: count.describe(
            'The last good run is older than the schedule allows, or than two days without one.',
          ),
          unprotected: count.describe('No run has ended well yet.'),
          attentionItems: z
            .array(ReadyCloudConfig)
            .describe('The 20 with the lowest scores of those that are failing, late or unprotected.'),
        })
        .describe('Cloud backup configurations. Sums of devices, jobs and snapshots are without them.'),
      latestJobs: z.array(Job).describe('Five.'),
      attentionItems: z.array(ReadyDevice).describe('The 20 devices with the lowest score below 85.'),
    }),
  })
  .meta({ id: 'BackupDashboard' });

export const DeviceBackupStatus = z
  .object({
    data: z.object({
      deviceId: z.uuid(),
      protected: z.boolean().describe('There is a snapshot, and the integrity of the backups was verified.'),
      configId: z.uuid().nullable().describe('The configuration of the newest backup.'),
      timezone: z.string(),
      lastJob: Job.nullable(),
      lastSuccessAt: Timestamp.nullable(),
      lastFailureAt: Timestamp.nullable(),
      lastFailureError: z.string().nullable(),
      lastVerifiedAt: Timestamp.nullable(),
      nextScheduledAt: Timestamp.nullable(),
    }),
  })
  .meta({ id: 'DeviceBackupStatus' });

export const UsageHistory = z
  .object({
    data: z.object({
      days: count,
      start: z.iso.date(),
      end: z.iso.date(),
      providers: z.array(z.string()),
      points: z.array(
        z.object({
          timestamp: Timestamp,
          totalBytes: z.number(),
          providers: z.array(z.object({ provider: z.string(), bytes: z.number() })),
        }),
      ),
    }),
  })
  .meta({ id: 'BackupUsageHistory' });
