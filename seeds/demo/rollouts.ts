import type { Tx } from '../../src/platform/db/transaction.ts';
import { newId } from '../../src/platform/ids.ts';
import { type AwayDevice, WATCHDOG_VERSION } from './away-devices.ts';
import type { SeededTenants } from './tenants.ts';
import { chance, type DemoTime } from './time.ts';

/** A rollout of the watchdog that was halted three days ago, and one of the agent that begins with the demo. */

/** Versions that the demo publishes: files that only simulated machines pretend to install. */
export const DEMO_RELEASES = { agent: '1.4.0-rc.2', watchdog: '1.2.0-rc.1' } as const;

/** They belong to this customer, which has the update policy `staged`. */
const CUSTOMER = 'northway-logistics';
const HEALTHY = 8;
const FAILED = 3;
const HALTED_HOURS_AGO = 71;

export async function seedHaltedRollout(
  tx: Tx,
  { tenants, devices, time }: { tenants: SeededTenants; devices: readonly AwayDevice[]; time: DemoTime },
): Promise<void> {
  const customer = tenants.customers.find(({ slug }) => slug === CUSTOMER);
  const ofCustomer = devices.filter(({ orgId }) => orgId === customer?.id).slice(0, HEALTHY + FAILED);
  const [healthy, failed] = [ofCustomer.slice(0, HEALTHY), ofCustomer.slice(HEALTHY)];
  if (customer === undefined || failed.length < FAILED) throw new Error('The demo has too few devices.');
  const id = newId();
  const begun = time.hoursAgo(HALTED_HOURS_AGO + 5);
  const haltedAt = time.hoursAgo(HALTED_HOURS_AGO);
  const version = DEMO_RELEASES.watchdog;
  await tx('agent_rollouts').insert({
    id,
    component: 'watchdog',
    version,
    state: 'halted',
    waves: JSON.stringify([
      { percent: 20, soakMinutes: 1440 },
      { percent: 30, soakMinutes: 1440 },
      { percent: 50, soakMinutes: 1440 },
    ]),
    failed_percent: 2,
    silent_minutes: 30,
    min_devices: 20,
    first_devices: ofCustomer.map((device) => device.id),
    wave_opened_at: begun,
    // Those that are away now were not silent then.
    judged_from: haltedAt,
    created_at: begun,
    updated_at: haltedAt,
  });
  const named = failed.map((device) => ({ deviceId: device.id, orgId: device.orgId, name: device.hostname }));
  await tx('agent_rollout_halts').insert({
    id: newId(),
    rollout_id: id,
    reason: 'failed_in_a_row',
    message: `${FAILED} devices failed one after another; ${FAILED} of ${ofCustomer.length} that have finished failed. All of them belong to ${customer.name}.`,
    devices: JSON.stringify(named),
    device_count: named.length,
    halted_at: haltedAt,
  });
  await tx('device_upgrades').insert(
    ofCustomer.map((device, nth) =>
      attemptRow(device, nth, { rolloutId: id, haltedAt, isHealthy: nth < HEALTHY }),
    ),
  );
  await tx('devices')
    .whereIn(
      'id',
      healthy.map((device) => device.id),
    )
    .update({ watchdog_version: version });
  await tx('alerts').insert({
    id: newId(),
    org_id: customer.id,
    kind: 'watchdog_rollout_halted',
    severity: 'high',
    title: `The rollout of watchdog ${version} was halted`,
    message: `These devices failed in the upgrade of the watchdog to ${version}: ${named.map(({ name }) => name).join(', ')}. No further devices are upgraded to it until the operator of the server decides.`,
    details: JSON.stringify({
      component: 'watchdog',
      version,
      reason: 'failed_in_a_row',
      deviceCount: named.length,
      deviceIds: named.map(({ deviceId }) => deviceId),
    }),
    cause_lasts: true,
    raised_at: haltedAt,
    last_at: haltedAt,
    created_at: haltedAt,
    updated_at: haltedAt,
  });
}

function attemptRow(
  { id: deviceId, orgId }: AwayDevice,
  nth: number,
  { rolloutId, haltedAt, isHealthy }: { rolloutId: string; haltedAt: Date; isHealthy: boolean },
) {
  // Those that failed were the last ones.
  const finished = new Date(haltedAt.getTime() - 60_000 * (isHealthy ? 30 + 200 * chance(nth, 41) : 2 + nth));
  const id = newId();
  return {
    id,
    attempt_id: id,
    org_id: orgId,
    device_id: deviceId,
    component: 'watchdog',
    from_version: WATCHDOG_VERSION,
    target_version: DEMO_RELEASES.watchdog,
    state: isHealthy ? 'completed' : 'rolled_back',
    code: isHealthy ? null : 'CRASHED',
    error: isHealthy ? null : 'The new watchdog ended. It was killed by the signal SIGSEGV.',
    rollout_id: rolloutId,
    failures: isHealthy ? 0 : 1,
    started_at: new Date(finished.getTime() - 95_000),
    updated_at: finished,
    finished_at: finished,
  };
}

/**
 * Starts the rollout that is under way, once. Through the API a system administrator with a second factor would do so;
 * everything after this is the server's work and that of the agents.
 */
export async function startDemoRollout(tx: Tx): Promise<void> {
  const started = await tx('agent_rollouts').where({ component: 'agent' }).first('id');
  if (started !== undefined) return;
  await tx('agent_rollouts').insert({
    id: newId(),
    component: 'agent',
    version: DEMO_RELEASES.agent,
    waves: JSON.stringify([
      { percent: 20, soakMinutes: 3 },
      { percent: 30, soakMinutes: 720 },
      { percent: 50, soakMinutes: 1440 },
    ]),
    // A few failures do not halt it: there is one that was halted already.
    failed_percent: 40,
    silent_minutes: 30,
    min_devices: 20,
  });
}
