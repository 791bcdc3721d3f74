import { compareVersions, parseVersion } from '../../../platform/semver.ts';
import { isOpen, nextOpening } from './maintenance-window.ts';
import { messageOf } from './target-message.ts';
import { UPGRADE_CAPABILITY } from '../../../protocol/index.ts';
import type { Outcome, Question, Resolution } from './target-question.ts';
import type { Reason } from './target.schema.ts';

/** Whether a component of a device is upgraded now, to which version, and why not (docs/decisions/agent-update-targets.md). */

const blocked = (reason: Reason): Outcome => ({ state: 'blocked', reason });
const deferred = (reason: Reason): Outcome => ({ state: 'deferred', reason });

export function resolveTarget(question: Question): Resolution {
  const { component, settings } = question;
  const latest = latestFor(question);
  const pin = settings.pins[component];
  const target = (pin.value === 'latest' ? latest : pin.value) ?? null;
  const outcome = outcomeOf(question, target, latest);
  return {
    target,
    ...outcome,
    message: messageOf(question, target, outcome),
    levels: { pin: pin.level, policy: settings.policy.level, window: settings.maintenanceWindow.level },
  };
}

/**
 * What the pin `latest` means: the promoted release. Under the policy `staged` it is the rollout's where that is higher
 * and has a build for the platform.
 */
function latestFor({ component, device, releases, settings, rollout }: Question): string | undefined {
  const promoted = releases.promoted(component, device);
  if (settings.policy.value !== 'staged' || rollout === undefined) return promoted;
  if (releases.build(component, rollout.version, device) === undefined) return promoted;
  const isHigher = promoted === undefined || (orderOf(rollout.version, promoted) ?? 0) > 0;
  return isHigher ? rollout.version : promoted;
}

/** The first answer counts: what stands in the way for longest comes first. */
function outcomeOf(question: Question, target: string | null, latest: string | undefined): Outcome {
  if (target === null) return blocked('no_release');
  return (
    atTarget(question, target, latest) ??
    obstacleInRelease(question, target) ??
    obstacleOnDevice(question) ??
    obstacleInPolicy(question, target) ??
    obstacleInTime(question) ?? { state: 'offered', reason: null }
  );
}

/** Nothing to install: the device runs its target, or something newer that no pin asks it to leave. */
function atTarget(
  { component, current, settings }: Question,
  target: string,
  latest: string | undefined,
): Outcome | undefined {
  const isPinned = settings.pins[component].value !== 'latest';
  const order = orderOf(current, target);
  if (order === 0) {
    const hasNewer = latest !== undefined && (orderOf(latest, target) ?? 0) > 0;
    return { state: 'up_to_date', reason: isPinned && hasNewer ? 'pinned' : null };
  }
  // What cannot be compared, such as a build of a developer, is left alone like something newer.
  return isPinned || (order !== undefined && order < 0) ? undefined : blocked('newer_than_target');
}

/** By semver; `undefined` where one of the two is no version and they differ. */
function orderOf(a: string, b: string): number | undefined {
  if (a === b) return 0;
  const [left, right] = [parseVersion(a), parseVersion(b)];
  return left === undefined || right === undefined ? undefined : compareVersions(left, right);
}

function obstacleInRelease({ component, device, releases }: Question, target: string): Outcome | undefined {
  const build = releases.build(component, target, device);
  if (build === undefined) return blocked('no_build_for_platform');
  return build === 'untrusted' ? blocked('signature_untrusted') : undefined;
}

function obstacleOnDevice({ device }: Question): Outcome | undefined {
  if (!device.capabilities.includes(UPGRADE_CAPABILITY)) return blocked('capability_missing');
  return device.autoUpdate ? undefined : blocked('auto_update_off');
}

/** A person who asks for the upgrade stands in for the policy, but not for a rollout that was halted. */
function obstacleInPolicy({ settings, rollout, byHand }: Question, target: string): Outcome | undefined {
  const policy = settings.policy.value;
  const wave = rollout?.version === target ? rollout.wave : 'not_reached';
  if (policy === 'manual' && !byHand) return blocked('policy_manual');
  if (policy !== 'staged') return undefined;
  if (wave === 'halted') return blocked('rollout_halted');
  return wave === 'not_reached' && !byHand ? deferred('wave_not_reached') : undefined;
}

function obstacleInTime({ settings, device, now }: Question): Outcome | undefined {
  const window = settings.maintenanceWindow.value;
  if (window !== null && !isOpen(window, now)) {
    return { ...deferred('outside_window'), nextAt: nextOpening(window, now) };
  }
  return device.connected ? undefined : deferred('agent_offline');
}
