import { expect } from 'chai';
import fc from 'fast-check';
import { MINUTE_MS } from '../../../../src/clock.ts';
import {
  dueSteps,
  type Escalation,
  joinedTellingAt,
  nextLookAt,
  nextTellingAt,
  type Progress,
  REPEATS_MAX,
  repeatsBy,
  stateOf,
  suppression,
  timeline,
} from '../../../../src/features/notifications/escalation.ts';

const BEGAN = new Date('2026-06-05T12:00:00Z');
const after = (minutes: number) => new Date(BEGAN.getTime() + minutes * MINUTE_MS);

const policy: fc.Arbitrary<Escalation> = fc.record({
  steps: fc
    .uniqueArray(fc.integer({ min: 0, max: 500 }), { minLength: 1, maxLength: 10 })
    .map((minutes) => minutes.toSorted((a, b) => a - b).map((afterMinutes) => ({ afterMinutes }))),
  repeatEveryMinutes: fc.option(fc.integer({ min: 5, max: 200 }), { nil: null }),
  groupBy: fc.constantFrom('none', 'device', 'site', 'rule'),
  groupSeconds: fc.integer({ min: 0, max: 3600 }),
  until: fc.constantFrom('acknowledged', 'resolved'),
});

/** What rounds do that come at some times: the numbers of steps and repetitions that each tells. */
function rounds(one: Escalation, minutes: readonly number[]) {
  let progress: Progress = { beganAt: BEGAN, stepsTaken: 0, repeats: 0, lastToldAt: null };
  const told: { minute: number; steps: number; isRepeated: boolean }[] = [];
  for (const minute of minutes) {
    const now = after(minute);
    const { from, to } = dueSteps(one, progress, now);
    progress = { ...progress, stepsTaken: to };
    const repeats = repeatsBy(one, progress, now);
    told.push({ minute, steps: to - from, isRepeated: repeats > progress.repeats });
    progress = { ...progress, repeats };
  }
  return { told, progress };
}

describe('an escalation', () => {
  const times = fc.array(fc.integer({ min: 0, max: 2000 }), { maxLength: 40 });

  it('takes each step once, in order and never early, whenever rounds come', () => {
    fc.assert(
      fc.property(policy, times, (one, minutes) => {
        const sorted = minutes.toSorted((a, b) => a - b);
        const { told, progress } = rounds(one, sorted);
        const last = sorted.at(-1) ?? -1;
        const reached = one.steps.filter(({ afterMinutes }) => afterMinutes <= last).length;
        expect(told.reduce((sum, { steps }) => sum + steps, 0)).to.equal(reached);
        expect(progress.stepsTaken).to.equal(reached);
        const next = nextTellingAt(one, progress);
        if (next !== undefined) expect(next.getTime()).to.be.above(after(last).getTime());
      }),
    );
  });

  it('that is looked at when it says so tells what the simulation shows', () => {
    fc.assert(
      fc.property(policy, (one) => {
        const ungrouped = { ...one, groupBy: 'none' as const };
        const shown = [...timeline(ungrouped, BEGAN, after(1000))];
        let progress: Progress = { beganAt: BEGAN, stepsTaken: 0, repeats: 0, lastToldAt: null };
        const seen: number[] = [];
        for (;;) {
          const at = nextTellingAt(ungrouped, progress);
          if (at === undefined || at > after(1000)) break;
          seen.push(at.getTime());
          const { to } = dueSteps(ungrouped, progress, at);
          const isStep = to > progress.stepsTaken;
          progress = { ...progress, stepsTaken: to };
          progress = { ...progress, repeats: repeatsBy(ungrouped, progress, at) };
          expect(isStep ? 'step' : 'repeat').to.equal(
            shown[seen.length - 1]?.reason === 'repeated' ? 'repeat' : 'step',
          );
        }
        expect(seen).to.deep.equal(shown.map(({ at }) => at.getTime()));
      }),
    );
  });

  it('repeats at most so often, and ends', () => {
    const one: Escalation = {
      steps: [{ afterMinutes: 0 }],
      repeatEveryMinutes: 5,
      groupBy: 'none',
      groupSeconds: 0,
      until: 'acknowledged',
    };
    const all = [...timeline(one, BEGAN, new Date('2100-01-01'))];
    expect(all).to.have.length(1 + REPEATS_MAX);
    expect(
      repeatsBy(one, { beganAt: BEGAN, stepsTaken: 1, repeats: 0, lastToldAt: null }, after(1e6)),
    ).to.equal(REPEATS_MAX);
  });

  it('tells of what joins at most once a minute, and never in the past', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 0, max: 3600 }),
        fc.nat(10_000),
        fc.nat(10_000),
        (groupSeconds, told, now) => {
          const lastToldAt = new Date(BEGAN.getTime() + told * 1000);
          const at = joinedTellingAt(
            { groupSeconds },
            { lastToldAt },
            new Date(BEGAN.getTime() + now * 1000),
          );
          expect(at.getTime() - lastToldAt.getTime()).to.be.at.least(Math.max(60, groupSeconds) * 1000);
          expect(at.getTime()).to.be.at.least(BEGAN.getTime() + now * 1000);
        },
      ),
    );
  });

  it('is looked at again as long as it is open, and never after', () => {
    fc.assert(
      fc.property(policy, fc.nat(5), fc.nat(5), fc.nat(5), (one, active, acknowledged, untold) => {
        const standing = { active, acknowledged, untold: Math.min(active, untold) };
        const progress = { beganAt: BEGAN, stepsTaken: 1, repeats: 0, lastToldAt: BEGAN };
        const at = nextLookAt(one, standing, progress, BEGAN);
        expect(at === null).to.equal(stateOf(standing) === 'closed');
        expect(nextLookAt(undefined, standing, progress, BEGAN) === null).to.equal(
          active + acknowledged === 0,
        );
      }),
    );
  });
});

describe('what a person wants', () => {
  const always = { from: '00:00', to: '00:00', timezone: 'UTC' };
  const rules = { quietHours: always, criticalBreaksQuietHours: true, severities: null };

  it('keeps quiet hours, which only critical alerts break, if the person lets them', () => {
    expect(suppression(rules, 'high', BEGAN)).to.equal('The person has quiet hours.');
    expect(suppression(rules, 'critical', BEGAN)).to.equal(undefined);
    expect(suppression({ ...rules, criticalBreaksQuietHours: false }, 'critical', BEGAN)).not.to.equal(
      undefined,
    );
    expect(suppression({ ...rules, quietHours: null }, 'low', BEGAN)).to.equal(undefined);
  });

  it('is some severities, also of those that break quiet hours', () => {
    expect(suppression({ ...rules, severities: ['low'] }, 'critical', BEGAN)).not.to.equal(undefined);
    expect(suppression({ ...rules, quietHours: null, severities: ['low'] }, 'low', BEGAN)).to.equal(
      undefined,
    );
  });
});
