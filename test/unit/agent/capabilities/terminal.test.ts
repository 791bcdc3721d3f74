import { expect } from 'chai';
import { Terminal } from '../../../../src/agent/capabilities/terminals/terminal.ts';
import type { TerminalEvents } from '../../../../src/agent/capabilities/terminals/terminal-process.ts';
import { TERMINAL_LEASE_MS, TERMINAL_LONGEST_MS } from '../../../../src/protocol/index.ts';
import { useTestClock } from '../../../support/use-test-clock.ts';

const HOUR_MS = 3_600_000;

describe('a terminal of the agent', () => {
  const testClock = useTestClock({ isRunning: false });

  it('ends after eight hours, also for a viewer that has continued it since', async () => {
    const terminal = new Terminal('t', () => {});
    let events: TerminalEvents | undefined;
    await terminal.start(
      async (_size, heard) => {
        events = heard;
        return {
          mode: 'pty',
          shell: '/bin/sh',
          known: undefined,
          write() {},
          resize() {},
          pause() {},
          resume() {},
          end: () => events?.onExit(null),
        };
      },
      { cols: 80, rows: 24 },
    );
    const view = (id: string) =>
      terminal.view(
        { id, sendNow: async () => {}, signal: new AbortController().signal },
        { after: 0, notice: 'nobody' },
      );
    const stay = async (id: string, ms: number) => {
      for (let spent = 0; spent < ms; spent += TERMINAL_LEASE_MS / 2) {
        terminal.control({ id });
        await testClock.advance(TERMINAL_LEASE_MS / 2);
      }
    };
    const first = view('first');
    await stay('first', 7 * HOUR_MS);
    const second = view('second');
    expect(await first).to.deep.equal({ reason: 'replaced', exitCode: null });
    await stay('second', TERMINAL_LONGEST_MS - 7 * HOUR_MS);
    expect(await second).to.deep.equal({ reason: 'too_long', exitCode: null });
  });
});
