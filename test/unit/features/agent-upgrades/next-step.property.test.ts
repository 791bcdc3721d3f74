import { expect } from 'chai';
import fc from 'fast-check';
import {
  type Evidence,
  nextStep,
  type RolloutPosition,
  soakedAt,
} from '../../../../src/features/agent-upgrades/next-step.ts';
import { RolloutState } from '../../../../src/features/agent-upgrades/rollout.schema.ts';

const OPENED = new Date('2026-11-22T12:00:00Z');
const after = (minutes: number) => new Date(OPENED.getTime() + minutes * 60_000);

const ROLLOUT: RolloutPosition = {
  state: 'running',
  waves: [{ soakMinutes: 60 }, { soakMinutes: 120 }],
  wave: 0,
  waveOpenedAt: OPENED,
  haltWhen: { failedPercent: 2, silentMinutes: 30, minDevices: 20 },
};
const HEALTHY: Evidence = {
  outcomes: { healthy: 90, failed: 0, failuresInARow: 0, underWay: 0 },
  silence: { upgraded: 90, upgradedSilent: 0, others: 900, othersSilent: 0 },
  wave: { members: 100, reachable: 90, finished: 90 },
  finishedInAll: 90,
};
const evidence = (wave: Partial<Evidence['wave']>, more: Partial<Evidence> = {}): Evidence => ({
  ...HEALTHY,
  wave: { ...HEALTHY.wave, ...wave },
  ...more,
});

const counts = fc.integer({ min: 0, max: 300 });
const positions: fc.Arbitrary<RolloutPosition> = fc
  .record({
    state: fc.oneof(
      { weight: 4, arbitrary: fc.constant('running' as const) },
      fc.constantFrom(...RolloutState.options),
    ),
    waves: fc.array(fc.record({ soakMinutes: fc.integer({ min: 0, max: 2000 }) }), {
      minLength: 1,
      maxLength: 6,
    }),
    at: fc.nat(),
    haltWhen: fc.record({
      failedPercent: fc.integer({ min: 1, max: 100 }),
      silentMinutes: fc.constant(30),
      minDevices: fc.integer({ min: 1, max: 50 }),
    }),
  })
  .map(({ at, ...rest }) => ({ ...rest, wave: at % rest.waves.length, waveOpenedAt: OPENED }));
const anyEvidence: fc.Arbitrary<Evidence> = fc.record({
  outcomes: fc.record({
    healthy: counts,
    failed: fc.integer({ min: 0, max: 4 }),
    failuresInARow: fc.integer({ min: 0, max: 3 }),
    underWay: counts,
  }),
  silence: fc.record({
    upgraded: counts,
    upgradedSilent: fc.integer({ min: 0, max: 10 }),
    others: counts,
    othersSilent: fc.integer({ min: 0, max: 10 }),
  }),
  wave: fc.record({ members: counts, reachable: counts, finished: counts }),
  finishedInAll: counts,
});
const times = fc.integer({ min: -10, max: 3000 }).map(after);

describe('the next step of a rollout', () => {
  const EXAMPLES: [title: string, RolloutPosition, Evidence, minutes: number, expected: object][] = [
    ['is none while the wave is observed', ROLLOUT, HEALTHY, 59, { do: 'hold', because: 'soaking' }],
    ['is the next wave when the time has passed', ROLLOUT, HEALTHY, 60, { do: 'open_next_wave' }],
    ['is the end after the last wave', { ...ROLLOUT, wave: 1 }, HEALTHY, 120, { do: 'complete' }],
    [
      'is none for one that is paused',
      { ...ROLLOUT, state: 'paused' },
      HEALTHY,
      60,
      { do: 'hold', because: 'not_running' },
    ],
    [
      'is none while fewer than half of the wave have finished',
      ROLLOUT,
      evidence({ reachable: 90, finished: 44 }),
      1000,
      { do: 'hold', because: 'too_few_finished' },
    ],
    [
      'does not wait for devices that are away',
      ROLLOUT,
      evidence({ members: 100, reachable: 40, finished: 20 }),
      60,
      { do: 'open_next_wave' },
    ],
    [
      'is none while the whole wave is away',
      ROLLOUT,
      evidence({ members: 100, reachable: 0, finished: 0 }),
      1000,
      { do: 'hold', because: 'nothing_finished' },
    ],
    [
      'is the next wave if the open one has no devices, and those before it have finished',
      { ...ROLLOUT, wave: 1, waves: [...ROLLOUT.waves, { soakMinutes: 1 }] },
      evidence({ members: 0, reachable: 0, finished: 0 }),
      120,
      { do: 'open_next_wave' },
    ],
    [
      'is none if no device has ever finished',
      ROLLOUT,
      evidence({ members: 0, reachable: 0, finished: 0 }, { finishedInAll: 0 }),
      1000,
      { do: 'hold', because: 'nothing_finished' },
    ],
    [
      'is the halt, at once',
      ROLLOUT,
      evidence({}, { outcomes: { healthy: 50, failed: 3, failuresInARow: 3, underWay: 40 } }),
      1,
      { do: 'halt', because: 'failed_in_a_row' },
    ],
    [
      'is the halt for silence',
      ROLLOUT,
      evidence({}, { silence: { upgraded: 90, upgradedSilent: 80, others: 900, othersSilent: 9 } }),
      31,
      { do: 'halt', because: 'silent' },
    ],
  ];
  for (const [title, rollout, given, minutes, expected] of EXAMPLES) {
    it(title, () => expect(nextStep(rollout, given, after(minutes))).to.deep.equal(expected));
  }

  it('changes nothing but a running rollout, and opens nothing before its time', () => {
    const seen = new Set<string>();
    fc.assert(
      fc.property(positions, anyEvidence, times, (rollout, found, now) => {
        const step = nextStep(rollout, found, now);
        seen.add(step.do);
        if (rollout.state !== 'running') expect(step).to.deep.equal({ do: 'hold', because: 'not_running' });
        if (step.do === 'open_next_wave' || step.do === 'complete') {
          expect(now.getTime()).to.be.at.least(soakedAt(rollout).getTime());
          expect(step.do === 'complete').to.equal(rollout.wave === rollout.waves.length - 1);
          const { members, reachable, finished } = found.wave;
          expect(members === 0 || (finished > 0 && finished * 2 >= reachable)).to.equal(true);
        }
      }),
      { numRuns: 5000 },
    );
    expect([...seen].sort()).to.deep.equal(['complete', 'halt', 'hold', 'open_next_wave']);
  });

  it('that goes on is still one that goes on later, and one that halts still halts', () => {
    fc.assert(
      fc.property(
        positions,
        anyEvidence,
        times,
        fc.integer({ min: 0, max: 5000 }),
        (rollout, found, now, later) => {
          const step = nextStep(rollout, found, now);
          if (step.do === 'hold') return;
          const then = nextStep(rollout, found, new Date(now.getTime() + later * 60_000));
          expect(then.do).to.equal(step.do);
        },
      ),
      { numRuns: 3000 },
    );
  });
});
