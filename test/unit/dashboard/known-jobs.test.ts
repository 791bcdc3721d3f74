import { expect } from 'chai';
import { withSnapshot, withUpdate } from '../../../src/dashboard/live/known-jobs.ts';
import type { JobUpdate } from '../../../src/protocol/index.ts';

const ID = '0197a000-0000-7000-8000-000000000001';
const OTHER = '0197a000-0000-7000-8000-000000000002';

const job = (state: JobUpdate['state'], second: number, id = ID): JobUpdate => ({
  id,
  kind: 'backup',
  orgId: '0197a000-0000-7000-8000-0000000000ff',
  state,
  phase: state,
  at: `2026-11-24T10:00:0${second}.000Z`,
});
const statesOf = (jobs: ReadonlyMap<string, JobUpdate>) => [...jobs.values()].map(({ state }) => state);

describe('the jobs that a page knows', () => {
  it('keeps a job ended when an older answer to the subscription still shows it as running', () => {
    const known = withUpdate(new Map(), job('completed', 5));
    expect(statesOf(withSnapshot(known, [job('running', 3)]))).to.deep.equal(['completed']);
    expect(statesOf(withSnapshot(known, [job('running', 9)])), 'whatever its clock says').to.deep.equal([
      'completed',
    ]);
  });

  it('keeps the newer of two states of an open job', () => {
    const known = withUpdate(new Map(), job('running', 5));
    expect(statesOf(withSnapshot(known, [job('pending', 3)]))).to.deep.equal(['running']);
    expect(statesOf(withSnapshot(known, [job('failed', 6)]))).to.deep.equal(['failed']);
  });

  it('forgets open jobs that the answer does not name, and keeps those that have ended', () => {
    const known = withUpdate(withUpdate(new Map(), job('running', 1)), job('completed', 2, OTHER));
    expect([...withSnapshot(known, []).keys()]).to.deep.equal([OTHER]);
  });

  it('keeps the two hundred that have ended last', () => {
    let known: ReadonlyMap<string, JobUpdate> = new Map();
    for (let n = 0; n < 250; n++) {
      const id = `0197a000-0000-7000-8000-${String(n).padStart(12, '0')}`;
      const at = new Date(Date.UTC(2026, 10, 24) + n * 1000).toISOString();
      known = withUpdate(known, { ...job('completed', 1, id), at });
    }
    expect(known.size).to.equal(200);
    expect([...known.keys()][0]).to.match(/0050$/);
  });
});
