import type { DeviceHub } from '../../../hub/index.ts';
import type { UpgradeHistory, UpgradeReport } from '../../../hub/ports.ts';
import type { Db } from '../../../platform/db/pool.ts';
import { withSystem } from '../../../platform/db/transaction.ts';
import type { Logger } from '../../../platform/logger.ts';
import { RepeatedCheck } from '../../../platform/jobs/repeated-check.ts';
import { REQUEST_EXPIRED } from './attempts.ts';
import { REQUEST_DAYS } from './held-attempt.ts';
import { IS_UPDATING, showUpdating } from './upgrade-history.ts';

/** A check costs three steps into indexes that are mostly empty. */
const EVERY_MS = 2000;
const AT_ONCE = 500;
/** A device that has said nothing of an attempt for so long has given it up. */
const ABANDONED_HOURS = 24;

/** The version that the device `d` reports for the component of the attempt `u`. */
const REPORTED = `case u.component when 'agent' then d.agent_version else d.watchdog_version end`;

const ENDED = `
  select u.device_id as "deviceId", u.component, u.target_version as "targetVersion", u.attempt_id as "attemptId", u.state,
    u.target_version = ${REPORTED} as "hasArrived"
  from device_upgrades u join devices d on d.id = u.device_id
  where u.finished_at is null and d.condition <> 'decommissioned' and (
    u.target_version = ${REPORTED} and u.target_version is distinct from u.from_version and u.state <> 'trial'
    or u.state = 'offered' and u.started_at < now() - interval '${REQUEST_DAYS} days'
    or u.state <> 'offered' and u.updated_at < now() - interval '${ABANDONED_HOURS} hours')
  order by u.started_at limit ${AT_ONCE}`;

const STALE = `select d.id from devices d where d.condition = 'updating' and not ${IS_UPDATING} limit ${AT_ONCE}`;

type Ended = Pick<UpgradeReport, 'deviceId' | 'component' | 'targetVersion'> & {
  attemptId: string;
  state: string;
  hasArrived: boolean | null;
};

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
    const { rows } = await withSystem(db, 'upgrades that devices have not ended themselves', (tx) =>
      tx.raw<{ rows: Ended[] }>(ENDED),
    );
    const ended = rows.length === 0 ? [] : await upgradeHistory.record(rows.map(reportOf));
    const stale = await withSystem(db, 'devices that have been updating for too long', async (tx) => {
      const found = await tx.raw<{ rows: { id: string }[] }>(STALE);
      return found.rows.length === 0
        ? []
        : showUpdating(
            tx,
            found.rows.map(({ id }) => id),
          );
    });
    const changed = [...ended, ...stale];
    if (changed.length > 0) hub.devicesChanged(changed);
  }
}

function reportOf({ state, hasArrived, ...attempt }: Ended): UpgradeReport {
  // What the device has begun is not over when its version arrives: the watchdog says how the trial has ended. A request
  // that the device never began with is fulfilled, by whatever has installed the version.
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
