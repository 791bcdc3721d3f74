import type { NewAlert } from '../../alerts/index.ts';
import type { HaltReason, Outcomes, Silence } from '../rollouts/halting.ts';
import type { AgentRollout } from '../rollouts/rollout.model.ts';
import type { NamedDevice } from './device-groups.ts';

/** What people read about a rollout that was halted. */

type Limits = Pick<AgentRollout, 'component' | 'version' | 'failedPercent' | 'silentMinutes'>;

/** How the devices that caused it spread over organizations: many of one organization may be its own problem. */
interface Spread {
  sizes: readonly number[];
  largest: string | undefined;
}

export function haltMessage(
  rollout: Limits,
  because: { reason: HaltReason; outcomes: Outcomes; silence: Silence },
  spread: Spread,
): string {
  return `${whatHappened(rollout, because)} ${whereItHappened(spread)}`;
}

function whatHappened(
  { failedPercent, silentMinutes }: Limits,
  { reason, outcomes, silence }: { reason: HaltReason; outcomes: Outcomes; silence: Silence },
): string {
  const { failed, healthy, failuresInARow } = outcomes;
  const finished = failed + healthy;
  const sentences: Record<HaltReason, string> = {
    failed_in_a_row: `${failuresInARow} devices failed one after another; ${failed} of ${finished} that have finished failed.`,
    failed_share: `${failed} of ${finished} devices that have finished failed, which is ${percent(failed, finished)}; the limit is ${Number(failedPercent)} %.`,
    silent: `${silence.upgradedSilent} of ${silence.upgraded} upgraded devices have not been heard of for ${silentMinutes} minutes; of the other devices it is ${silence.othersSilent} of ${silence.others}.`,
  };
  return sentences[reason];
}

function whereItHappened({ sizes, largest }: Spread): string {
  const most = Math.max(0, ...sizes);
  const name = largest ?? 'an organization that was deleted';
  return sizes.length === 1
    ? `All of them belong to ${name}.`
    : `They belong to ${sizes.length} organizations; most of them, ${most}, to ${name}.`;
}

const percent = (part: number, whole: number) =>
  `${Math.round((whole === 0 ? 0 : part / whole) * 1000) / 10} %`;

/** Agent and watchdog can be halted at the same time, so that each has a kind of its own. */
export const haltAlertKind = (component: string) => `${component}_rollout_halted`;

const NAMED_IN_ALERT = 20;

/** The alert of one organization, which names its own devices. */
export function haltAlert(
  { component, version }: Limits,
  reason: HaltReason,
  { orgId, devices }: { orgId: string; devices: readonly NamedDevice[] },
): NewAlert {
  const names = devices.slice(0, NAMED_IN_ALERT).map(({ name }) => name);
  const rest = devices.length - names.length;
  const list = rest > 0 ? `${names.join(', ')} and ${rest} more` : names.join(', ');
  const verb = reason === 'silent' ? 'fell silent after' : 'failed in';
  return {
    orgId,
    kind: haltAlertKind(component),
    severity: 'high',
    title: `The rollout of ${component} ${version} was halted`,
    message: `These devices ${verb} the upgrade of the ${component} to ${version}: ${list}. No further devices are upgraded to it until the operator of the server decides.`,
    details: {
      component,
      version,
      reason,
      deviceCount: devices.length,
      deviceIds: devices.slice(0, NAMED_IN_ALERT).map(({ deviceId }) => deviceId),
    },
  };
}
