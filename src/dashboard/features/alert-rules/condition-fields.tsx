import { Select, Stack, Text } from '@mantine/core';
import { FormFields, formatWord, type Fields, type Form } from '../../ui/index.ts';
import { minutesText, REPORTED_KINDS, wordsOfKind } from '../alert-words/index.ts';
import {
  CATEGORIES,
  CONDITION_CHOICES,
  CONDITION_KINDS,
  CONDITIONS,
  type ConditionForms,
  type ConditionKind,
  firstOfMetric,
  LEVEL_NAMES,
  type EventLevel,
} from './condition-form.ts';
import { isAbove, METRIC_CHOICES, METRICS, OPERATORS } from './rule-metrics.ts';

/** The kind of a condition, and the fields of that kind. `faults` are those of the condition alone. */
export function ConditionPart({
  kind,
  onKind,
  form,
  faults,
}: {
  kind: ConditionKind;
  onKind: (kind: ConditionKind) => void;
  form: Form<ConditionForms[ConditionKind]>;
  /** What is wrong with the condition as a whole is at the empty path. */
  faults: Readonly<Record<string, string>>;
}) {
  return (
    <Stack gap="sm" data-condition>
      <Select
        label="Raises an alert because of"
        description={CONDITIONS[kind].help}
        allowDeselect={false}
        data={CONDITION_CHOICES}
        value={kind}
        onChange={(chosen) => {
          const next = CONDITION_KINDS.find((one) => one === chosen);
          if (next !== undefined) onKind(next);
        }}
        error={faults['']}
      />
      <KindFields kind={kind} form={form} faults={faults} />
    </Stack>
  );
}

function KindFields<K extends ConditionKind>({
  kind,
  form,
  faults,
}: {
  kind: K;
  form: Form<ConditionForms[K]>;
  faults: Readonly<Record<string, string>>;
}) {
  return <FormFields form={form} fields={FIELDS[kind](form)} faults={faults} />;
}

const HOURS = 60;
/** Minutes that are hours or days, as those. */
const inWords = (minutes: number | undefined): string | undefined =>
  minutes === undefined || minutes < HOURS ? undefined : minutesText(minutes);

