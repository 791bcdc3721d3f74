import type { RuleFamily } from '../alerts/index.ts';
import type { RuleCondition } from './alert-rule.schema.ts';
import { isAbove, ruleMetric, type RuleMetricName } from './rule-metrics.ts';

/** What alerts of rules are called, and what they say. Pure. */

/** Rules of these kinds watch for causes of their own, so that each raises alerts of a kind of its own. */
const OWN_KINDS = {
  event: 'log_event',
  software: 'software_change',
  service: 'service_state',
} as const satisfies Partial<Record<RuleCondition['kind'], RuleFamily>>;

/** The random end of an id. */
const KIND_LENGTH = 12;

/** The kind of the alerts that a rule raises. Rules that raise the same kind share one alert about a device. */
export function alertKindOf(ruleId: string, condition: RuleCondition): string {
  switch (condition.kind) {
    case 'offline':
      return 'device_offline';
    case 'metric': {
      const [high, low] = ruleMetric(condition.metric).alertKinds;
      return isAbove(condition) ? high : low;
    }
    case 'reported':
      return condition.alertKind;
    case 'event':
    case 'software':
    case 'service':
      return `${OWN_KINDS[condition.kind]}_${ruleId.replaceAll('-', '').slice(-KIND_LENGTH)}`;
    default:
      return condition satisfies never;
  }
}

/** What was found on a device. */
export interface Found {
  label: string;
  since: Date;
  facts: Facts;
}

/** Of a metric the figure; of events their number and the newest; of software its name and version; of a service its name and state. */
export interface Facts {
  value?: number | undefined;
  count?: number | undefined;
  message?: string | undefined;
  source?: string | undefined;
  name?: string | undefined;
  version?: string | undefined;
  state?: string | undefined;
}

/** @param found  not empty */
export function alertText(
  condition: Exclude<RuleCondition, { kind: 'offline' | 'reported' }>,
  { rule, device, found }: { rule: string; device: string; found: readonly Found[] },
): { title: string; message: string; details: Record<string, unknown> } {
  switch (condition.kind) {
    case 'metric':
      return metricText(condition, device, found);
    case 'event': {
      const [first] = found;
      const { count = condition.count, message = '', source = '' } = first?.facts ?? {};
      const times = count === 1 ? 'An event' : `${count} events in ${inWords(condition.withinMinutes)}`;
      return {
        title: `${rule}: ${device}`,
        message: `${times} on ${device} ${count === 1 ? 'fits' : 'fit'} the rule. The newest is from ${source}: ${message}`,
        details: { count, source, message, withinMinutes: condition.withinMinutes },
      };
    }
    case 'software': {
      const all = found.map(({ facts: { name = '', version = '' } }) => ({ name, version }));
      const names = listOf(
        all.map(({ name, version }) => [name, version].filter((part) => part !== '').join(' ')),
      );
      const happened = `${names} ${all.length > 1 ? 'were' : 'was'} ${condition.change} on ${device}`;
      return {
        title: happened,
        message: `${happened}, which the rule ${rule} watches for.`,
        details: { change: condition.change, software: all },
      };
    }
    case 'service':
      return serviceText(condition, { rule, device, found });
    default:
      return condition satisfies never;
  }
}

type ServiceCondition = Extract<RuleCondition, { kind: 'service' }>;

function serviceText(
  condition: ServiceCondition,
  { rule, device, found }: { rule: string; device: string; found: readonly Found[] },
) {
  const services = found.map(({ label, since, facts: { name = label, state = condition.state } }) => ({
    name,
    state,
    since: since.toISOString(),
  }));
  const names = listOf(services.map(({ name }) => name));
  const since = services.map((service) => service.since).sort()[0] ?? '';
  const isOne = services.length === 1;
  const hasFailed = services.every(({ state }) => state === 'failed');
  const has = isOne ? 'has' : 'have';
  return {
    title: hasFailed
      ? `${names} ${has} failed on ${device}`
      : `${names} ${isOne ? 'is' : 'are'} ${condition.state} on ${device}`,
    message: `${names} ${has} ${hasFailed ? 'failed' : `been ${condition.state}`} on ${device}, since ${inUtc(since)}. The rule ${rule} watches for it.`,
    details: { state: condition.state, services, since },
  };
}

/** Such as 2026-01-31 08:00 UTC. */
const inUtc = (iso: string) => `${iso.slice(0, 10)} ${iso.slice(11, 16)} UTC`;

