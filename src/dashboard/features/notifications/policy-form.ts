import type { NotificationPolicy, WeeklyHours } from '../../api/routes.ts';
import { kindOf, wordsOfKind, type Severity } from '../alert-words/index.ts';

/** The fields of a policy, and how they become what the API takes. Pure. */

export interface StepForm {
  /** Tells the steps of a form from each other. */
  key: number;
  afterMinutes: number;
  channelIds: string[];
  userIds: string[];
}

export interface PolicyForm {
  owner: string | undefined;
  name: string;
  severities: Severity[];
  /** As words: "Device offline". */
  kinds: string[];
  orgIds: string[];
  siteIds: string[];
  hours: WeeklyHours | null;
  groupBy: NotificationPolicy['groupBy'];
  groupSeconds: number;
  repeatEveryMinutes: number | null;
  until: NotificationPolicy['until'];
}

const LATER_MINUTES = 15;
const GROUP_SECONDS = 30;

export const policyFormOf = (policy: NotificationPolicy | undefined): PolicyForm => ({
  owner: undefined,
  name: policy?.name ?? '',
  severities: policy?.match.severities ?? (policy === undefined ? ['critical', 'high'] : []),
  kinds: (policy?.match.kinds ?? []).map(wordsOfKind),
  orgIds: policy?.match.orgIds ?? [],
  siteIds: policy?.match.siteIds ?? [],
  hours: policy?.match.hours ?? null,
  groupBy: policy?.groupBy ?? 'none',
  groupSeconds: policy?.groupBy === 'none' ? GROUP_SECONDS : (policy?.groupSeconds ?? GROUP_SECONDS),
  repeatEveryMinutes: policy === undefined ? 60 : policy.repeatEveryMinutes,
  until: policy?.until ?? 'acknowledged',
});

/** The first step, or one some minutes after those that there are. */
export function nextStep(steps: readonly StepForm[]): StepForm {
  const last = steps.at(-1);
  return {
    key: Math.max(0, ...steps.map(({ key }) => key)) + 1,
    afterMinutes: last === undefined ? 0 : last.afterMinutes + LATER_MINUTES,
    channelIds: [],
    userIds: [],
  };
}

export const stepFormsOf = (policy: NotificationPolicy | undefined): StepForm[] =>
  policy === undefined ? [nextStep([])] : policy.steps.map((step, place) => ({ key: place + 1, ...step }));

const filled = <T>(list: readonly T[]): T[] | undefined => (list.length === 0 ? undefined : [...list]);

/** What both a new policy and a change of one send. Empty lists are left out: everything fits then. */
export function policyBody(form: PolicyForm, steps: readonly StepForm[], isOfProvider: boolean) {
  const { name, hours, groupBy, groupSeconds, repeatEveryMinutes, until } = form;
  const match = {
    severities: filled(form.severities),
    kinds: filled(form.kinds.map(kindOf)),
    orgIds: isOfProvider ? filled(form.orgIds) : undefined,
    siteIds: filled(form.siteIds),
    hours: hours ?? undefined,
  };
  return {
    name,
    match: withoutUndefined(match),
    steps: steps.map(({ afterMinutes, channelIds, userIds }) => ({ afterMinutes, channelIds, userIds })),
    repeatEveryMinutes,
    groupBy,
    groupSeconds: groupBy === 'none' ? 0 : groupSeconds,
    until,
  };
}

function withoutUndefined<T extends object>(fields: T): { [K in keyof T]?: Exclude<T[K], undefined> } {
  const kept: Partial<T> = { ...fields };
  for (const name in kept) if (kept[name] === undefined) delete kept[name];
  return kept as { [K in keyof T]?: Exclude<T[K], undefined> };
}