const FIELDS: {
  readonly [K in ConditionKind]: (form: Form<ConditionForms[K]>) => Fields<ConditionForms[K]>;
} = {
  offline: ({ values }) => [
    {
      name: 'forMinutes',
      kind: 'number',
      label: 'Offline for',
      description: inWords(values.forMinutes) ?? 'At most 30 days.',
      suffix: ' min',
      min: 1,
      max: 43_200,
      required: true,
      empty: undefined,
    },
  ],

  metric: ({ values, set }) => {
    const { units } = METRICS[values.metric];
    const isPercent = units[0].name === '%';
    const suffix = isPercent ? ' %' : '';
    return [
      {
        name: 'metric',
        control: ({ value, error }) => (
          <Select
            label="Figure"
            searchable
            allowDeselect={false}
            data={METRIC_CHOICES}
            value={value}
            error={error}
            onChange={(chosen) => {
              const next = METRIC_CHOICES.find((one) => one.value === chosen);
              // Another figure has another unit, and other thresholds make sense.
              if (next !== undefined) set(firstOfMetric(next.value));
            }}
          />
        ),
      },
      [
        { name: 'operator', kind: 'choice', label: 'Is', options: OPERATORS },
        {
          name: 'threshold',
          kind: 'number',
          label: 'Threshold',
          suffix,
          min: 0,
          ...(isPercent ? { max: 100 } : {}),
          decimals: 2,
          required: true,
          empty: undefined,
        },
        units.length > 1 && {
          name: 'unit',
          kind: 'choice',
          label: 'Unit',
          options: units.map(({ name }) => ({ value: name, label: name })),
        },
      ],
      [
        {
          name: 'forMinutes',
          kind: 'number',
          label: 'Lasts for',
          description: `${inWords(values.forMinutes) ?? 'Without a break'}. With 0, a single figure is enough.`,
          suffix: ' min',
          min: 0,
          max: 1440,
          required: true,
          empty: undefined,
        },
        {
          name: 'clearThreshold',
          kind: 'number',
          label: isAbove(values.operator) ? 'Over when below' : 'Over when above',
          description: 'In the same unit. Empty: the threshold.',
          suffix,
          min: 0,
          decimals: 2,
          empty: undefined,
        },
      ],
      {
        note: 'over',
        text: (
          <Text size="xs" c="dimmed">
            A figure that goes up and down near the threshold raises one alert, not one after the other, if
            the alert is over only some way from it.
          </Text>
        ),
      },
    ];
  },

  event: ({ values }) => [
    [
      { name: 'log', label: 'Log', description: 'Exact.', placeholder: 'System', maxLength: 255 },
      {
        name: 'source',
        label: 'Source',
        description: 'Exact.',
        placeholder: 'Microsoft-Windows-Kernel-Power',
        maxLength: 255,
      },
    ],
    [
      {
        name: 'level',
        kind: 'choice',
        label: 'Level',
        placeholder: 'Any level',
        options: LEVEL_CHOICES,
        empty: undefined,
      },
      {
        name: 'category',
        kind: 'choice',
        label: 'Category',
        placeholder: 'Any category',
        options: CATEGORIES.map((value) => ({ value, label: formatWord(value) })),
        empty: undefined,
      },
    ],
    [
      {
        name: 'eventId',
        kind: 'number',
        label: 'Event ID',
        description: 'As the source numbers its events.',
        min: 0,
        max: 4_294_967_295,
        empty: undefined,
      },
      {
        name: 'text',
        label: 'Text',
        description: 'Part of the message; upper and lower case are the same.',
        maxLength: 200,
      },
    ],
    [
      {
        name: 'count',
        kind: 'number',
        label: 'Number of events',
        description: 'So many or more.',
        min: 1,
        max: 1000,
        required: true,
        empty: undefined,
      },
      {
        name: 'withinMinutes',
        kind: 'number',
        label: 'Within',
        description: inWords(values.withinMinutes) ?? 'At most one day.',
        suffix: ' min',
        min: 1,
        max: 1440,
        required: true,
        empty: undefined,
      },
    ],
  ],

  software: () => [
    [
      {
        name: 'name',
        label: 'Program',
        description: 'Part of its name; upper and lower case are the same.',
        placeholder: 'TeamViewer',
        required: true,
        maxLength: 200,
      },
      {
        name: 'change',
        kind: 'choice',
        label: 'Was',
        description: 'Since the inventory before.',
        options: [
          { value: 'installed', label: 'Installed' },
          { value: 'removed', label: 'Removed' },
        ],
      },
    ],
  ],

  service: ({ values }) => [
    {
      name: 'name',
      label: 'Service',
      description: 'Its name or display name, whole; upper and lower case are the same.',
      placeholder: 'Spooler',
      required: true,
      maxLength: 200,
    },
    [
      {
        name: 'state',
        kind: 'choice',
        label: 'Is',
        description: 'One that has failed is stopped as well.',
        options: [
          { value: 'stopped', label: 'Stopped' },
          { value: 'failed', label: 'Failed' },
          { value: 'running', label: 'Running' },
        ],
      },
      {
        name: 'forMinutes',
        kind: 'number',
        label: 'Lasts for',
        description: inWords(values.forMinutes) ?? 'One that is restarted meanwhile raises no alert.',
        suffix: ' min',
        min: 0,
        max: 1440,
        required: true,
        empty: undefined,
      },
    ],
  ],

  reported: ({ values }) => [
    {
      name: 'alertKind',
      kind: 'choice',
      label: 'Report',
      isSearchable: true,
      options: [...new Set([...REPORTED_KINDS, values.alertKind])].map((value) => ({
        value,
        label: wordsOfKind(value),
      })),
    },
  ],
};

const LEVELS: readonly EventLevel[] = ['critical', 'error', 'warning', 'info'];
const LEVEL_CHOICES = LEVELS.map((value) => ({ value, label: LEVEL_NAMES[value] }));

/** A heading of a part of the dialog. */
export function PartTitle({ children }: { children: string }) {
  return (
    <Text fw={600} mt="xs" component="h3" size="sm">
      {children}
    </Text>
  );
}
