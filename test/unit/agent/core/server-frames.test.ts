import { expect } from 'chai';
import type { AnswerChannel } from '../../../../src/agent/core/answer-channel.ts';
import { requestedDelay, heartbeatDelay } from '../../../../src/agent/core/server-call.ts';
import { LiveRunner } from '../../../../src/agent/work/live-runner.ts';
import { CommandStore } from '../../../../src/agent/work/command-store.ts';
import { ServerClock } from '../../../../src/agent/core/server-clock.ts';
import { memoryJournal } from '../../../../src/agent/simulator/simulated-machine.ts';
import { clock } from '../../../../src/clock.ts';
import type { CommandFrame, CommandRows } from '../../../../src/protocol/index.ts';
import { eventually } from '../../../support/eventually.ts';
import { startScriptedHub, type ScriptedHub } from '../../../support/scripted-hub.ts';
import { useTestClock } from '../../../support/use-test-clock.ts';
import {
  passWait,
  startTestAgent,
  temporaryFolder,
  type TestAgent,
} from '../../../support/agent/test-agent.ts';

const HOUR_MS = 3_600_000;
const TIMER_MAX_MS = 2 ** 31 - 1;

describe('agent: messages of the server are checked', () => {
  const testClock = useTestClock();
  let hub: ScriptedHub;
  let temporary: Awaited<ReturnType<typeof temporaryFolder>>;
  let agent: TestAgent | undefined;

  beforeEach(async () => {
    hub = await startScriptedHub();
    temporary = await temporaryFolder();
  });
  afterEach(async () => {
    await agent?.stop();
    agent = undefined;
    await hub.close();
    await temporary.remove();
  });
  const start = async (ackMs = 1000) => {
    agent = await startTestAgent({
      server: hub.url,
      ackMs,
      dataDir: temporary.folder,
      work: { 'agent.set-auto-update': async () => ({}) },
    });
    await eventually(
      () => hub.sockets.length,
      (count) => count === 1,
    );
  };

  for (const answer of [{ ok: 'yes' }, { ok: false }, {}, null, 'ok']) {
    it(`does not accept ${JSON.stringify(answer)} as the acknowledgement of a result`, async () => {
      await start();
      let results = 0;
      hub.sockets[0]!.removeAllListeners('command:result').on('command:result', (_message, ack) => {
        results += 1;
        ack(answer);
      });
      await hub.command('agent.set-auto-update', { enabled: true }, { id: 'a' });
      await eventually(
        () =>
          agent!.warnings.filter((text) => text.includes('The hub did not accept the result of command a')),
        (warnings) => warnings.length === 1,
      );
      expect(results, 'it waits for the next connection').to.equal(1);
      hub.sockets[0]!.disconnect(true);
      await eventually(
        async () => {
          await passWait(agent!, testClock);
          return hub.results.map(({ id }) => id);
        },
        (ids) => ids.includes('a'),
      );
    });
  }

  it('limits the heartbeat interval that the server can ask for', async () => {
    hub.nextInMs = 1e12;
    await start();
    await eventually(
      () => agent!.answers.length,
      (count) => count === 1,
    );
    // The shortest that a random number can make of an hour.
    await testClock.advance(0.89 * HOUR_MS);
    expect(hub.heartbeats).to.have.length(1);
    await testClock.advance(0.02 * HOUR_MS);
    await eventually(
      () => hub.heartbeats.length,
      (count) => count === 2,
    );
    expect(heartbeatDelay(1e12, () => 1)).to.be.at.most(1.1 * HOUR_MS);
    expect(heartbeatDelay(1, () => 0)).to.be.at.least(45);
    for (const asked of [1e9, 1e12, Number.MAX_SAFE_INTEGER]) {
      expect(requestedDelay(asked, () => 1))
        .to.be.at.most(1.2 * 4 * HOUR_MS)
        .and.below(TIMER_MAX_MS);
    }
  });

  it('never shows text of the server as the time of the last heartbeat', async () => {
    hub.answersHeartbeats = false;
    await start(100);
    hub.sockets[0]!.removeAllListeners('heartbeat').on('heartbeat', (_message, ack) => {
      ack({ ok: true, at: '\u001B[31mnow', nextInMs: 60_000, upgrade: [] });
    });
    const [last] = await eventually(
      async () => {
        // The first heartbeat may have gone before this hub answered any.
        await testClock.advance(1000);
        return agent!.states.flatMap((now) => (now.state === 'connected' ? (now.lastHeartbeatAt ?? []) : []));
      },
      (times) => times.length > 0,
    );
    expect(Math.abs(Date.parse(last!) - testClock.now())).to.be.below(60_000);
  });

  it('ignores anything that the server sends in place of an acknowledgement function', async () => {
    await start();
    for (const event of ['command', 'command:cancel', 'hub:reconnect']) {
      hub.sockets[0]!.emit(event, {}, 'no function');
    }
    expect(await hub.receipt('agent.set-auto-update', { enabled: true })).to.deep.equal({ ok: true });
  });

  it('refuses a command that is larger than any valid one', async () => {
    await start();
    const receipt = await hub.receipt('agent.set-auto-update', {
      enabled: true,
      filler: 'x'.repeat(2_000_000),
    });
    expect(receipt).to.have.nested.property('error.code', 'INVALID_PAYLOAD');
    expect(await hub.receipt('agent.set-auto-update', { enabled: true })).to.deep.equal({ ok: true });
  });

  it('ignores an impossible time of the server', () => {
    for (const at of [
      '+275760-09-13T00:00:00.000Z',
      '0000-01-01T00:00:00.000Z',
      '1969-01-01T00:00:00.000Z',
      'x',
    ]) {
      let count = 0;
      const serverClock = new ServerClock(() => (count += 1000));
      serverClock.startReading()(at);
      expect(Math.abs(Date.parse(serverClock.timestamp()) - testClock.now()), at).to.be.below(60_000);
    }
  });
});

describe('agent: durations while the clock of the machine is set', () => {
  const testClock = useTestClock();

  it('sends rows when they are due, also after the clock was set back', async () => {
    const frames: CommandRows[] = [];
    const channel: AnswerChannel = {
      rows: async (frame) => void frames.push(frame),
      progress: async () => {},
      result: async () => {},
    };
    const runner = new LiveRunner(
      {
        'eventlogs.tail': async (_query, { row }) => {
          testClock.jump(-8760 * HOUR_MS);
          await testClock.advance(300);
          await row({} as never);
          expect(frames, 'sent with the row, not with the end').to.have.length(1);
          return {};
        },
      },
      new ServerClock(),
    );
    await runner.run(
      {
        id: 'a',
        type: 'eventlogs.tail',
        payload: { name: 'x' },
        epoch: 1,
        attempt: 1,
      } as unknown as CommandFrame,
      channel,
    );
    expect(frames.at(-1)?.done).to.equal(true);
  });

  it('remembers delivered commands, also when the clock is set ahead by years', async () => {
    const serverClock = new ServerClock();
    serverClock.startReading()(clock.date().toISOString());
    const store = new CommandStore(memoryJournal(), { now: () => serverClock.now() });
    await store.open();
    const frame = { type: 't', payload: {}, epoch: 1, attempt: 1, deadline: '' };
    for (const id of ['a', 'b']) {
      await store.accept({ ...frame, id });
      await store.done(id);
      testClock.jump(10 * 8760 * HOUR_MS);
    }
    expect([store.isDone('a'), store.isDone('b')]).to.deep.equal([true, true]);
  });
});
