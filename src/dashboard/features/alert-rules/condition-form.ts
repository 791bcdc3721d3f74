import type { AlertCondition } from '../../api/routes.ts';
import { alertKindInSentence, minutesText } from '../alert-words/index.ts';
import {
  exactUnit,
  figureText,
  isAbove,
  METRICS,
  type MetricName,
  type Operator,
  OPERATORS,
  shownIn,
  stored,
  unitOf,
} from './rule-metrics.ts';

/**
 * The kinds of conditions that rules have: how each is filled in and said. Pure. A new kind has its fields in
 * `ConditionForms`, an entry in `CONDITIONS`, and one in `condition-fields.tsx`; without them, this does not compile.
 */

export type ConditionKind = AlertCondition['kind'];
type Conditions = { [K in ConditionKind]: Extract<AlertCondition, { kind: K }> };

export type EventLevel = NonNullable<Conditions['event']['level']>;
export type EventCategory = NonNullable<Conditions['event']['category']>;

/** An emptied number is `undefined`. The browser lets no form be sent in which one is that has to be filled in. */
export interface ConditionForms {
  offline: { forMinutes: number | undefined };
  metric: {
    metric: MetricName;
    operator: Operator;
    /** In the unit that is chosen. */
    threshold: number | undefined;
    clearThreshold: number | undefined;
    unit: string;
    forMinutes: number | undefined;
  };
  event: {
    log: string;
    category: EventCategory | undefined;
    level: EventLevel | undefined;
    source: string;
    eventId: number | undefined;
    text: string;
    count: number | undefined;
    withinMinutes: number | undefined;
  };
  software: { name: string; change: Conditions['software']['change'] };
  service: { name: string; state: Conditions['service']['state']; forMinutes: number | undefined };
  reported: { alertKind: string };
}

interface ConditionEntry<K extends ConditionKind> {
  label: string;
  help: string;
  /** What a new rule begins with. */
  first: ConditionForms[K];
  formOf: (condition: Conditions[K]) => ConditionForms[K];
  conditionOf: (form: ConditionForms[K]) => Conditions[K];
  text: (condition: Conditions[K]) => string;
}

