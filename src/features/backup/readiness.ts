import { DAY_MINUTES } from './schedule.ts';
import {
  type DeviceFacts,
  estimatedRtoMinutes,
  expectedWithinMinutes,
  findAnomaly,
  minutesSince,
  newestRestorable,
  type Protection,
  worstAgeMinutes,
} from './protection.ts';

export type RiskSeverity = 'critical' | 'high' | 'medium' | 'low';

export interface Risk {
  code: keyof typeof RISKS;
  severity: RiskSeverity;
  message: string;
}

export interface Readiness {
  score: number;
  rtoMinutes: number | null;
  rpoMinutes: number | null;
  risks: Risk[];
}

/** The points that each risk subtracts from 100. Each counts once for a device, by its worst configuration. */
export const RISKS = {
  no_backup: { points: 100, severity: 'critical', message: 'There is no snapshot to restore from.' },
  backup_overdue: {
    points: 45,
    severity: 'critical',
    message: 'The newest snapshot is more than twice as old as it may be.',
  },
  restore_slow: {
    points: 10,
    severity: 'medium',
    message: 'A restore is expected to take longer than the SLA allows.',
  },
  backup_stale: { points: 25, severity: 'high', message: 'The newest snapshot is older than it may be.' },
  integrity_failed: {
    points: 50,
    severity: 'critical',
    message: 'The last integrity verification found errors.',
  },
  integrity_unproven: {
    points: 10,
    severity: 'medium',
    message: 'The integrity of the backups was never verified.',
  },
  integrity_old: {
    points: 5,
    severity: 'low',
    message: 'The last integrity verification is more than 30 days old.',
  },
  restore_failed: { points: 50, severity: 'critical', message: 'The last test restore failed.' },
  restore_unproven: {
    points: 15,
    severity: 'medium',
    message: 'Nothing was ever restored from the backups to prove them.',
  },
  restore_old: { points: 10, severity: 'low', message: 'The last test restore is more than 90 days old.' },
  failures: {
    points: 15,
    severity: 'medium',
    message: 'Three or more backups of the last 7 days have failed.',
  },
  last_failed: { points: 10, severity: 'medium', message: 'The last backup has failed.' },
  size_drop: {
    points: 30,
    severity: 'critical',
    message: 'The newest backup is much smaller, or changed much more, than those before.',
  },
  empty: {
    points: 40,
    severity: 'critical',
    message: 'The newest backup has no files, or none of a source that had some.',
  },
  destination: {
    points: 15,
    severity: 'high',
    message: 'The destination of the backups was full, unreachable or refused the last backup.',
  },
  chain_broken: {
    points: 50,
    severity: 'critical',
    message: 'The newest backup of a database cannot be restored: one that it needs is missing.',
  },
  image_inconsistent: {
    points: 15,
    severity: 'medium',
    message:
      'The newest image of a machine was read while the machine went on writing, so what changed meanwhile can be damaged.',
  },
  key: { points: 40, severity: 'critical', message: 'The encryption key does not open the repository.' },
  key_rotating: {
    points: 5,
    severity: 'low',
    message: 'A rotation of the encryption key has not ended for 7 days.',
  },
  partial: {
    points: 5,
    severity: 'low',
    message: 'The newest snapshot is partial: some files could not be read.',
  },
} as const satisfies Record<string, { points: number; severity: RiskSeverity; message: string }>;

/** How old the newest snapshot may be if neither an SLA nor a schedule says so. */
const DEFAULT_WITHIN = 2 * DAY_MINUTES;

/**
 * How surely the device can be restored: 100, less the points of each risk that applies (`RISKS`), and at least 0. What
 * was never proven counts as a risk, so that only a device whose backups were verified reaches 100.
 * - RPO: minutes since the newest snapshot that can be restored, of the configuration with the oldest one: what would
 * be
 *   lost now. A log of a database can be restored only if everything that it continues is there.
 * - RTO: see `estimatedRtoMinutes`.
 *
 * How old the newest snapshot may be says the strictest SLA of the device, else the schedule of the configuration with its
 * grace, else two days. Older is `backup_stale`, and more than twice as old `backup_overdue`. An RTO beyond the strictest
 * SLA is `restore_slow`.
 */
