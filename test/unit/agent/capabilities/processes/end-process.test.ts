import { expect } from 'chai';
import {
  endProcess,
  GRACE_SECONDS,
  type ProcessSignals,
} from '../../../../../src/agent/capabilities/processes/end-process.ts';
import type { IdentifiedProcess } from '../../../../../src/agent/os/processes/process-reader.ts';
import { AgentError } from '../../../../../src/agent/core/agent-error.ts';
import { clock } from '../../../../../src/clock.ts';
import { useTestClock } from '../../../../support/use-test-clock.ts';

const STARTED = Date.parse('2026-11-20T10:00:00.000Z');
const SEEN = new Date(STARTED).toISOString();

describe('ending a process', () => {
  const time = useTestClock({ isRunning: false });
  let table: IdentifiedProcess[];
  let acts: string[];
  /** What ends the process, and after how long. */
  let ends: { by: 'ask' | 'force' | 'nothing'; afterMs: number };
  let endsAt: number;
  let canAsk: boolean;
  let marks: string[];
  const process = (pid: number, more: Partial<IdentifiedProcess> = {}): IdentifiedProcess => ({
    pid,
    parentPid: 1,
    name: `program-${pid}`,
    cpuSeconds: 0,
    ramBytes: 0,
    startedAt: STARTED,
    ...more,
  });
  const signals: ProcessSignals = {
    ownPid: 30,
    mark: async () => marks[0] ?? '',
    isRunning: async ({ mark }) => mark === (marks[1] ?? marks[0]) && clock.monotonic() < endsAt,
    async ask(pid) {
      acts.push(`ask ${pid}`);
      if (canAsk && ends.by === 'ask') endsAt = clock.monotonic() + ends.afterMs;
      return canAsk;
    },
    async force(pid) {
      acts.push(`force ${pid}`);
      if (ends.by === 'force') endsAt = clock.monotonic() + ends.afterMs;
    },
  };
  const end = async (pid: number, startedAt = SEEN, isLate = false) => {
    const state = { isOver: false };
    const ending = endProcess({ pid, startedAt }, { read: async () => table, signals, isLate: () => isLate })
      .then(
        ({ outcome, graceSeconds }) => [outcome, graceSeconds],
        (error: unknown) => (error instanceof AgentError ? error.code : String(error)),
      )
      .finally(() => {
        state.isOver = true;
      });
    for (let step = 0; step < 1000 && !state.isOver; step += 1) await time.advance(50);
    return ending;
  };

  beforeEach(() => {
    table = [
      process(1, { parentPid: 0, isCritical: true }),
      process(20),
      process(30, { parentPid: 20 }),
      process(40),
      process(50, { state: 'zombie' }),
      process(60, { startedAt: undefined }),
      process(70, { isCritical: true }),
    ];
    acts = [];
    ends = { by: 'ask', afterMs: 200 };
    endsAt = Number.POSITIVE_INFINITY;
    canAsk = true;
    marks = ['a'];
  });

  it('asks it, and waits for its end', async () => {
    expect(await end(40)).to.deep.equal(['ended', GRACE_SECONDS]);
    expect(acts).to.deep.equal(['ask 40']);
  });

  it('forces it after the grace period, and says if even that was in vain', async () => {
    ends = { by: 'force', afterMs: 100 };
    expect(await end(40)).to.deep.equal(['killed', GRACE_SECONDS]);
    ends = { by: 'nothing', afterMs: 0 };
    endsAt = Number.POSITIVE_INFINITY;
    expect(await end(40)).to.deep.equal(['still_running', GRACE_SECONDS]);
    expect(acts).to.deep.equal(['ask 40', 'force 40', 'ask 40', 'force 40']);
  });

  it('forces at once what the system cannot ask', async () => {
    canAsk = false;
    ends = { by: 'force', afterMs: 0 };
    const startedAt = clock.monotonic();
    expect(await end(40)).to.deep.equal(['killed', 0]);
    expect(clock.monotonic() - startedAt).to.be.below(1000);
  });

  it('never ends the first process, the agent, its watchdog, or what the system needs', async () => {
    for (const pid of [1, 20, 30, 70]) expect(await end(pid), String(pid)).to.equal('PROCESS_PROTECTED');
    expect(acts).to.deep.equal([]);
  });

  it('never ends another process that has got the number', async () => {
    for (const seen of ['2026-11-20T09:00:00.000Z', '2026-11-20T10:00:02.001Z', '2026-11-20T09:59:57.000Z']) {
      expect(await end(40, seen), seen).to.equal('PROCESS_REPLACED');
    }
    // One whose start is not known cannot be told from another.
    expect(await end(60)).to.equal('PROCESS_REPLACED');
    expect(acts).to.deep.equal([]);
    // The clock of the machine was set in between.
    expect((await end(40, '2026-11-20T10:00:01.000Z'))[0]).to.equal('ended');
  });

  it('does not take another process that got the number meanwhile for it', async () => {
    // Between the look and the signal.
    marks = ['a', 'b'];
    expect(await end(40)).to.equal('PROCESS_NOT_FOUND');
    expect(acts).to.deep.equal([]);
  });

  it('says that there is none, or that it has ended', async () => {
    expect(await end(4711)).to.equal('PROCESS_NOT_FOUND');
    expect(await end(50)).to.equal('PROCESS_NOT_FOUND');
    marks = [''];
    expect(await end(40)).to.equal('PROCESS_NOT_FOUND');
    expect(acts).to.deep.equal([]);
  });

  it('does nothing after the time in which the answer is waited for', async () => {
    expect(await end(40, SEEN, true)).to.equal('TIMED_OUT');
    expect(acts).to.deep.equal([]);
  });
});
