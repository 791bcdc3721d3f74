import { expect } from 'chai';
import { ServerClock } from '../../../src/agent/core/server-clock.ts';
import { selfCheck } from '../../../src/agent/device-session.ts';
import { memoryJournal } from '../../../src/agent/simulator/simulated-machine.ts';
import { CommandStore } from '../../../src/agent/work/command-store.ts';
import { DurableRunner } from '../../../src/agent/work/durable-runner.ts';
import { LiveRunner, type LiveHandlers } from '../../../src/agent/work/live-runner.ts';
import {
  eventLogHandlers,
  type EventLogReader,
} from '../../../src/agent/capabilities/event-logs/log-reader.ts';
import { useTestClock } from '../../support/use-test-clock.ts';

const LOG = { name: 'System', displayName: 'System', recordCount: 1, sizeBytes: 1 };

describe('what an agent proves to its watchdog', () => {
  const testClock = useTestClock({ isRunning: false });

  const reader = (more: object = {}): EventLogReader =>
    ({
      list: async () => [LOG],
      async *query() {
        yield { recordId: 1 };
        return { scanned: 1, truncated: false };
      },
      ...more,
    }) as unknown as EventLogReader;
  const queriesOf = (handlers: LiveHandlers) => new LiveRunner(handlers, new ServerClock());
  const ledger = (journal = memoryJournal()) =>
    new DurableRunner({
      store: new CommandStore(journal),
      handlers: {},
      serverClock: new ServerClock(),
      warn: () => {},
    });
  async function check(handlers: LiveHandlers, durable = ledger()) {
    const report = selfCheck({ queries: queriesOf(handlers), checkLedger: () => durable.check() });
    // What hangs ends with its time.
    await testClock.advance(60_000);
    return report;
  }

  it('is all of it on a machine that works, and leaves no command behind', async () => {
    const durable = ledger();
    const report = await check(eventLogHandlers(reader()), durable);
    expect(report).to.deep.equal({ works: ['live_query', 'event_log', 'command_ledger'], faults: [] });
    expect(durable.isIdle).to.equal(true);
  });

  it('is less if logs cannot be read, if a query hangs, and if nothing can be written', async () => {
    const unreadable = reader({
      query() {
        throw new Error('Access is denied.');
      },
    });
    expect(await check(eventLogHandlers(unreadable))).to.deep.equal({
      works: ['live_query', 'command_ledger'],
      faults: [{ check: 'event_log', message: 'Access is denied.' }],
    });
    const hangs = await check(eventLogHandlers(reader({ list: () => new Promise(() => {}) })));
    expect(hangs.works).to.deep.equal(['command_ledger']);
    expect(hangs.faults[0]).to.deep.equal({ check: 'live_query', message: 'It did not answer within 10 s.' });
    const full = { ...memoryJournal(), write: () => Promise.reject(new Error('ENOSPC')) };
    expect((await check(eventLogHandlers(reader()), ledger(full))).faults).to.deep.equal([
      { check: 'command_ledger', message: 'ENOSPC' },
    ]);
    expect((await check({})).works).to.deep.equal(['command_ledger']);
  });
});