export function readinessOf(facts: DeviceFacts, { now }: { now: Date }): Readiness {
  const { rpoMinutes: rpoTarget, rtoMinutes: rtoTarget } = facts.slaTargets;
  const rtoMinutes = estimatedRtoMinutes(facts);
  const codes = new Set<Risk['code']>();
  if (rtoTarget !== null && rtoMinutes !== null && rtoMinutes > rtoTarget) codes.add('restore_slow');
  if (facts.protections.length === 0) codes.add('no_backup');
  for (const protection of facts.protections) {
    for (const code of risksOf(protection, now, rpoTarget)) codes.add(code);
  }
  // The worse of two that say the same.
  if (codes.has('backup_overdue')) codes.delete('backup_stale');
  if (codes.has('failures')) codes.delete('last_failed');
  const age = worstAgeMinutes(facts, now);
  return {
    ...scoreOf(RISKS, codes),
    rtoMinutes,
    rpoMinutes: age === null ? null : Math.ceil(age),
  };
}

/** 100, less the points of each risk that applies, and at least 0; and those risks. */
export function scoreOf<Code extends string>(
  table: Readonly<Record<Code, { points: number; severity: RiskSeverity; message: string }>>,
  codes: ReadonlySet<Code>,
): { score: number; risks: { code: Code; severity: RiskSeverity; message: string }[] } {
  const risks = [...codes].map((code) => {
    const { severity, message } = table[code];
    return { code, severity, message };
  });
  const lost = risks.reduce((sum, { code }) => sum + table[code].points, 0);
  return { score: Math.max(0, 100 - lost), risks };
}

/** The risk of an old newest backup. @param within  its greatest age in minutes, two days by default */
export function ageRisk(
  ageMinutes: number,
  within = DEFAULT_WITHIN,
): 'backup_overdue' | 'backup_stale' | undefined {
  if (ageMinutes > 2 * within) return 'backup_overdue';
  return ageMinutes > within ? 'backup_stale' : undefined;
}

function* risksOf(protection: Protection, now: Date, rpoTarget: number | null): Generator<Risk['code']> {
  const newest = newestRestorable(protection);
  if (newest === undefined) yield 'no_backup';
  else {
    const tooOld = ageRisk(minutesSince(newest, now), rpoTarget ?? expectedWithinMinutes(protection));
    if (tooOld !== undefined) yield tooOld;
    if (protection.snapshots[0]?.lacksFiles === true) yield 'empty';
    else if (protection.snapshots[0]?.isPartial === true) yield 'partial';
    if (protection.snapshots[0]?.consistency === 'none') yield 'image_inconsistent';
  }
  if (protection.chainEnds?.brokenBecause != null) yield 'chain_broken';
  if (findAnomaly(protection.snapshots) !== undefined) yield 'size_drop';
  yield* proofs(protection, now);
  const { lastJob, failuresOfWeek, keyRotatesSince } = protection;
  if (failuresOfWeek >= 3) yield 'failures';
  if (lastJob?.status === 'failed') {
    yield 'last_failed';
    if (lastJob.errorCode?.startsWith('DESTINATION_') === true) yield 'destination';
    if (lastJob.errorCode === 'WRONG_KEY') yield 'key';
  }
  if (keyRotatesSince !== null && minutesSince(keyRotatesSince, now) > 7 * DAY_MINUTES) yield 'key_rotating';
}

function* proofs({ integrity, testRestore }: Protection, now: Date): Generator<Risk['code']> {
  if (integrity === null) yield 'integrity_unproven';
  else if (integrity.status !== 'passed') yield 'integrity_failed';
  else if (minutesSince(integrity.at, now) > 30 * DAY_MINUTES) yield 'integrity_old';
  if (testRestore === null) yield 'restore_unproven';
  else if (testRestore.status !== 'passed') yield 'restore_failed';
  else if (minutesSince(testRestore.at, now) > 90 * DAY_MINUTES) yield 'restore_old';
}
