import { expect } from 'chai';
import fc from 'fast-check';
import { afterReport, type Attempt } from '../../../../src/features/agent-upgrades/attempts.ts';
import { newId } from '../../../../src/platform/ids.ts';
import { UpdatePhase } from '../../../../src/protocol/index.ts';

const ATTEMPTS = [newId(), newId(), newId()];
const VERSIONS = ['1.1.0', '1.2.0'];
const components = fc.constantFrom('agent' as const, 'watchdog' as const);

/** All phases of one attempt have its version and component. */
const attempts = fc.array(
  fc.record({
    component: components,
    targetVersion: fc.constantFrom(...VERSIONS),
    phases: fc.array(fc.constantFrom(...UpdatePhase.options), { minLength: 1, maxLength: 6 }),
  }),
  { minLength: 1, maxLength: ATTEMPTS.length },
);

const START = Date.parse('2026-11-22T12:00:00Z');

function told(reports: readonly Parameters<typeof afterReport>[1][]): readonly Attempt[] {
  return reports.reduce<readonly Attempt[]>(
    (known, report, index) =>
      afterReport(known, report, {
        now: new Date(START + index * 1000),
        newId,
        current: '1.0.0',
        rolloutId: null,
      }),
    [],
  );
}

/** The steps in their order, written down a second time. */
const STEPS = [
  'downloading',
  'verifying',
  'installing',
  'restarting',
  'trial',
  'failed',
  'completed',
  'rolled_back',
];

describe('the history of upgrades', () => {
  it('ends in the highest step of an attempt, in any order and however often a report comes', () => {
    fc.assert(
      fc.property(
        fc.array(fc.constantFrom(...UpdatePhase.options), { minLength: 1, maxLength: 20 }),
        (phases) => {
          const after = told(
            phases.map((phase) => ({
              component: 'agent',
              targetVersion: '1.1.0',
              phase,
              attemptId: ATTEMPTS[0],
            })),
          );
          expect(after).to.have.length(1);
          const highest = Math.max(...phases.map((phase) => STEPS.indexOf(phase)));
          expect(after[0]?.state).to.equal(STEPS[highest]);
          expect(after[0]?.finishedAt !== null).to.equal(highest >= STEPS.indexOf('failed'));
        },
      ),
      { numRuns: 1000 },
    );
  });

  it('has at most one open attempt of a component, and a wait after a rollback or three failures in a row only', () => {
    fc.assert(
      fc.property(attempts, fc.infiniteStream(fc.nat()), (made, picks) => {
        // Interleaved, each attempt in its own order.
        const waiting = made.map(({ phases, ...one }, index) =>
          phases.map((phase) => ({ ...one, phase, attemptId: ATTEMPTS[index] })),
        );
        const reports = [];
        for (const pick of picks) {
          const open = waiting.filter((one) => one.length > 0);
          if (open.length === 0) break;
          reports.push(open[pick % open.length]!.shift()!);
        }
        const after = told(reports);
        for (const component of ['agent', 'watchdog']) {
          const open = after.filter((one) => one.component === component && one.finishedAt === null);
          expect(open.length).to.be.at.most(1);
        }
        for (const { failures, retryAt, state } of after) {
          expect(failures > 0).to.equal(state === 'failed' || state === 'rolled_back');
          if (retryAt !== null && state !== 'rolled_back') expect(failures).to.be.at.least(3);
        }
        expect(new Set(after.map(({ attemptId }) => attemptId)).size).to.equal(after.length);
      }),
      { numRuns: 1000 },
    );
  });
});
