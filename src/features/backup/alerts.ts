import { z } from 'zod';
import type { Db } from '../../platform/db/pool.ts';
import { type Tx, withSystem } from '../../platform/db/transaction.ts';
import { followCauses, type NewAlert, type StandingCause } from '../alerts/index.ts';
import {
  type Behind,
  followSlaEvents,
  markStalled,
  openBreaches,
  stalledDevices,
  vaultsBehind,
} from './alerts.queries.ts';
import { type DeviceFacts, findAnomaly, hasRecovered, missedSince } from './protection.ts';
import { shortened } from '../../protocol/index.ts';

/** The kinds of the alerts about backups. Each is about one device; the last is also about an organization. */
export const FAILED = 'backup_failed';
export const EMPTY = 'backup_empty';
export const MISSED = 'backup_missed';
export const STALLED = 'backup_stalled';
export const SIZE_DROP = 'backup_size_drop';
export const VERIFICATION_FAILED = 'backup_verification_failed';
export const BROKEN_CHAIN = 'backup_chain_broken';
export const VAULT_BEHIND = 'backup_vault_behind';
export const SLA_BREACH = 'backup_sla_breach';
export const DESTINATION_FULL = 'backup_destination_full';

// The alerts of a device now. Each is about all of its configurations, because a device has one alert of a kind.

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
                .map((source) => shortened(source, NAME_MAX))
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

/** The newest backup of a database needs one that is missing. The next full backup ends this. */
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

/**
 * Marks the backups and restores that run and have not advanced, and makes the alerts follow. A trigger takes the mark
 * away when the device reports an advance (migrations/0014_backup_jobs.sql).
 */
export const watchStalled = (db: Db): Promise<void> =>
  withSystem(db, 'find backups and restores that go on no more', async (tx) => {
    await markStalled(tx);
    const alerts = await stalledAlerts(tx);
    await followCauses(tx, { kind: STALLED, alerts, why: 'The work goes on, or has ended.' });
  });

async function stalledAlerts(tx: Tx): Promise<NewAlert[]> {
  const devices = await stalledDevices(tx);
  return devices.map(({ orgId, deviceId, deviceName, backups, restores, since, isConnected }) => ({
    orgId,
    deviceId,
    kind: STALLED,
    severity: 'medium',
    title: `${deviceName}: a ${backups > 0 ? 'backup' : 'restore'} does not advance`,
    message: `Nothing has moved since ${since.toISOString()}. The device is ${isConnected ? '' : 'not '}connected.`,
    details: { backups, restores, since: since.toISOString() },
  }));
}

/** @param missed  the devices of which a scheduled backup is missing */
export const followBreaches = (db: Db, missed: readonly string[]): Promise<void> =>
  withSystem(db, 'make the events of SLAs follow', async (tx) => {
    await followSlaEvents(tx, missed);
    const breaches = await openBreaches(tx);
    await followCauses(tx, {
      kind: SLA_BREACH,
      alerts: breaches.map(({ orgId, deviceId, name, slas }) => ({
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

/** The alerts about vaults that are due: one for each device, because a device has one of a kind. */
export async function vaultAlerts(tx: Tx): Promise<NewAlert[]> {
  const behind = await vaultsBehind(tx);
  return behind.map(({ orgId, deviceId, deviceName, vaults }) => ({
    orgId,
    deviceId,
    kind: VAULT_BEHIND,
    severity: vaults.some(({ isUnsound }) => isUnsound) ? 'critical' : 'high',
    title: `${deviceName}: a vault does not have what it should have`,
    message: vaults.map(sentenceAbout).join('\n'),
    details: { vaultIds: vaults.map(({ id }) => id), code: vaults[0]?.code ?? null },
  }));
}

function sentenceAbout({ name, snapshots, hours, isUnsound, code }: Behind['vaults'][number]): string {
  if (isUnsound) return `${name}: its last verification found errors.`;
  const why = code === null ? '' : ` The last sync has failed: ${code}.`;
  return `${name}: ${snapshots} snapshots are missing, the oldest for ${hours} hours.${why}`;
}
