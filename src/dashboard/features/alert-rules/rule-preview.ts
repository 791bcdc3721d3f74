import type { AlertRulePreview } from '../../api/routes.ts';
import { counted } from '../alert-words/index.ts';

/** What a preview of a rule says, in words and bars. Pure. */

/** "Would have raised 12 alerts about 4 devices." */
export function previewText({ devices, count, affected }: AlertRulePreview): string {
  if (devices === 0) return 'The rule covers no devices.';
  if (count === 0) return 'Would have raised no alerts.';
  return `Would have raised ${counted(count, 'alert')} about ${counted(affected, 'device')}.`;
}

/** "2 devices met the condition already when the 7 days began, and are not counted for it." */
export function beforeText({ before }: Pick<AlertRulePreview, 'before'>): string | undefined {
  if (before === 0) return undefined;
  const who = `${counted(before, 'device')} met the condition already when the 7 days began`;
  return `${who}, and ${before === 1 ? 'is' : 'are'} not counted for that.`;
}

/** How a preview relates to what would really have been raised. */
export const LIMITS_TEXT =
  'A preview goes by when things happened, for this rule alone and the devices that it covers now, as if it always had: really, alerts come some minutes later, causes that return at once are one alert, and maintenance, other rules, an outage of Muster, or time that a device spent out of service, in another organization or outside of the target may hold alerts back. Figures of a device whose clock was wrong are where that clock has put them, or are missing.';

/** What the preview leaves out; `undefined` if that is nothing. @param kind  of the condition */
export function incompleteText(
  { complete, devices, examined }: AlertRulePreview,
  kind: string,
): string | undefined {
  if (complete) return undefined;
  if (kind === 'service' && examined === devices) {
    return 'The preview is incomplete: of services it knows only their present states, and since when.';
  }
  return examined < devices
    ? `The preview is incomplete: it examined ${examined.toLocaleString('en')} of ${counted(devices, 'device')}. The rule may raise more alerts.`
    : 'The preview is incomplete: more happened than it examines, or than is kept of the last 7 days.';
}

export interface DayBar {
  /** "2026-11-29". */
  day: string;
  /** "Sun 29". */
  label: string;
  count: number;
  /** The height beside the highest one, from 0 to 1. */
  share: number;
}

const DAY_MS = 86_400_000;
const dayName = new Intl.DateTimeFormat('en-GB', { timeZone: 'UTC', weekday: 'short', day: 'numeric' });

/** The days from the begin to the end of a preview, those without alerts as well. */
export function dayBars({ from, to, byDay }: Pick<AlertRulePreview, 'from' | 'to' | 'byDay'>): DayBar[] {
  const counts = new Map(byDay.map(({ day, count }) => [day, count]));
  const most = Math.max(1, ...counts.values());
  const bars: DayBar[] = [];
  const last = Date.parse(to);
  for (let at = Date.parse(`${from.slice(0, 10)}T00:00:00Z`); at <= last; at += DAY_MS) {
    const day = new Date(at).toISOString().slice(0, 10);
    const count = counts.get(day) ?? 0;
    bars.push({ day, label: dayName.format(at), count, share: count / most });
  }
  return bars;
}
