import { expect } from 'chai';
import fc from 'fast-check';
import type { AlertCondition, AlertRule, AlertRulePreview } from '../../../src/dashboard/api/routes.ts';
import {
  CATEGORIES,
  CONDITION_KINDS,
  conditionFormsOf,
  conditionOf,
  conditionText,
  firstOfMetric,
  LEVEL_NAMES,
} from '../../../src/dashboard/features/alert-rules/condition-form.ts';
import { copyName, ruleBody, ruleFormOf } from '../../../src/dashboard/features/alert-rules/rule-form.ts';
import {
  figureText,
  METRIC_CHOICES,
  METRICS,
  OPERATORS,
} from '../../../src/dashboard/features/alert-rules/rule-metrics.ts';
import {
  dayBars,
  beforeText,
  incompleteText,
  previewText,
} from '../../../src/dashboard/features/alert-rules/rule-preview.ts';
import { RuleCondition, MetricOperator } from '../../../src/features/alert-rules/alert-rule.schema.ts';
import { RULE_METRIC_NAMES, RULE_METRICS } from '../../../src/features/alert-rules/rule-metrics.ts';
import { EventCategory, EventLevel } from '../../../src/protocol/index.ts';

const GB = 1024 ** 3;
const DAY = 86_400;

const again = (condition: AlertCondition): AlertCondition =>
  conditionOf(condition.kind, conditionFormsOf(condition));

describe('the condition of a rule in its form', () => {
  const text = fc.string({ minLength: 1, maxLength: 40 });
  const figure = fc.oneof(
    fc.integer({ min: 0, max: Number.MAX_SAFE_INTEGER }),
    fc.integer({ min: 0, max: 4000 }).map((count) => count * GB),
    fc.integer({ min: 0, max: 4000 }).map((count) => count * DAY),
    fc.double({ min: 0, max: 1e9, noNaN: true }).map(Math.abs),
  );
  const condition: fc.Arbitrary<AlertCondition> = fc.oneof(
    fc.record({ kind: fc.constant('offline' as const), forMinutes: fc.integer({ min: 1, max: 43_200 }) }),
    fc.record(
      {
        kind: fc.constant('metric' as const),
        metric: fc.constantFrom(...RULE_METRIC_NAMES),
        operator: fc.constantFrom(...MetricOperator.options),
        threshold: figure,
        clearThreshold: figure,
        forMinutes: fc.integer({ min: 0, max: 1440 }),
      },
      { requiredKeys: ['kind', 'metric', 'operator', 'threshold', 'forMinutes'] },
    ),
    fc.record(
      {
        kind: fc.constant('event' as const),
        log: text,
        category: fc.constantFrom(...EventCategory.options),
        level: fc.constantFrom(...EventLevel.options),
        source: text,
        eventId: fc.integer({ min: 0, max: 4_294_967_295 }),
        text,
        count: fc.integer({ min: 1, max: 1000 }),
        withinMinutes: fc.integer({ min: 1, max: 1440 }),
      },
      { requiredKeys: ['kind', 'count', 'withinMinutes'] },
    ),
    fc.record({
      kind: fc.constant('software' as const),
      name: text,
      change: fc.constantFrom('installed' as const, 'removed' as const),
    }),
    fc.record({
      kind: fc.constant('service' as const),
      name: text,
      state: fc.constantFrom('stopped' as const, 'running' as const, 'failed' as const),
      forMinutes: fc.integer({ min: 0, max: 1440 }),
    }),
    fc.record({ kind: fc.constant('reported' as const), alertKind: text }),
  );

  it('is sent as it was opened', () => {
    fc.assert(
      fc.property(condition, (given) => {
        expect(again(given)).to.deep.equal(given);
      }),
    );
  });

  it('is always said in words', () => {
    fc.assert(
      fc.property(condition, (given) => {
        expect(conditionText(given)).to.match(/^\S.+/s);
      }),
    );
  });

  it('is shown in the largest unit that has the threshold exactly', () => {
    const formOf = (threshold: number, clearThreshold?: number) =>
      conditionFormsOf({
        kind: 'metric',
        metric: 'diskFreeBytes',
        operator: 'lessThan',
        threshold,
        forMinutes: 0,
        ...(clearThreshold === undefined ? {} : { clearThreshold }),
      }).metric;
    expect(formOf(10 * GB)).to.include({ threshold: 10, unit: 'GB' });
    expect(formOf(1.5 * GB)).to.include({ threshold: 1.5, unit: 'GB' });
    expect(formOf(500 * 1024 ** 2)).to.include({ threshold: 500, unit: 'MB' });
    expect(formOf(GB, GB + 1024 ** 2)).to.include({ threshold: 1024, clearThreshold: 1025, unit: 'MB' });
    expect(formOf(1_234_567_891)).to.include({ threshold: 1_234_567_891, unit: 'B' });
    expect(formOf(0)).to.include({ threshold: 0, unit: 'GB' });
  });

  it('begins with what the API takes, for every kind and every metric', () => {
    const first = conditionFormsOf(undefined);
    for (const kind of CONDITION_KINDS) {
      // A program has no name that makes sense for everybody.
      const forms = {
        ...first,
        software: { ...first.software, name: 'TeamViewer' },
        service: { ...first.service, name: 'Spooler' },
      };
      expect(RuleCondition.safeParse(conditionOf(kind, forms)).error, kind).to.equal(undefined);
    }
    for (const { value } of METRIC_CHOICES) {
      const given = conditionOf('metric', { ...first, metric: firstOfMetric(value) });
      expect(RuleCondition.safeParse(given).error, value).to.equal(undefined);
    }
  });

  it('offers all that the API takes', () => {
    expect(CONDITION_KINDS).to.have.members(RuleCondition.options.map((one) => one.shape.kind.value));
    expect(Object.keys(METRICS)).to.have.members([...RULE_METRIC_NAMES]);
    expect(OPERATORS.map(({ value }) => value)).to.have.members([...MetricOperator.options]);
    expect(Object.keys(LEVEL_NAMES)).to.have.members([...EventLevel.options]);
    expect(CATEGORIES).to.have.members([...EventCategory.options]);
  });

  it('calls metrics as the alerts do', () => {
    for (const name of RULE_METRIC_NAMES) {
      expect(METRICS[name].label.toLowerCase()).to.equal(RULE_METRICS[name].words);
    }
  });

  it('keeps what was put in for another kind', () => {
    const forms = conditionFormsOf({ kind: 'offline', forMinutes: 7 });
    expect(conditionOf('metric', forms)).to.include({ metric: 'diskPercent', threshold: 90 });
    expect(conditionOf('offline', forms)).to.deep.equal({ kind: 'offline', forMinutes: 7 });
  });

  it('leaves out what is not filled in', () => {
    const forms = conditionFormsOf({ kind: 'event', source: 'disk', count: 3, withinMinutes: 60 });
    expect(
      conditionOf('event', { ...forms, event: { ...forms.event, source: '', text: 'bad' } }),
    ).to.deep.equal({ kind: 'event', text: 'bad', count: 3, withinMinutes: 60 });
  });
});