/** Why an alert about a service was resolved. */
export function serviceClearedText(name: string, state: string): string {
  switch (state) {
    case 'running':
      return `${name} is running.`;
    case 'removed':
      return `The device does not have ${name} any more.`;
    case 'stopped':
      return `${name} is stopped.`;
    default:
      return `${name} is not in that state any more.`;
  }
}

type MetricCondition = Extract<RuleCondition, { kind: 'metric' }>;

function metricText(condition: MetricCondition, device: string, found: readonly Found[]) {
  const { metric, threshold, forMinutes } = condition;
  const kind = ruleMetric(metric);
  const figures = found.map(({ label, since, facts: { value = threshold } }) => ({ label, since, value }));
  const volumes = figures.filter(({ label }) => label !== '');
  const lasts = forMinutes === 0 ? '' : ` for ${inWords(forMinutes)}`;
  const said = figures.map(({ label, value }) =>
    label === '' ? inUnit(metric, value) : `${inUnit(metric, value)} on ${label}`,
  );
  const details = {
    metric,
    threshold,
    ...(volumes.length === 0
      ? { value: figures[0]?.value }
      : { volumes: volumes.map(({ label, value }) => ({ volume: label, value })) }),
    since: figures.map(({ since }) => since.toISOString()).sort()[0],
  };
  const limit = `the threshold is ${inUnit(metric, threshold)}`;
  if (metric === 'diskPercent' && isAbove(condition)) {
    const names = listOf(volumes.map(({ label }) => label));
    const which = volumes.length === 0 ? 'Disk' : `Disk${volumes.length === 1 ? '' : 's'} ${names}`;
    const parts = figures.map(({ label, value }) =>
      label === ''
        ? `The disk of ${device} is ${inUnit(metric, value)} full`
        : `The disk ${label} of ${device} is ${inUnit(metric, value)} full`,
    );
    return {
      title: `${which} of ${device} ${volumes.length > 1 ? 'are' : 'is'} almost full`,
      message: `${parts.join('. ')}${lasts}; ${limit}.`,
      details,
    };
  }
  return {
    title: `${sentence(kind.words)} of ${device} is ${isAbove(condition) ? 'high' : 'low'}`,
    message: `The ${kind.words} of ${device} has been at ${listOf(said)}${lasts}; ${limit}.`,
    details,
  };
}

/** Why an alert of a rule about a metric was resolved. */
export const clearedText = (condition: MetricCondition, label: string, value: number): string =>
  condition.metric === 'diskPercent'
    ? `The disk${label === '' ? '' : ` ${label}`} is ${inUnit('diskPercent', value)} full.`
    : `The ${ruleMetric(condition.metric).words} is at ${inUnit(condition.metric, value)}.`;

const sentence = (words: string) => `${words.slice(0, 1).toUpperCase()}${words.slice(1)}`;

const LISTED = 3;

/** "a, b and c", or "a, b, c and 4 more". */
function listOf(names: readonly string[]): string {
  const shown = names.slice(0, LISTED);
  const more = names.length - shown.length;
  if (more > 0) return `${shown.join(', ')} and ${more} more`;
  const last = shown.at(-1) ?? '';
  return shown.length < 2 ? last : `${shown.slice(0, -1).join(', ')} and ${last}`;
}

/** A number of minutes as a person would say it: 10080 are 7 days. */
export function inWords(minutes: number): string {
  const counted = (count: number, unit: string) => `${count} ${unit}${count === 1 ? '' : 's'}`;
  if (minutes % 1440 === 0) return counted(minutes / 1440, 'day');
  if (minutes % 60 === 0) return counted(minutes / 60, 'hour');
  return counted(minutes, 'minute');
}

const BINARY = ['B', 'KB', 'MB', 'GB', 'TB', 'PB'];

/** A figure as a person would say it. */
export function inUnit(metric: RuleMetricName, value: number): string {
  const { unit } = ruleMetric(metric);
  switch (unit) {
    case 'percent':
      return `${rounded(value)} %`;
    case 'number':
      return rounded(value);
    case 'seconds':
      return value < 7200 ? inWords(Math.round(value / 60)) : `${Math.round(value / 3600)} hours`;
    case 'bytes':
      return inBytes(value);
    case 'bytesPerSecond':
      return `${inBytes(value)}/s`;
    default:
      return unit satisfies never;
  }
}

function inBytes(value: number): string {
  const power = value < 1 ? 0 : Math.min(BINARY.length - 1, Math.floor(Math.log2(value) / 10));
  return `${rounded(value / 1024 ** power)} ${BINARY[power]}`;
}

const rounded = (value: number) => String(Math.round(value * 10) / 10);
