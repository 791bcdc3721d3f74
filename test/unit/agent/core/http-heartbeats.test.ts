import { expect } from 'chai';
import type { Tokens } from '../../../../src/agent/core/tokens.ts';
import { eventually } from '../../../support/eventually.ts';
import { type ScriptedHub, startScriptedHub } from '../../../support/scripted-hub.ts';
import { startUpgradeBlocker, type UpgradeBlocker } from '../../../support/upgrade-blocker.ts';
import { useTestClock } from '../../../support/use-test-clock.ts';
import { startTestAgent, temporaryFolder, type TestAgent } from '../../../support/agent/test-agent.ts';

const ack = (nextInMs = 50) => ({
  status: 200,
  body: { ok: true, at: new Date().toISOString(), nextInMs, upgrade: [] },
});

/** Not longer than an attempt takes at least, so that no attempt overtakes the answer to the one before. */
const STEP_MS = 250;

describe('agent: heartbeats over HTTP if the socket is blocked', () => {
  const testClock = useTestClock();
  let hub: ScriptedHub;
  let blocker: UpgradeBlocker;
  let agent: TestAgent | undefined;
  let temporary: Awaited<ReturnType<typeof temporaryFolder>>;

  beforeEach(async () => {
    hub = await startScriptedHub();
    blocker = await startUpgradeBlocker(hub.url);
    blocker.answer = ack();
    temporary = await temporaryFolder();
  });
  afterEach(async () => {
    await agent?.stop();
    await blocker.close();
    await hub.close();
    await temporary.remove();
  });

  async function start(more: { tokens?: Tokens; random?: () => number } = {}): Promise<TestAgent> {
    agent = await startTestAgent({
      server: blocker.url,
      dataDir: temporary.folder,
      httpAfterMs: 50,
      ...more,
    });
    return agent;
  }
  /** Waits for something while time passes quickly for the agent. */
  const inTime = <T>(read: () => T, fits: (value: T) => boolean) =>
    eventually(async () => {
      await testClock.advance(STEP_MS);
      return read();
    }, fits);
  const heartbeats = (count: number) =>
    inTime(
      () => blocker.heartbeatsAt.length,
      (length) => length >= count,
    );
  const state = () => agent!.states.at(-1)!;
  const shown = (wanted: string) => inTime(state, (last) => last.state === wanted);
  const passes = async (ms: number) => {
    for (let passed = 0; passed < ms; passed += STEP_MS) {
      await testClock.advance(STEP_MS);
      // For what the network still brings, which has no clock.
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
  };
  const quiet = async () => {
    const { length } = blocker.heartbeatsAt;
    await passes(500);
    expect(blocker.heartbeatsAt).to.have.length(length);
  };

  for (const upgrades of [{ status: 403 }, { status: 426 }, { status: 200 }, 'cut'] as const) {
    it(`are sent while upgrades get ${JSON.stringify(upgrades)}, and end when one succeeds`, async () => {
      blocker.upgrades = upgrades;
      await start();
      await heartbeats(3);
      expect(await shown('http_only')).to.have.property('reason').that.is.not.empty;
      expect(agent!.answers.length).to.be.greaterThan(0);
      const tried = blocker.upgradesAt.length;
      await inTime(
        () => blocker.upgradesAt.length,
        (length) => length > tried,
      );
      blocker.upgrades = 'pass';
      await inTime(
        () => hub.heartbeats.length,
        (length) => length > 0,
      );
      await shown('connected');
      await quiet();
    });
  }

  it('make the agent try its socket soon, because the server is back', async () => {
    blocker.upgrades = { status: 502 };
    // Waits are as long as they can be.
    await start({ random: () => 0.999 });
    await shown('http_only');
    const since = testClock.now();
    blocker.upgrades = 'pass';
    await shown('connected');
    expect(testClock.now() - since).to.be.below(10_000);
  });

  it('are not sent while the server cannot be reached at all, or has only restarted', async () => {
    await start();
    await blocker.close();
    await passes(5000);
    expect(state().state).to.not.equal('http_only');
    expect(blocker.heartbeatsAt).to.have.length(0);
  });

  it('are not sent if the hub itself refuses the connection', async () => {
    blocker.upgrades = 'pass';
    hub.refuse = { code: 'BUSY', retryAfterMs: 50 };
    await start();
    await inTime(
      () => hub.refusals.length,
      (length) => length >= 4,
    );
    await quiet();
    expect(blocker.heartbeatsAt).to.have.length(0);
  });

  it('come when the server has asked for them, not before', async () => {
    await start();
    blocker.answer = ack(700);
    await heartbeats(2);
    const [first = 0, second = 0] = blocker.heartbeatsAt;
    expect(second - first).to.be.at.least(620);
  });

  it('wait as long as a busy or stopping server asks', async () => {
    blocker.answer = { status: 503, headers: { 'retry-after': '1' } };
    await start();
    await heartbeats(1);
    blocker.answer = ack();
    await heartbeats(2);
    const [first = 0, second = 0] = blocker.heartbeatsAt;
    expect(second - first).to.be.at.least(990);
    await shown('http_only');
  });

  it('stop for minutes if the server refuses the device, and the state says so', async () => {
    blocker.answer = { status: 401, body: { error: 'This device has been decommissioned.' } };
    await start();
    await heartbeats(1);
    await eventually(state, (last) => last.state === 'waiting' && last.reason.includes('decommissioned'));
    await quiet();
  });

  it('try the other token if one is refused', async () => {
    const used: string[] = [];
    const refused = new Set<string>();
    const tokens: Tokens = {
      current: async () => (refused.has('new') ? 'old' : 'new'),
      accepted: async (token) => void used.push(token),
      refused: (token) => refused.size < refused.add(token).size,
    };
    blocker.answer = { status: 401 };
    await start({ tokens });
    await heartbeats(1);
    blocker.answer = ack();
    await shown('http_only');
    expect(used).to.include('old').and.not.include('new');
  });

  it('do not count if something on the way answers in place of the server', async () => {
    blocker.answer = { status: 200, body: '<html>Sign in to this network</html>' };
    await start();
    await heartbeats(2);
    expect(state().state).to.not.equal('http_only');
    expect(agent!.answers).to.have.length(0);
  });

  it('respect the wait that a proxy asks for in place of an upgrade', async () => {
    blocker.upgrades = { status: 503, headers: { 'retry-after': '2' } };
    await start();
    await inTime(
      () => blocker.upgradesAt.length,
      (length) => length >= 2,
    );
    await quiet();
    expect(blocker.heartbeatsAt).to.have.length(0);
  });

  it('do not begin at the same moment in a fleet', async () => {
    const agents = await Promise.all(
      Array.from({ length: 20 }, async () =>
        startTestAgent({
          server: blocker.url,
          dataDir: (await temporaryFolder()).folder,
          httpAfterMs: 1000,
          random: Math.random,
        }),
      ),
    );
    try {
      blocker.answer = ack(60_000);
      await heartbeats(20);
      const first = blocker.heartbeatsAt[0] ?? 0;
      expect((blocker.heartbeatsAt.at(-1) ?? 0) - first).to.be.greaterThan(400);
    } finally {
      await Promise.all(agents.map(async (each) => each.stop()));
    }
  });
});
