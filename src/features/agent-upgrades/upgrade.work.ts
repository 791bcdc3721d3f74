import type { DeviceHub } from '../../hub/index.ts';
import type { UpgradeHistory, UpgradeReport } from '../../hub/ports.ts';
import type { Db } from '../../platform/db/pool.ts';
import { withSystem, type Tx } from '../../platform/db/transaction.ts';
import { RepeatedCheck } from '../../platform/jobs/repeated-check.ts';
import type { Logger } from '../../platform/logger.ts';
import { REQUEST_EXPIRED, afterReport, type Attempt } from './attempts.ts';
import {
  showUpdating,
  type Ended,
  attemptsToEnd,
  staleUpdatingDevices,
  lockDevices,
  attemptsOf,
  writeAttempts,
} from './upgrade.queries.ts';
import { clock } from '../../clock.ts';
import { newId } from '../../platform/ids.ts';
import { type NewAlert, raiseAlerts, resolveAlerts } from '../alerts/index.ts';
import type { DeviceModel } from '../devices/index.ts';
import type { PinnedComponent } from './upgrade.schema.ts';

/** A check costs three steps into indexes that are mostly empty. */
const EVERY_MS = 2000;

/**
 * Records what devices do not report themselves: that a release whose version has arrived is on trial, the end of an
 * attempt of which nothing was heard for long and of a request with which no device began, and the end of the status
 * `updating` after some minutes. Every server checks; whatever two of them find is recorded once.
 */
export class UpgradeEnds {
  readonly #parts: { db: Db; hub: DeviceHub; upgradeHistory: UpgradeHistory };
  readonly #checks: RepeatedCheck;

  constructor(parts: { db: Db; hub: DeviceHub; upgradeHistory: UpgradeHistory; log: Logger }) {
    this.#parts = parts;
    this.#checks = new RepeatedCheck({
      everyMs: EVERY_MS,
      check: () => this.#endAll(),
      onFailing: (error) => parts.log.warn({ err: error }, 'upgrades.ends_not_recorded'),
    });
  }

  start(): void {
    this.#checks.start();
  }

  settle(): Promise<void> {
    return this.#checks.settle();
  }

  close(): Promise<void> {
    return this.#checks.close();
  }

  async #endAll(): Promise<void> {
    const { db, hub, upgradeHistory } = this.#parts;
    const toEnd = await withSystem(db, 'upgrades that devices have not ended themselves', attemptsToEnd);
    const ended = toEnd.length === 0 ? [] : await upgradeHistory.record(toEnd.map(reportOf));
    const stale = await withSystem(db, 'devices that have been updating for too long', async (tx) => {
      const found = await staleUpdatingDevices(tx);
      return found.length === 0 ? [] : showUpdating(tx, found);
    });
    const changed = [...ended, ...stale];
    if (changed.length > 0) hub.devicesChanged(changed);
  }
}

function reportOf({ state, hasArrived, ...attempt }: Ended): UpgradeReport {
  // An upgrade that the device has begun is not over when its version arrives: the watchdog says how the trial has
  // ended. A request that the device never began with is fulfilled, by whatever has installed the version.
  if (hasArrived === true && state !== 'trial') {
    return { ...attempt, phase: state === 'offered' ? 'completed' : 'trial' };
  }
  return state === 'offered'
    ? {
        ...attempt,
        phase: 'failed',
        code: REQUEST_EXPIRED,
        error: 'The device has not begun with it in time.',
      }
    : {
        ...attempt,
        phase: 'failed',
        code: 'ABANDONED',
        error:
          state === 'trial'
            ? 'The device has not reported for a day how the trial of the release has ended.'
            : 'Nothing was heard of the attempt for a day.',
      };
}

const KIND = 'upgrade_failed';

interface Outcome {
  device: Pick<DeviceModel, 'id' | 'orgId' | 'hostname' | 'displayName'>;
  attempt: Attempt;
}

/** Raises an alert for each device that went back to its previous release, and resolves those of devices that run a new one. */
async function announceOutcomes(tx: Tx, outcomes: readonly Outcome[]): Promise<void> {
  // One alert for each device, about the last component if both were rolled back.
  const back = new Map(
    outcomes
      .filter(({ attempt }) => attempt.state === 'rolled_back')
      .map((outcome) => [outcome.device.id, alertOf(outcome)]),
  );
  if (back.size > 0) await raiseAlerts(tx, [...back.values()]);
  for (const component of ['agent', 'watchdog'] as const) {
    const healthy = outcomes.filter(
      ({ attempt }) => attempt.state === 'completed' && attempt.component === component,
    );
    if (healthy.length === 0) continue;
    await resolveAlerts(tx, {
      kind: KIND,
      deviceIds: healthy.map(({ device }) => device.id),
      details: { component },
      why: `The ${component} was upgraded.`,
    });
  }
}

function alertOf({ device, attempt }: Outcome): NewAlert {
  const { component, fromVersion, targetVersion, code, error } = attempt;
  const name = device.displayName ?? device.hostname;
  const because = error ?? code;
  return {
    orgId: device.orgId,
    deviceId: device.id,
    kind: KIND,
    severity: 'high',
    title: `${name}: the upgrade of the ${component} to ${targetVersion} was rolled back`,
    message: `The ${component} runs ${fromVersion ?? 'its previous release'} again.${because === null ? '' : ` Reason: ${because}`}`,
    details: { component, fromVersion, targetVersion, code, error },
  };
}

/** Finds the rollout in which a device of an organization gets a version, if there is one. */
type RolloutOf = (orgId: string, component: PinnedComponent, version: string) => string | null;

/** Writes what devices report into the history of their upgrades, and shows by their status that they are updating. */
export const createUpgradeHistory = (db: Db, rolloutOf: RolloutOf): UpgradeHistory => ({
  record: (reports) =>
    withSystem(db, 'record what devices report about their upgrades', async (tx) => {
      const devices = await lockDevices(tx, reports);
      const before = await attemptsOf(tx, reports);
      const after = new Map(before);
      for (const { deviceId, ...report } of reports) {
        const device = devices.get(deviceId);
        if (device === undefined) continue;
        const { component, targetVersion } = report;
        const circumstances = {
          now: clock.date(),
          newId,
          current: component === 'agent' ? device.agentVersion : device.watchdogVersion,
          rolloutId: rolloutOf(device.orgId, component, targetVersion),
        };
        after.set(deviceId, afterReport(after.get(deviceId) ?? [], report, circumstances));
      }
      const changed = [...devices.values()].flatMap((device) => {
        const known = new Set(before.get(device.id));
        const attempts = (after.get(device.id) ?? []).filter((attempt) => !known.has(attempt));
        return attempts.map((attempt) => ({ device, attempt }));
      });
      if (changed.length === 0) return [];
      await writeAttempts(tx, changed);
      await announceOutcomes(tx, changed);
      return showUpdating(tx, [...new Set(changed.map(({ device }) => device.id))]);
    }),
});
