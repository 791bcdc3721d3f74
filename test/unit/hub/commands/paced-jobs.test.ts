import { expect } from 'chai';
import { EncodedJob } from '../../../../src/hub/commands/job-feed.ts';
import { PacedJobs } from '../../../../src/hub/commands/dashboard-jobs.ts';
import { newId } from '../../../../src/platform/ids.ts';
import type { JobUpdate } from '../../../../src/protocol/index.ts';

/** A connection that takes what it is sent when the test says so. */
class TestFlow {
  isReady = true;
  stalledMs = 0;
  cutOffs = 0;
  #waiting: (() => void)[] = [];

  whenReady(go: () => void): void {
    this.#waiting.push(go);
  }
  cutOff(): void {
    this.cutOffs += 1;
  }
  take(): void {
    this.isReady = true;
    for (const go of this.#waiting.splice(0)) go();
  }
}

describe('a dashboard that follows jobs and reads slowly', () => {
  let flow: TestFlow;
  let sent: [string, { id: string; percent?: number; seq?: number }][];
  let jobs: PacedJobs;

  beforeEach(() => {
    flow = new TestFlow();
    sent = [];
    jobs = new PacedJobs({
      flow,
      send: ({ start, end }) => sent.push(JSON.parse(`${start}${end.text}`)),
    });
  });

  const job = (id: string, percent: number) =>
    new EncodedJob({
      id,
      kind: 'backup',
      orgId: newId(),
      state: 'running',
      phase: 'running',
      percent,
      at: '2026-01-31T08:00:01.000Z',
    } satisfies JobUpdate);

  it('is sent nothing while it reads nothing, and then the latest state of each job', () => {
    const [one, other] = [newId(), newId()];
    flow.isReady = false;
    for (let percent = 0; percent < 1000; percent++) {
      jobs.updated(job(one, percent / 10));
      jobs.updated(job(other, percent / 20));
    }
    expect(sent).to.deep.equal([]);
    flow.take();
    expect(sent.map(([event, { id, percent }]) => [event, id, percent])).to.deep.equal([
      ['job:update', one, 99.9],
      ['job:update', other, 49.95],
    ]);
  });

  it('gets many jobs in parts, each after it has taken the one before', () => {
    for (let at = 0; at < 120; at++) {
      flow.isReady = at === 0;
      jobs.updated(job(newId(), 1));
    }
    expect(sent).to.have.length(1);
    flow.take();
    flow.isReady = false;
    expect(sent).to.have.length(51);
    flow.take();
    flow.take();
    expect(sent).to.have.length(120);
  });

  it('loses output, and sees that by its numbers, but never the end of a job', () => {
    const id = newId();
    flow.isReady = false;
    for (let seq = 0; seq < 500; seq++) jobs.output({ id, seq, rows: [] });
    jobs.updated(job(id, 100));
    flow.take();
    expect(sent).to.have.length(101);
    expect(sent.at(-2)?.[1].seq).to.equal(99);
    expect(sent.at(-1)?.[0]).to.equal('job:update');
  });

  it('is disconnected if the jobs of a whole fleet wait for it', () => {
    flow.isReady = false;
    for (let at = 0; at <= 10_000; at++) jobs.updated(job(newId(), 1));
    expect(flow.cutOffs).to.equal(1);
    jobs.updated(job(newId(), 1));
    flow.take();
    expect(sent).to.deep.equal([]);
  });
});
