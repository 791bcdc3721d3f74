import type { NewAlert, StandingCause } from '../../alerts/index.ts';
import { BROKEN_CHAIN, EMPTY, FAILED, MISSED, SIZE_DROP, VERIFICATION_FAILED } from '../core/alert-kinds.ts';
import { findAnomaly, hasRecovered } from '../core/anomaly.ts';
import { type DeviceFacts, missedSince } from '../core/protection.ts';
import { z } from 'zod';

/** The alerts that a device deserves now. Each is about all of its configurations, because a device has one of a kind. */

const about = ({ orgId, deviceId }: DeviceFacts) => ({ orgId, deviceId });

/** The last backup of a configuration has failed. */
export function failedAlert(facts: DeviceFacts): NewAlert | undefined {
  const failed = facts.protections.filter(({ lastJob }) => lastJob?.status === 'failed');
  const [first] = failed;
  if (first === undefined) return undefined;
  return {
    ...about(facts),
    kind: FAILED,
    severity: 'high',
    title: `${facts.deviceName}: the backup has failed`,
    message: failed
      .map(({ configName, lastJob }) => `${configName}: ${lastJob?.errorMessage ?? 'The backup has failed.'}`)
      .join('\n'),
    details: { configIds: failed.map(({ configId }) => configId), code: first.lastJob?.errorCode ?? null },
  };
}

const NAMED_MAX = 5;
const NAME_MAX = 300;

/** The newest backup has no files, or none of a source that had some. While this is open, retention removes nothing. */
export function emptyAlert(facts: DeviceFacts): NewAlert | undefined {
  const empty = facts.protections.filter(({ snapshots: [newest] }) => newest?.lacksFiles === true);
  if (empty.length === 0) return undefined;
  return {
    ...about(facts),
    kind: EMPTY,
    severity: 'high',
    title: `${facts.deviceName}: a backup has no files`,
    message: [
      ...empty.map(({ configName, snapshots: [newest] }) => {
        const sources = newest?.emptySources ?? [];
        const more = sources.length > NAMED_MAX ? ` and ${sources.length - NAMED_MAX} more` : '';
        const where =
          sources.length === 0
            ? ''
            : ` of ${sources
                .slice(0, NAMED_MAX)
                .map((source) => source.slice(0, NAME_MAX))
                .join(', ')}${more}`;
        return `${configName}: the newest backup has no files${where}.`;
      }),
      'Look whether a disk is not mounted, or everything is excluded. Until this is explained, no snapshot is removed.',
    ].join('\n'),
    details: { configIds: empty.map(({ configId }) => configId) },
  };
}

/** A scheduled backup is missing by the clock of the server, whatever the reason. */
export function missedAlert(facts: DeviceFacts, now: Date): NewAlert | undefined {
  const missed = facts.protections.flatMap((protection) => {
    const since = missedSince(protection, now);
    return since === undefined ? [] : [{ ...protection, since }];
  });
  if (missed.length === 0) return undefined;
  return {
    ...about(facts),
    kind: MISSED,
    severity: 'high',
    title: `${facts.deviceName}: a scheduled backup is missing`,
    message: missed
      .map(({ configName, since }) => `${configName}: a backup was due by ${since.toISOString()}.`)
      .join('\n'),
    details: { configIds: missed.map(({ configId }) => configId) },
  };
}

const Known = z.object({
  configId: z.uuid(),
  snapshotId: z.uuid().optional(),
  sign: z.string(),
  baselineBytes: z.number().optional(),
});

/**
 * A backup is much smaller than those before, or much of it has changed. While this is open, retention removes nothing.
 * A size drop ends when the size is back; many changes cannot be undone, so a person ends that alert. It is then about
 * that snapshot no more, and what the next one shows is judged in the next round.
 */
export function anomalyAlert(facts: DeviceFacts, standing: StandingCause | undefined): NewAlert | undefined {
  const known = Known.safeParse(standing?.details).data;
  const kept = facts.protections.find(({ configId }) => configId === known?.configId);
  if (kept !== undefined && known !== undefined && standing !== undefined) {
    const { baselineBytes } = known;
    const lasts =
      baselineBytes === undefined ? !standing.isResolved : !hasRecovered(baselineBytes, kept.snapshots[0]);
    if (lasts) return anomalyOf(facts, kept.configName, known);
    const isOfAnother = known.snapshotId !== undefined && known.snapshotId !== kept.snapshots[0]?.id;
    if (standing.isResolved && isOfAnother) return undefined;
  }
  for (const { configId, configName, snapshots } of facts.protections) {
    const anomaly = findAnomaly(snapshots);
    const snapshotId = snapshots[0]?.id;
    if (anomaly !== undefined) return anomalyOf(facts, configName, { configId, snapshotId, ...anomaly });
  }
  return undefined;
}

const anomalyOf = (
  facts: DeviceFacts,
  configName: string,
  details: Record<string, unknown> & { sign: string },
): NewAlert => ({
  ...about(facts),
  kind: SIZE_DROP,
  severity: 'critical',
  title: `${facts.deviceName}: the backup has changed as after an attack`,
  message: `${configName}: ${SIGNS[details.sign] ?? SIGNS['changes']}. Until this is explained, no snapshot is removed.`,
  details,
});

const SIGNS: Readonly<Record<string, string>> = {
  size_drop: 'the newest backup has less than half of the usual size',
  changes: 'at least half of the files were changed at once',
  rewritten: 'at least half of the data was sent anew',
};

/** The last verification of a kind has found errors. */
export function verificationAlert(facts: DeviceFacts): NewAlert | undefined {
  const failed = facts.protections.filter(({ integrity, testRestore }) =>
    [integrity, testRestore].some((proof) => proof !== null && proof.status !== 'passed'),
  );
  if (failed.length === 0) return undefined;
  return {
    ...about(facts),
    kind: VERIFICATION_FAILED,
    severity: 'critical',
    title: `${facts.deviceName}: a backup did not pass its verification`,
    message: failed.map(({ configName }) => `${configName}: errors were found.`).join('\n'),
    details: { configIds: failed.map(({ configId }) => configId) },
  };
}

/** What the newest backup of a database needs is not there any more. The next full backup ends this. */
export function chainAlert(facts: DeviceFacts): NewAlert | undefined {
  const broken = facts.protections.filter(({ chainEnds }) => chainEnds?.brokenBecause != null);
  if (broken.length === 0) return undefined;
  return {
    ...about(facts),
    kind: BROKEN_CHAIN,
    severity: 'critical',
    title: `${facts.deviceName}: the newest backup of a database cannot be restored`,
    message: broken
      .map(
        ({ configName, chainEnds }) => `${configName}: ${chainEnds?.brokenBecause ?? ''} Make a full backup.`,
      )
      .join('\n'),
    details: { configIds: broken.map(({ configId }) => configId) },
  };
}
