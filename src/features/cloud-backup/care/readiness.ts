import { z } from 'zod';
import {
  ageRisk,
  expectedWithinMinutes,
  lateSince,
  minutesSince,
  type RiskSeverity,
  scoreOf,
} from '../../backup/index.ts';

const Moment = z.number().transform((epochMs) => new Date(epochMs));

/** What is known of how well a configuration protects what it is about. */
export const CloudFacts = z.object({
  configId: z.uuid(),
  orgId: z.uuid(),
  name: z.string(),
  /** `null` where runs begin by hand only. */
  frequency: z.enum(['hourly', 'daily', 'weekly', 'monthly']).nullable(),
  /** Since when it is scheduled like this. */
  since: Moment,
  lastSuccessAt: Moment.nullable(),
  /** Of the runs that have ended and were not cancelled. */
  lastRun: z
    .object({ status: z.enum(['completed', 'partial', 'failed']), errorCode: z.string().nullable() })
    .nullable(),
  failuresOfWeek: z.number(),
  /** When the connection was last used or tested. */
  isConnectionFailing: z.boolean(),
});
export type CloudFacts = z.infer<typeof CloudFacts>;

/** What each risk takes from 100. The scale is that of devices (docs/decisions/backup-care.md). */
export const CLOUD_RISKS = {
  no_backup: { points: 100, severity: 'critical', message: 'No run has ended well yet.' },
  backup_overdue: {
    points: 45,
    severity: 'critical',
    message: 'The last good run is more than twice as old as it may be.',
  },
  backup_stale: { points: 25, severity: 'high', message: 'The last good run is older than it may be.' },
  connection_failing: {
    points: 30,
    severity: 'high',
    message: 'The connection to Microsoft failed when it was last used or tested.',
  },
  destination: { points: 15, severity: 'high', message: 'The backup store was full at the last run.' },
  last_failed: { points: 20, severity: 'medium', message: 'The last run has failed.' },
  failures: {
    points: 15,
    severity: 'medium',
    message: 'Three or more runs of the last 7 days have failed.',
  },
  partial: {
    points: 5,
    severity: 'low',
    message: 'The last run is partial: some users or items could not be read.',
  },
} as const satisfies Record<string, { points: number; severity: RiskSeverity; message: string }>;

export interface CloudReadiness {
  score: number;
  rpoMinutes: number | null;
  risks: { code: keyof typeof CLOUD_RISKS; severity: RiskSeverity; message: string }[];
  isFailing: boolean;
  isLate: boolean;
  isUnprotected: boolean;
}

export function cloudReadinessOf(facts: CloudFacts, now: Date): CloudReadiness {
  const codes = new Set(risksOf(facts, now));
  const { lastSuccessAt } = facts;
  return {
    ...scoreOf(CLOUD_RISKS, codes),
    rpoMinutes: lastSuccessAt === null ? null : Math.ceil(minutesSince(lastSuccessAt, now)),
    isFailing: codes.has('last_failed') || codes.has('connection_failing'),
    isLate: codes.has('backup_overdue') || codes.has('backup_stale'),
    isUnprotected: codes.has('no_backup'),
  };
}

function* risksOf(facts: CloudFacts, now: Date): Generator<keyof typeof CLOUD_RISKS> {
  const { lastSuccessAt, lastRun, failuresOfWeek, isConnectionFailing } = facts;
  if (lastSuccessAt === null) yield 'no_backup';
  else {
    const tooOld = ageRisk(minutesSince(lastSuccessAt, now), expectedWithinMinutes(facts));
    if (tooOld !== undefined) yield tooOld;
  }
  if (isConnectionFailing) yield 'connection_failing';
  if (lastRun?.status === 'failed') yield 'last_failed';
  if (lastRun?.errorCode === 'STORAGE_FULL') yield 'destination';
  if (lastRun?.status === 'partial') yield 'partial';
  if (failuresOfWeek >= 3) yield 'failures';
}

/** Since when a scheduled run that ends well is missing; `undefined` where none is. */
export const missingSince = ({ lastSuccessAt, ...facts }: CloudFacts, now: Date): Date | undefined =>
  lateSince({ ...facts, newest: lastSuccessAt ?? undefined }, now);
