import type { Tx } from '../../../platform/db/transaction.ts';
import { type NewAlert, raiseAlerts, resolveAlerts } from '../../alerts/index.ts';
import type { DeviceModel } from '../../devices/index.ts';
import type { Attempt } from './attempts.ts';

const KIND = 'upgrade_failed';

interface Outcome {
  device: Pick<DeviceModel, 'id' | 'orgId' | 'hostname' | 'displayName'>;
  attempt: Attempt;
}

/** Raises an alert for each device that went back to its previous release, and resolves those of devices that run a new one. */
export async function announceOutcomes(tx: Tx, outcomes: readonly Outcome[]): Promise<void> {
  // One alert for each device, about the last component where both were rolled back.
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
