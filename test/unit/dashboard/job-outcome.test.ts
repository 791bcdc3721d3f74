import { expect } from 'chai';
import { jobOutcome, tallyText } from '../../../src/dashboard/ui/format.ts';
import { exitCodeIn, type JobState } from '../../../src/protocol/index.ts';

const ofScript = (exitCode: number | null) =>
  jobOutcome({
    state: 'succeeded',
    exitCode: exitCodeIn({ exitCode, stdout: '', stderr: '', truncated: false }),
  });
const ofState = (state: JobState, output?: unknown) => jobOutcome({ state, exitCode: exitCodeIn(output) });

describe('the outcome of a job', () => {
  it('is the exit code of a script if that is not 0, and counts as bad', () => {
    const outcomes = [ofScript(0), ofScript(1), ofScript(-1073741510), ofScript(null)];
    expect(outcomes.map(({ text, group }) => `${text}: ${group}`)).to.deep.equal([
      'Succeeded: good',
      'Exit code 1: bad',
      'Exit code -1073741510: bad',
      'Ended by a signal: bad',
    ]);
  });

  it('is that of other work by its state alone', () => {
    const outcomes = [
      ofState('succeeded', {}),
      ofState('succeeded', { exitCode: '1' }),
      ofState('completed'),
      ofState('partial'),
      ofState('timed_out'),
      ofState('failed', { exitCode: 1 }),
      ofState('running'),
    ];
    expect(outcomes.map(({ text, group }) => `${text}: ${group}`)).to.deep.equal([
      'Succeeded: good',
      'Succeeded: good',
      'Completed: good',
      'Partial: bad',
      'Timed out: bad',
      'Failed: bad',
      'Running: open',
    ]);
  });

  it('is counted apart from those that have done their work', () => {
    const outcomes = [ofScript(0), ofScript(1), ofScript(2), ofScript(1), { text: 'Refused' }];
    expect(tallyText(outcomes)).to.equal('2 exit code 1, 1 succeeded, 1 exit code 2, 1 refused');
  });
});
