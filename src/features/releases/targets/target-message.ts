import { parseVersion } from '../../../platform/semver.ts';
import { UPGRADE_CAPABILITY } from '../../../protocol/index.ts';
import type { Outcome, Question } from './target-question.ts';
import type { Reason } from './target.schema.ts';

/** The answer of the resolver as a sentence for people. */
export function messageOf(question: Question, target: string | null, outcome: Outcome): string {
  const { component } = question;
  if (outcome.reason !== null) return SENTENCES[outcome.reason](question, target, outcome);
  return outcome.state === 'up_to_date'
    ? `The ${component} runs its target version ${target}.`
    : `Nothing stands in the way of the upgrade of the ${component} to ${target}.`;
}

type Sentence = (question: Question, target: string | null, outcome: Outcome) => string;

const SENTENCES: Record<Reason, Sentence> = {
  no_release: (question) =>
    `No release of the ${question.component} is promoted for ${platformOf(question)}.`,
  pinned: ({ component, settings }, target) =>
    `The ${settings.pins[component].level} pins the ${component} to ${target}, so newer releases are not installed.`,
  no_build_for_platform: (question, target) =>
    `There is no build of ${question.component} ${target} for ${platformOf(question)}.`,
  newer_than_target: ({ component, current }, target) =>
    parseVersion(current) === undefined
      ? `The ${component} reports the version ${current}, which cannot be compared with ${target}; only a pin to a version replaces it.`
      : `The ${component} runs ${current}, which is newer than ${target}; only a pin to a version installs an older one.`,
  signature_untrusted: ({ component }, target) =>
    `The signature of ${component} ${target} does not hold, so it is not installed.`,
  capability_missing: () =>
    `The agent cannot install releases by itself: it does not report the capability ${UPGRADE_CAPABILITY}.`,
  auto_update_off: () => 'Automatic updates are switched off for this device.',
  policy_manual: ({ settings }) =>
    `The ${settings.policy.level} has the update policy manual: upgrades start when somebody asks for them.`,
  rollout_halted: (_question, target) => `The rollout of ${target} was halted.`,
  wave_not_reached: (_question, target) =>
    `The update policy is staged, and no wave of a rollout of ${target} has reached this device.`,
  outside_window: (_question, _target, { nextAt }) =>
    `Upgrades are installed in the maintenance window only, which opens next at ${nextAt?.toISOString()}.`,
  agent_offline: (_question, target) => `The device is not connected; ${target} is offered when it connects.`,
};

const platformOf = ({ device }: Question) => `${device.osType}/${device.architecture}`;
