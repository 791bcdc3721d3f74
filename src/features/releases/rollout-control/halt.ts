import { endLastingAlerts, raiseLastingAlerts } from '../../alerts/index.ts';
import type { Tx } from '../../../platform/db/transaction.ts';
import { newId } from '../../../platform/ids.ts';
import type { HaltReason, Outcomes, Silence } from '../rollouts/halting.ts';
import { AgentRollout } from '../rollouts/rollout.model.ts';
import type { NamedDevice } from './device-groups.ts';
import { haltAlert, haltAlertKind, haltMessage } from './halt-message.ts';

/** Halting a rollout: what is recorded of it, and the alerts of the organizations whose devices caused it. */

/** So many devices are named in the record; all of them are counted. */
const NAMED_MAX = 100;

export interface Halt {
  reason: HaltReason;
  outcomes: Outcomes;
  silence: Silence;
  /** The devices that caused it. */
  devices: readonly NamedDevice[];
  now: Date;
}

/** Of a caller who holds the row of the rollout. */
export async function halt(tx: Tx, rollout: AgentRollout, { devices, ...because }: Halt): Promise<void> {
  const byOrganization = groupByOrganization(devices);
  const largest = [...byOrganization].sort(([, a], [, b]) => b.length - a.length)[0]?.[0];
  await AgentRollout.query(tx).findById(rollout.id).patch({ state: 'halted' });
  await tx('agent_rollout_halts').insert({
    id: newId(),
    rollout_id: rollout.id,
    reason: because.reason,
    message: haltMessage(rollout, because, {
      sizes: [...byOrganization.values()].map(({ length }) => length),
      largest: largest === undefined ? undefined : await nameOf(tx, largest),
    }),
    devices: JSON.stringify(devices.slice(0, NAMED_MAX)),
    device_count: devices.length,
    halted_at: because.now,
  });
  // An organization learns about its own devices only.
  await raiseLastingAlerts(
    tx,
    [...byOrganization].map(([orgId, own]) => haltAlert(rollout, because.reason, { orgId, devices: own })),
  );
}

/** Ends the standing halt of a rollout, if there is one, and resolves its alerts. */
export async function endHalt(
  tx: Tx,
  { id, component }: Pick<AgentRollout, 'id' | 'component'>,
  { why, now }: { why: string; now: Date },
): Promise<void> {
  await tx('agent_rollout_halts').where({ rollout_id: id }).whereNull('ended_at').update({ ended_at: now });
  await endLastingAlerts(tx, { kind: haltAlertKind(component), why });
}

function groupByOrganization(devices: readonly NamedDevice[]): Map<string, NamedDevice[]> {
  const groups = new Map<string, NamedDevice[]>();
  for (const device of devices) {
    const group = groups.get(device.orgId);
    if (group === undefined) groups.set(device.orgId, [device]);
    else group.push(device);
  }
  return groups;
}

async function nameOf(tx: Tx, orgId: string): Promise<string | undefined> {
  const row = await tx('organizations').select<{ name: string }[]>('name').where({ id: orgId }).first();
  return row?.name;
}