describe('the words of a rule', () => {
  const cases: [AlertCondition, string][] = [
    [{ kind: 'offline', forMinutes: 30 }, 'Offline for 30 minutes'],
    [
      {
        kind: 'metric',
        metric: 'diskPercent',
        operator: 'greaterThanOrEquals',
        threshold: 90,
        forMinutes: 0,
      },
      'Disk use at least 90 %',
    ],
    [
      {
        kind: 'metric',
        metric: 'diskFreeBytes',
        operator: 'lessThan',
        threshold: 10 * GB,
        clearThreshold: 12 * GB,
        forMinutes: 15,
      },
      'Free disk space below 10 GB for 15 minutes, until it is above 12 GB',
    ],
    [
      { kind: 'metric', metric: 'uptimeSeconds', operator: 'greaterThan', threshold: DAY, forMinutes: 0 },
      'Uptime above 1 day',
    ],
    [
      {
        kind: 'event',
        log: 'System',
        level: 'error',
        source: 'disk',
        eventId: 7,
        text: 'bad block',
        count: 3,
        withinMinutes: 60,
      },
      '3 events within 1 hour: log System, error or worse, source disk, event ID 7, text “bad block”',
    ],
    [
      { kind: 'event', category: 'security', level: 'critical', count: 1, withinMinutes: 60 },
      'An event: category security, critical',
    ],
    [{ kind: 'software', name: 'TeamViewer', change: 'installed' }, 'Software installed: TeamViewer'],
    [{ kind: 'reported', alertKind: 'backup_failed' }, 'Reported by Muster: backup failed'],
    [{ kind: 'reported', alertKind: 'sso_provider_failing' }, 'Reported by Muster: SSO provider failing'],
  ];
  for (const [condition, words] of cases) {
    it(`are “${words}”`, () => expect(conditionText(condition)).to.equal(words));
  }

  it('have figures in the units in which people think of them', () => {
    expect(figureText('networkSentPerSecond', 50 * 1024 ** 2)).to.equal('50 MB/s');
    expect(figureText('networkSentPerSecond', 1)).to.equal('1 B/s');
    expect(figureText('uptimeSeconds', 1.5 * DAY)).to.equal('1.5 days');
    expect(figureText('diskFreeBytes', 1_234_567_891)).to.equal('1.15 GB');
    expect(figureText('load', 8)).to.equal('8');
    expect(figureText('diskFreeBytes', 0)).to.equal('0 GB');
  });
});

