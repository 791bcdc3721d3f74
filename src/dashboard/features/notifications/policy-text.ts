import type { NotificationPolicy, WeeklyHours } from '../../api/routes.ts';
import { alertKindInSentence, minutesText, SEVERITIES } from '../alert-words/index.ts';

/** What a policy does, as sentences. Pure. */

export const DAY_NAMES = ['Sunday', 'Monday', 'Tuesday', 'Wednesday', 'Thursday', 'Friday', 'Saturday'];
/** The days of a week that begins with Monday, as the API numbers them. */
export const WEEK = [1, 2, 3, 4, 5, 6, 0] as const;

const HOUR = 60;
const DAY = 24 * HOUR;
/** So many names are written out; of more, how many there are. */
const NAMED_MAX = 3;

const and = new Intl.ListFormat('en-GB', { type: 'conjunction' });
const listed = (names: readonly string[]): string => and.format(names);
export const asBeginning = (text: string): string => text.charAt(0).toUpperCase() + text.slice(1);

/** "A, B, C and 4 other organizations". */
function shortList(names: readonly string[], noun: string): string {
  const others = names.length - NAMED_MAX;
  if (others <= 1) return listed(names);
  return listed([...names.slice(0, NAMED_MAX), `${others} other ${noun}s`]);
}

/** "each hour", "every 2 hours". */
export function everyText(minutes: number): string {
  if (minutes === HOUR) return 'each hour';
  return minutes === DAY ? 'each day' : `every ${minutesText(minutes)}`;
}

/** "Monday to Friday", "Saturday and Sunday", "every day". */
export function daysText(days: readonly number[] | undefined): string {
  const places = WEEK.flatMap((day, place) => (days === undefined || days.includes(day) ? [place] : []));
  const names = places.map((place) => DAY_NAMES[WEEK[place] ?? 0] ?? '');
  if (places.length === WEEK.length) return 'every day';
  const isRun = places.every((place, at) => at === 0 || place === (places[at - 1] ?? 0) + 1);
  return isRun && places.length > 2 ? `${names[0]} to ${names.at(-1)}` : listed(names);
}

/** "Monday to Friday, 08:00 to 18:00 (Europe/Vienna)". */
export function hoursText({ days, from, to, timezone }: WeeklyHours): string {
  const night = to < from ? ' of the next day' : '';
  const clock = from === to ? `24 hours from ${from}` : `${from} to ${to}${night}`;
  return `${daysText(days)}, ${clock} (${timezone})`;
}

export interface PolicyNames {
  organization: (id: string) => string;
  site: (id: string) => string;
}

/** Which alerts a policy takes: "Critical and high alerts of Northway". */
function subjectText(
  { orgId, match }: Pick<NotificationPolicy, 'orgId' | 'match'>,
  names: PolicyNames,
): string {
  const { severities, kinds, orgIds, siteIds, hours } = match;
  const chosen = SEVERITIES.filter((severity) => severities?.includes(severity));
  const isAll = chosen.length === 0 || chosen.length === SEVERITIES.length;
  const about = kinds === undefined ? '' : ` (${shortList(kinds.map(alertKindInSentence), 'kind')})`;
  const organizations =
    orgId === null ? orgIds?.map((id) => names.organization(id)) : [names.organization(orgId)];
  const whose =
    organizations === undefined ? ' of all organizations' : ` of ${shortList(organizations, 'organization')}`;
  const where =
    siteIds === undefined
      ? ''
      : ` at ${shortList(
          siteIds.map((id) => names.site(id)),
          'site',
        )}`;
  const when = hours === undefined ? '' : `, if raised ${hoursText(hours)}`;
  return `${isAll ? 'All' : asBeginning(listed(chosen))} alerts${about}${whose}${where}${when}`;
}

type Step = NotificationPolicy['steps'][number];

/** "Slack and Anna by mail after 15 minutes". */
function stepText(
  { afterMinutes, channelIds, userIds }: Step,
  { channels, users }: Pick<NotificationPolicy, 'channels' | 'users'>,
): string {
  const nameIn = (known: readonly { id: string; name: string }[], id: string, unknown: string) =>
    known.find((each) => each.id === id)?.name ?? unknown;
  const recipients = [
    ...channelIds.map((id) => nameIn(channels, id, 'a deleted channel')),
    ...userIds.map((id) => `${nameIn(users, id, 'somebody who is not told any more')} by mail`),
  ];
  return `${listed(recipients)} ${afterMinutes === 0 ? 'at once' : `after ${minutesText(afterMinutes)}`}`;
}

const ENDS: Record<NotificationPolicy['until'], string> = {
  acknowledged: 'until somebody acknowledges',
  resolved: 'until they are resolved',
};
const TOGETHER: Record<NotificationPolicy['groupBy'], string> = {
  none: '',
  device: ' Alerts of the same device are told together.',
  site: ' Alerts of the same site are told together.',
  rule: ' Alerts of the same kind are told together.',
};

type Told = Pick<
  NotificationPolicy,
  'orgId' | 'match' | 'steps' | 'channels' | 'users' | 'repeatEveryMinutes' | 'groupBy' | 'until'
>;

/**
 * "Critical and high alerts of Northway: Slack at once, then Anna by mail after 15 minutes; again each hour until
 * somebody acknowledges."
 */
export function policyText(policy: Told, names: PolicyNames): string {
  const { steps, repeatEveryMinutes, groupBy, until } = policy;
  const told = steps.map((step) => stepText(step, policy)).join(', then ');
  const goesOn =
    repeatEveryMinutes === null
      ? steps.length > 1
        ? `; goes on ${ENDS[until]}`
        : ''
      : `; again ${everyText(repeatEveryMinutes)} ${ENDS[until]}`;
  return `${subjectText(policy, names)}: ${told}${goesOn}.${TOGETHER[groupBy]}`;
}