export const CONDITIONS: { readonly [K in ConditionKind]: ConditionEntry<K> } = {
  metric: {
    label: 'A figure',
    help: 'A figure that devices report, such as how full a disk is. Figures of disks count for each disk.',
    first: firstOfMetric('diskPercent'),
    formOf: ({ metric, operator, threshold, clearThreshold, forMinutes }) => {
      const clear = clearThreshold ?? undefined;
      const unit = exactUnit(metric, threshold, clear === undefined ? [] : [clear]);
      return {
        metric,
        operator,
        threshold: shownIn(threshold, unit),
        clearThreshold: clear === undefined ? undefined : shownIn(clear, unit),
        unit: unit.name,
        forMinutes,
      };
    },
    conditionOf: ({ metric, operator, threshold = 0, clearThreshold, unit, forMinutes = 0 }) => {
      const { factor } = unitOf(metric, unit);
      return {
        kind: 'metric',
        metric,
        operator,
        threshold: stored(threshold, factor),
        ...(clearThreshold === undefined ? {} : { clearThreshold: stored(clearThreshold, factor) }),
        forMinutes,
      };
    },
    text: ({ metric, operator, threshold, clearThreshold, forMinutes }) => {
      const { label } = METRICS[metric];
      const is = OPERATORS.find(({ value }) => value === operator)?.label ?? operator;
      const lasts = forMinutes === 0 ? '' : ` for ${minutesText(forMinutes)}`;
      const until =
        clearThreshold == null
          ? ''
          : `, until it is ${isAbove(operator) ? 'below' : 'above'} ${figureText(metric, clearThreshold)}`;
      return `${label} ${is} ${figureText(metric, threshold)}${lasts}${until}`;
    },
  },
  offline: {
    label: 'Offline',
    help: 'The device has not been connected for some time.',
    first: { forMinutes: 30 },
    formOf: ({ forMinutes }) => ({ forMinutes }),
    conditionOf: ({ forMinutes = 0 }) => ({ kind: 'offline', forMinutes }),
    text: ({ forMinutes }) => `Offline for ${minutesText(forMinutes)}`,
  },
  event: {
    label: 'Events',
    help: 'Entries of the event logs that devices send. An entry has to fit all that is filled in.',
    first: {
      log: '',
      category: undefined,
      level: 'error',
      source: '',
      eventId: undefined,
      text: '',
      count: 1,
      withinMinutes: 60,
    },
    formOf: ({ log, category, level, source, eventId, text, count, withinMinutes }) => ({
      log: log ?? '',
      category: category ?? undefined,
      level: level ?? undefined,
      source: source ?? '',
      eventId: eventId ?? undefined,
      text: text ?? '',
      count,
      withinMinutes,
    }),
    conditionOf: ({ log, category, level, source, eventId, text, count = 0, withinMinutes = 0 }) => ({
      kind: 'event',
      ...(log === '' ? {} : { log }),
      ...(category === undefined ? {} : { category }),
      ...(level === undefined ? {} : { level }),
      ...(source === '' ? {} : { source }),
      ...(eventId === undefined ? {} : { eventId }),
      ...(text === '' ? {} : { text }),
      count,
      withinMinutes,
    }),
    text: ({ log, category, level, source, eventId, text, count, withinMinutes }) => {
      const times = count === 1 ? 'An event' : `${count} events within ${minutesText(withinMinutes)}`;
      const parts = [
        log == null ? [] : `log ${log}`,
        category == null ? [] : `category ${category}`,
        level == null ? [] : LEVEL_NAMES[level].toLowerCase(),
        source == null ? [] : `source ${source}`,
        eventId == null ? [] : `event ID ${eventId}`,
        text == null ? [] : `text “${text}”`,
      ].flat();
      return `${times}: ${parts.join(', ')}`;
    },
  },
  software: {
    label: 'Software',
    help: 'A program was installed on the device, or removed from it.',
    first: { name: '', change: 'installed' },
    formOf: ({ name, change }) => ({ name, change }),
    conditionOf: ({ name, change }) => ({ kind: 'software', name, change }),
    text: ({ name, change }) => `Software ${change}: ${name}`,
  },
  service: {
    label: 'A service',
    help: 'A service of the machine is stopped, or runs although it should not. Devices look once a minute.',
    first: { name: '', state: 'stopped', forMinutes: 2 },
    formOf: ({ name, state, forMinutes }) => ({ name, state, forMinutes: forMinutes ?? 0 }),
    conditionOf: ({ name, state, forMinutes = 0 }) => ({ kind: 'service', name, state, forMinutes }),
    text: ({ name, state, forMinutes }) => {
      const lasts = forMinutes == null || forMinutes === 0 ? '' : ` for ${minutesText(forMinutes)}`;
      return `Service ${state}${lasts}: ${name}`;
    },
  },
  reported: {
    label: 'Reported by Muster',
    help: 'What Muster notices by itself. Without a rule, it raises an alert about every device; once there is one, only about the devices of enabled rules.',
    first: { alertKind: 'backup_failed' },
    formOf: ({ alertKind }) => ({ alertKind }),
    conditionOf: ({ alertKind }) => ({ kind: 'reported', alertKind }),
    text: ({ alertKind }) => `Reported by Muster: ${alertKindInSentence(alertKind)}`,
  },
};

export const CONDITION_KINDS = Object.keys(CONDITIONS) as ConditionKind[];
export const CONDITION_CHOICES = CONDITION_KINDS.map((value) => ({ value, label: CONDITIONS[value].label }));

export const LEVEL_NAMES: Readonly<Record<EventLevel, string>> = {
  critical: 'Critical',
  error: 'Error or worse',
  warning: 'Warning or worse',
  info: 'Information or worse',
};
export const CATEGORIES: readonly EventCategory[] = ['security', 'system', 'application', 'hardware'];

/** What a rule about another metric begins with. */
export function firstOfMetric(metric: MetricName): ConditionForms['metric'] {
  const { unit, first } = METRICS[metric];
  return { metric, unit, clearThreshold: undefined, ...first };
}

/** The fields of every kind: those of the condition of the rule, and what rules of the other kinds begin with. */
export function conditionFormsOf(condition: AlertCondition | undefined): ConditionForms {
  const firsts: ConditionForms = {
    offline: CONDITIONS.offline.first,
    metric: CONDITIONS.metric.first,
    event: CONDITIONS.event.first,
    software: CONDITIONS.software.first,
    service: CONDITIONS.service.first,
    reported: CONDITIONS.reported.first,
  };
  return condition === undefined
    ? firsts
    : { ...firsts, [condition.kind]: formOf(condition.kind, condition) };
}

const formOf = <K extends ConditionKind>(kind: K, condition: Conditions[K]): ConditionForms[K] =>
  CONDITIONS[kind].formOf(condition);

/** The condition of a kind as the API takes it. */
export const conditionOf = <K extends ConditionKind>(kind: K, forms: ConditionForms): Conditions[K] =>
  CONDITIONS[kind].conditionOf(forms[kind]);

/** "Disk use at least 90 %", "Offline for 30 minutes", "3 events within 1 hour: source disk". */
export const conditionText = (condition: AlertCondition): string => textOf(condition.kind, condition);

const textOf = <K extends ConditionKind>(kind: K, condition: Conditions[K]): string =>
  CONDITIONS[kind].text(condition);