describe('the form of a rule', () => {
  const rule: AlertRule = {
    id: '00000000-0000-4000-8000-000000000009',
    orgId: '00000000-0000-4000-8000-000000000008',
    partnerId: '00000000-0000-4000-8000-000000000007',
    name: 'Disk almost full',
    enabled: false,
    severity: 'medium',
    target: { all: true },
    condition: {
      kind: 'metric',
      metric: 'diskPercent',
      operator: 'greaterThanOrEquals',
      threshold: 90,
      clearThreshold: 85,
      forMinutes: 0,
    },
    autoResolve: false,
    cooldownMinutes: 60,
    alertKind: 'disk_full',
    openAlerts: 0,
    createdBy: null,
    createdAt: '2026-01-01T00:00:00.000Z',
    updatedAt: '2026-01-01T00:00:00.000Z',
  };

  it('sends what it was opened with, and does not enable the rule', () => {
    const { name, severity, target, condition, autoResolve, cooldownMinutes } = rule;
    expect(ruleBody(ruleFormOf(rule), conditionFormsOf(condition), target)).to.deep.equal({
      name,
      severity,
      target,
      condition,
      autoResolve,
      cooldownMinutes,
    });
  });

  it('gives a copy another name, which is not too long', () => {
    expect(copyName('Disks')).to.equal('Disks (copy)');
    expect(copyName('x'.repeat(100)))
      .to.have.length(100)
      .and.match(/x \(copy\)$/);
  });
});

describe('the preview of a rule', () => {
  const preview: AlertRulePreview = {
    from: '2026-11-22T10:00:00.000Z',
    to: '2026-11-29T10:00:00.000Z',
    devices: 1200,
    examined: 1200,
    complete: true,
    count: 12,
    affected: 4,
    before: 0,
    byDay: [
      { day: '2026-11-23', count: 8 },
      { day: '2026-11-29', count: 4 },
    ],
    alerts: [],
  };

  it('says how many alerts about how many devices', () => {
    expect(previewText(preview)).to.equal('Would have raised 12 alerts about 4 devices.');
    expect(previewText({ ...preview, count: 1, affected: 1 })).to.equal(
      'Would have raised 1 alert about 1 device.',
    );
    expect(previewText({ ...preview, count: 0, affected: 0 })).to.equal('Would have raised no alerts.');
    expect(previewText({ ...preview, devices: 0, count: 0 })).to.equal('The rule covers no devices.');
  });

  it('says when it is incomplete, and why', () => {
    expect(incompleteText(preview, 'metric')).to.equal(undefined);
    expect(incompleteText({ ...preview, complete: false, examined: 500 }, 'service')).to.equal(
      'The preview is incomplete: it examined 500 of 1,200 devices. The rule may raise more alerts.',
    );
    expect(incompleteText({ ...preview, complete: false }, 'metric')).to.include(
      'more happened than it examines',
    );
    expect(incompleteText({ ...preview, complete: false }, 'service')).to.include(
      'only their present states',
    );
  });

  it('says on how many devices the condition was met before', () => {
    expect(beforeText(preview)).to.equal(undefined);
    expect(beforeText({ before: 1 })).to.equal(
      '1 device met the condition already when the 7 days began, and is not counted for that.',
    );
    expect(beforeText({ before: 3 }))
      .to.include('3 devices met')
      .and.include('are not counted');
  });

  it('has a bar for each day, also for those without alerts', () => {
    const bars = dayBars(preview);
    expect(bars.map(({ count }) => count)).to.deep.equal([0, 8, 0, 0, 0, 0, 0, 4]);
    expect(bars.map(({ share }) => share)).to.deep.equal([0, 1, 0, 0, 0, 0, 0, 0.5]);
    expect(bars[1]).to.include({ day: '2026-11-23', label: 'Mon 23' });
    expect(dayBars({ ...preview, byDay: [] }).every(({ share }) => share === 0)).to.equal(true);
  });
});
