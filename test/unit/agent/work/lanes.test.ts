import { setImmediate as nextTurn } from 'node:timers/promises';
import { expect } from 'chai';
import fc from 'fast-check';
import type { AnswerChannel } from '../../../../src/agent/core/answer-channel.ts';
import { ServerClock } from '../../../../src/agent/core/server-clock.ts';
import { memoryJournal } from '../../../../src/agent/simulator/simulated-machine.ts';
import { CommandStore } from '../../../../src/agent/work/command-store.ts';
import type { DurableHandlers } from '../../../../src/agent/work/handler.ts';
import { DurableRunner } from '../../../../src/agent/work/durable-runner.ts';
import { LANE_LIMITS, LANES, type Lane, laneOf } from '../../../../src/protocol/index.ts';

/** One command type for each lane; there is none in the bulk lane yet. */
const TYPE_IN = {
  interactive: 'agent.set-auto-update',
  work: 'script.run',
  bulk: 'agent.refresh-inventory',
} as const satisfies Record<Lane, string>;
const PAYLOAD_OF: Record<Lane, object> = {
  interactive: { enabled: true },
  work: { language: 'bash', content: 'true', timeoutSeconds: 60 },
  bulk: {},
};
const laneOfType = (type: string) => LANES.find((lane) => TYPE_IN[lane] === type) ?? 'work';

type Step = { do: 'accept'; lane: Lane } | { do: 'end' | 'cancel'; pick: number };

/** The real runner, with handlers that end when the test says so. */
class Stage {
  readonly accepted: { id: string; lane: Lane }[] = [];
  readonly started: string[] = [];
  readonly ended = new Set<string>();
  readonly #endings = new Map<string, () => void>();
  readonly #runner: DurableRunner;

  constructor() {
    const handle = (_payload: unknown, { signal }: { signal: AbortSignal }) =>
      new Promise<never>((resolve, reject) => {
        // The report that a command runs precedes its handler.
        this.#endings.set(this.started.at(-1)!, () => resolve({} as never));
        signal.addEventListener('abort', () => reject(new Error('cancelled')));
      });
    const handlers: DurableHandlers = {
      'agent.set-auto-update': handle,
      'script.run': handle,
      'agent.refresh-inventory': handle,
    };
    this.#runner = new DurableRunner({
      store: new CommandStore(memoryJournal()),
      handlers,
      serverClock: new ServerClock(),
      warn: (message) => expect.fail(message),
      laneOf: laneOfType,
    });
    const channel: AnswerChannel = {
      rows: async () => {},
      progress: async ({ id }) => void (this.started.includes(id) || this.started.push(id)),
      result: async ({ id }) => void this.ended.add(id),
    };
    this.#runner.attach(channel);
  }

  running = (lane: Lane) => this.started.filter((id) => this.#laneOf(id) === lane && !this.ended.has(id));
  waiting = (lane: Lane) =>
    this.accepted.filter(
      (one) => one.lane === lane && !this.started.includes(one.id) && !this.ended.has(one.id),
    );
  open = () => this.accepted.filter(({ id }) => !this.ended.has(id)).map(({ id }) => id);

  async step(step: Step): Promise<void> {
    if (step.do === 'accept') {
      const id = `c${this.accepted.length}`;
      this.accepted.push({ id, lane: step.lane });
      await this.#runner.accept({
        id,
        type: TYPE_IN[step.lane],
        payload: PAYLOAD_OF[step.lane],
        epoch: 1,
        deadline: new Date().toISOString(),
        attempt: 1,
      });
    } else {
      const candidates = step.do === 'cancel' ? this.open() : LANES.flatMap((lane) => this.running(lane));
      const id = candidates[step.pick % Math.max(candidates.length, 1)];
      if (id === undefined) return;
      if (step.do === 'cancel') await this.#runner.cancel(id);
      else this.#endings.get(id)!();
    }
    // Everything here happens in memory, so a few turns of the event loop settle it.
    for (let turn = 0; turn < 5; turn++) await nextTurn();
  }

  #laneOf = (id: string) => this.accepted.find((one) => one.id === id)!.lane;
}

describe('the lanes of durable commands', () => {
  it('are assigned by the type of the command; unknown types run as scripts do', () => {
    expect(['agent.reboot', 'script.run', 'of.another-release', 'eventlogs.list'].map(laneOf)).to.deep.equal([
      'interactive',
      'work',
      'work',
      'work',
    ]);
  });

  it('start as many as they may, in the order accepted, whatever the other lanes do', async () => {
    const lane = fc.constantFrom(...LANES);
    const step: fc.Arbitrary<Step> = fc.oneof(
      { weight: 3, arbitrary: fc.record({ do: fc.constant('accept' as const), lane }) },
      { weight: 2, arbitrary: fc.record({ do: fc.constant('end' as const), pick: fc.nat(50) }) },
      { weight: 1, arbitrary: fc.record({ do: fc.constant('cancel' as const), pick: fc.nat(50) }) },
    );
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 40 }), async (steps) => {
        const stage = new Stage();
        for (const next of steps) {
          await stage.step(next);
          for (const each of LANES) {
            const [running, waiting] = [stage.running(each).length, stage.waiting(each).length];
            expect(running, `${each} within its limit`).to.be.at.most(LANE_LIMITS[each]);
            if (waiting > 0) expect(running, `${each} uses all its places`).to.equal(LANE_LIMITS[each]);
            const order = stage.accepted.filter((one) => one.lane === each).map(({ id }) => id);
            const started = stage.started.filter((id) => order.includes(id));
            expect(started, `${each} in order`).to.deep.equal(order.filter((id) => started.includes(id)));
          }
        }
      }),
      { numRuns: 60 },
    );
  });
});
