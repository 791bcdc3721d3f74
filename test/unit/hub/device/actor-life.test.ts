import { expect } from 'chai';
import sinon from 'sinon';
import { ActorRegistry } from '../../../../src/hub/device/actor-registry.ts';
import type { OfferQuestion, UpgradeOffers } from '../../../../src/hub/ports.ts';
import { BUSY } from '../../../../src/hub/device/actor-messages.ts';
import type { UpdatePhase } from '../../../../src/protocol/index.ts';
import { type ActorScene, actorScene, AT, command, GRACE_MS, NOW } from './actor-scene.ts';

const METRICS = { cpuPercent: 1, ramPercent: 2, diskPercent: 3 };

/** Returns what the heartbeat was answered with. */
function heartbeat({ actor }: ActorScene, more: object = {}, at = Date.now()): unknown[] {
  const answers: unknown[] = [];
  actor.post({
    kind: 'heartbeat',
    heartbeat: { at: AT, agentVersion: '1.0.0', ...more },
    at,
    ack: (answer) => void answers.push(answer),
  });
  return answers;
}

describe('the life of a device actor', () => {
  let clock: sinon.SinonFakeTimers;
  beforeEach(() => {
    clock = sinon.useFakeTimers({ now: NOW, toFake: ['setTimeout', 'clearTimeout', 'setImmediate', 'Date'] });
  });
  afterEach(() => clock.restore());

  it('begins as connected, and counts as connected with the claim', () => {
    const { actor } = actorScene({ earlierEpoch: 3 });
    const state = () => [actor.state, actor.isConnected, actor.countsAsConnected, actor.presenceEpoch];
    expect(state()).to.deep.equal(['starting', true, false, 3]);
    actor.claimed(7);
    expect(state()).to.deep.equal(['online', true, true, 7]);
    actor.linkClosed();
    expect(state()).to.deep.equal(['online', false, true, 7]);
    actor.stop(undefined, undefined);
    expect(state()).to.deep.equal(['gone', false, false, 7]);
  });

  it('gives a device that waits for approval no offer, and says that it waits', () => {
    let offered = 0;
    const upgrade = {
      component: 'agent',
      version: '2.0.0',
      url: 'https://muster.example',
      sha256: 'a'.repeat(64),
    };
    const offers: UpgradeOffers = {
      revision: 1,
      offer() {
        offered += 1;
        return { upgrade: [upgrade], revision: 1, until: Infinity };
      },
      onDeviceChanged() {},
    };
    const scene = actorScene({ offers });
    const { identity } = scene.actor;
    const waiting = actorScene({ offers, identity: { ...identity, isPending: true } });
    for (const each of [scene, waiting]) each.actor.claimed(7);
    expect([scene.actor.isPending, waiting.actor.isPending]).to.deep.equal([false, true]);
    expect(heartbeat(waiting)).to.deep.equal([
      { ok: true, at: AT, nextInMs: 60_000, upgrade: [], isPending: true },
    ]);
    expect(offered).to.equal(0);
    expect(heartbeat(scene)).to.deep.equal([{ ok: true, at: AT, nextInMs: 60_000, upgrade: [upgrade] }]);
  });

  it('keeps the services of a device only once it is approved', () => {
    const scene = actorScene();
    const waiting = actorScene({ identity: { ...scene.actor.identity, isPending: true } });
    const stored = [scene, waiting].map((each) => {
      let isStored: boolean | undefined;
      each.actor.claimed(7);
      each.actor.post({
        kind: 'services',
        report: { manager: 'none', isComplete: true, services: [] },
        ack: (answer) => (isStored = answer),
      });
      return isStored;
    });
    expect(stored).to.deep.equal([true, false]);
    expect([scene.services.length, waiting.services.length]).to.deep.equal([1, 0]);
  });

  it('asks the agent once whether it is there, for all who ask at the same time', async () => {
    let asked = 0;
    let prove = (_answers: boolean) => {};
    const link = {
      answers: () => {
        asked += 1;
        return new Promise<boolean>((resolve) => (prove = resolve));
      },
    };
    const { actor } = actorScene({}, { link });
    actor.claimed(7);
    const both = [actor.answers(1000), actor.answers(1000)];
    prove(true);
    expect([await Promise.all(both), asked]).to.deep.equal([[true, true], 1]);
    const again = actor.answers(1000);
    prove(false);
    expect([await again, asked]).to.deep.equal([false, 2]);
    // The connection has ended while the agent was asked.
    const late = actor.answers(1000);
    prove(true);
    actor.linkClosed();
    expect([await late, asked]).to.deep.equal([false, 3]);
  });

  it('reports a host name again that was not stored', () => {
    const scene = actorScene({ machine: { hostname: 'anvil' } });
    scene.actor.claimed(7);
    heartbeat(scene, { hostname: 'anvil' });
    expect(scene.facts).to.have.length(1);
    scene.actor.forgetHostname();
    heartbeat(scene, { hostname: 'anvil' });
    heartbeat(scene, { hostname: 'anvil' });
    expect(scene.facts.map(({ hostname }) => hostname)).to.deep.equal(['anvil', 'anvil']);
  });

  it('reports that it was alive when another one replaced it, and for no other end', () => {
    const outlived: unknown[] = [];
    const begin = () => {
      let isAlive = () => {};
      const link = { close: (_notice: unknown, wasAlive: () => void) => void (isAlive = wasAlive) };
      const { actor } = actorScene({}, { link, events: { outlived: (each) => void outlived.push(each) } });
      actor.claimed(7);
      return { actor, isAlive: () => isAlive() };
    };
    const stopped = begin();
    stopped.actor.stop({ afterMs: 1000, reason: 'draining' }, 'socket_closed');
    stopped.isAlive();
    expect(outlived).to.deep.equal([]);
    const replaced = begin();
    replaced.actor.superseded(8);
    replaced.isAlive();
    expect(outlived).to.deep.equal([replaced.actor]);
  });

  it('answers nothing more as connected while it ends', () => {
    const states: unknown[] = [];
    const scene = actorScene();
    scene.actor.claimed(7);
    scene.actor.post({
      kind: 'query',
      query: {
        id: 'query-1',
        type: 'eventlogs.query',
        payload: { name: 'System' },
        deadline: NOW + 30_000,
        maxRows: 10,
        onRows: () => {},
        settle: () => void states.push([scene.actor.state, scene.actor.isConnected]),
      },
    });
    scene.actor.stop(undefined, 'socket_closed');
    expect(states).to.deep.equal([['draining', false]]);
  });

  it('takes over when the device connected from the connection before', () => {
    const { actor, presence } = actorScene({ connectedSince: NOW - 5000 });
    actor.claimed(7);
    expect(presence[0]?.presence.since).to.equal('2026-01-31T07:59:55.000Z');
    expect(actor.connectedSince).to.equal(NOW - 5000);
    expect(actorScene().actor.connectedSince).to.equal(NOW);
  });

  it('ends with a greater claim of another node, and with no other', () => {
    const { actor, closed, presence } = actorScene();
    actor.claimed(7);
    actor.superseded(6);
    actor.superseded(7);
    expect(actor.state).to.equal('online');
    actor.superseded(8);
    expect(actor.state).to.equal('gone');
    expect(closed).to.deep.equal([{ afterMs: 60_000, reason: 'superseded' }]);
    // Presence is left to the actor that takes over.
    expect(presence.map((record) => record.presence.state)).to.deep.equal(['connected']);
  });

  it('compares a claim of another node with its own when it has one', () => {
    const newer = actorScene();
    newer.actor.superseded(8);
    newer.actor.superseded(5);
    expect(newer.actor.state).to.equal('starting');
    newer.actor.claimed(7);
    expect([newer.actor.state, newer.presence, newer.ready]).to.deep.equal(['gone', [], 0]);
    expect(newer.closed).to.deep.equal([{ afterMs: 60_000, reason: 'superseded' }]);
    for (const other of [6, 7]) {
      const older = actorScene();
      older.actor.superseded(other);
      older.actor.claimed(7);
      expect([older.actor.state, older.actor.epoch]).to.deep.equal(['online', 7]);
    }
  });

  it('reports its end under a claim that came too late, unless another one is newer', () => {
    for (const [other, reported] of [
      [6, 1],
      [7, 1],
      [8, 0],
    ] as const) {
      const { actor, presence } = actorScene();
      actor.superseded(other);
      actor.stop(undefined, 'socket_closed');
      actor.claimed(7);
      expect(presence.map(({ epoch }) => epoch)).to.deep.equal(Array.from({ length: reported }, () => 7));
      expect(actor.state).to.equal('gone');
    }
  });

  it('counts sweeps until the device is heard', () => {
    const scene = actorScene();
    const { actor } = scene;
    actor.claimed(7);
    expect([actor.countSilentSweep(), actor.countSilentSweep(), actor.countSilentSweep()]).to.deep.equal([
      0, 1, 2,
    ]);
    actor.heard(NOW + 5);
    expect([actor.countSilentSweep(), actor.lastHeardAt]).to.deep.equal([0, NOW + 5]);
    heartbeat(scene);
    expect(actor.countSilentSweep()).to.equal(0);
  });

  it('reports again that the device is connected only while it is', () => {
    const { actor, presence } = actorScene();
    actor.republish();
    expect(presence).to.have.length(0);
    actor.claimed(7);
    actor.republish();
    expect(presence).to.have.length(2);
    actor.stop(undefined, undefined);
    actor.republish();
    expect(presence).to.have.length(2);
  });

  it('looks for unread data only on an open link', () => {
    const scene = actorScene();
    scene.actor.claimed(7);
    scene.actor.endIfUnread();
    expect(scene.unreadChecks).to.equal(1);
    scene.actor.linkClosed();
    scene.actor.endIfUnread();
    expect(scene.unreadChecks).to.equal(1);
  });

  it('begins the grace period once, and only under a claim', () => {
    const { actor } = actorScene();
    actor.linkClosed();
    actor.linkClosed();
    expect(clock.countTimers()).to.equal(0);
    actor.claimed(7);
    expect(clock.countTimers()).to.equal(1);
    actor.linkClosed();
    expect(clock.countTimers()).to.equal(1);
    clock.tick(GRACE_MS);
    expect([actor.state, clock.countTimers()]).to.deep.equal(['gone', 0]);
  });

  for (const loss of ['socket_closed', 'heartbeat_missed'] as const) {
    it(`says after the grace period how the connection was lost: ${loss}`, () => {
      const { actor, presence } = actorScene();
      actor.claimed(7);
      actor.linkClosed(undefined, loss);
      // What closes afterwards is the same connection.
      actor.linkClosed();
      clock.tick(GRACE_MS);
      expect(presence.at(-1)?.presence).to.include({ state: 'disconnected', reason: loss });
    });
  }

  it('answers everything that waits when it ends, so that agents send it again', () => {
    const scene = actorScene();
    const beats = heartbeat(scene);
    const acks = scene.result('command-1');
    const upgrades: boolean[] = [];
    scene.actor.post({
      kind: 'upgrade',
      status: { component: 'agent', targetVersion: '2.0.0', phase: 'failed' },
      at: NOW,
      ack: (isStored) => void upgrades.push(isStored),
    });
    scene.ask('a');
    scene.actor.post({ kind: 'rows', rows: { id: 'command-1', seq: 0, rows: [], done: false } });
    scene.actor.stop(undefined, 'socket_closed');
    expect([beats, acks, upgrades]).to.deep.equal([[BUSY], [false], [false]]);
    expect(scene.outcomes.get('a')).to.deep.equal([{ ok: false, reason: 'disconnected' }]);
    expect([scene.actor.depth, scene.commandEvents, scene.jobRows]).to.deep.equal([0, [], []]);
  });

  it('ends with a notice when a turn throws, and fails what waits', () => {
    const error = new Error('broken');
    const scene = actorScene(undefined, {
      link: {
        sendCommand() {
          throw error;
        },
      },
    });
    scene.actor.claimed(7);
    scene.actor.sendCommand(command());
    expect([scene.failed, scene.gone]).to.deep.equal([[error], 1]);
    expect(scene.closed).to.deep.equal([{ afterMs: 1000, reason: 'actor_failed' }]);
    expect(scene.presence.at(-1)?.presence).to.include({ state: 'disconnected', reason: 'socket_closed' });
  });

  it('does nothing after its end', () => {
    const scene = actorScene();
    scene.actor.claimed(7);
    scene.actor.stop(undefined, undefined);
    scene.actor.sendCommand(command());
    scene.actor.cancelCommand('command-1');
    scene.actor.stop({ afterMs: 1, reason: 'draining' }, 'socket_closed');
    scene.actor.linkClosed();
    expect([scene.sent, scene.cancelled, scene.gone, scene.presence.length]).to.deep.equal([[], [], 1, 1]);
    expect(scene.actor.post({ kind: 'progress', progress: { id: 'a', seq: 0, phase: 'x' } })).to.equal(false);
  });

  it('reports the capabilities once each and in order, with the facts of the handshake', () => {
    const { actor, facts } = actorScene({ capabilities: ['script.run', 'agent.reboot', 'script.run'] });
    actor.claimed(7);
    expect(facts).to.deep.equal([
      { deviceId: 'device-1', capabilities: ['agent.reboot', 'script.run'], agentVersion: '1.0.0' },
    ]);
  });

  it('does not report facts again that a heartbeat repeats', () => {
    const scene = actorScene();
    scene.actor.claimed(7);
    heartbeat(scene);
    expect(scene.facts).to.have.length(1);
    heartbeat(scene, { osVersion: 'Debian 13', lastUser: 'ana' });
    expect(scene.facts).to.have.length(2);
    expect(scene.facts[1]).to.include({ osVersion: 'Debian 13', lastUser: 'ana', agentVersion: '1.0.0' });
  });

  it('has the metrics of the latest heartbeat in its presence, and none if that has none', () => {
    const scene = actorScene();
    scene.actor.claimed(7);
    const other = { cpuPercent: 4, ramPercent: 5, diskPercent: 6 };
    for (const metrics of [METRICS, other, undefined, METRICS]) {
      heartbeat(scene, { metrics, uptimeSeconds: 7 });
    }
    heartbeat(scene);
    expect(scene.presence.slice(1).map(({ metrics }) => metrics)).to.deep.equal([
      METRICS,
      other,
      null,
      METRICS,
      null,
    ]);
    expect(scene.presence.slice(-2).map(({ uptimeSeconds }) => uptimeSeconds)).to.deep.equal([7, null]);
  });

  describe('offers upgrades', () => {
    let asked: [OfferQuestion, number][];
    let revision: number;
    let until: number;
    const UPGRADE = [{ component: 'agent', version: '2.0.0' }] as never;
    const offers: UpgradeOffers = {
      get revision() {
        return revision;
      },
      offer(question, now) {
        asked.push([question, now]);
        return { upgrade: UPGRADE, revision, until };
      },
      onDeviceChanged() {},
    };
    let scene: ActorScene;
    beforeEach(() => {
      asked = [];
      revision = 1;
      until = NOW + 60_000;
      scene = actorScene({ offers, capabilities: ['agent.reboot'] });
      scene.actor.claimed(7);
    });
    const upgradeIn = (answers: unknown[]) => (answers[0] as { upgrade: unknown }).upgrade;
    const report = (phase: UpdatePhase) =>
      scene.actor.post({
        kind: 'upgrade',
        status: { component: 'agent', targetVersion: '2.0.0', phase },
        at: Date.now(),
        ack: () => {},
      });

    it('in the answers to heartbeats, and asks for them once', () => {
      for (let n = 0; n < 3; n++) {
        expect(upgradeIn(heartbeat(scene, { watchdogVersion: '1.1.0', autoUpdate: true }))).to.equal(UPGRADE);
      }
      expect(asked).to.deep.equal([
        [
          {
            identity: scene.actor.identity,
            capabilities: ['agent.reboot'],
            agentVersion: '1.0.0',
            watchdogVersion: '1.1.0',
            autoUpdate: true,
          },
          NOW,
        ],
      ]);
    });

    it('anew when their time is over, a revision is new, the facts differ, or they are forgotten', () => {
      heartbeat(scene);
      heartbeat(scene, {}, until - 1);
      expect(asked).to.have.length(1);
      heartbeat(scene, {}, until);
      expect(asked).to.have.length(2);
      until += 60_000;
      heartbeat(scene);
      heartbeat(scene);
      const before = asked.length;
      revision += 1;
      heartbeat(scene);
      expect(asked).to.have.length(before + 1);
      heartbeat(scene, { osBuild: '2' });
      expect(asked).to.have.length(before + 2);
      scene.actor.forgetOffer();
      heartbeat(scene, { osBuild: '2' });
      heartbeat(scene, { osBuild: '2' });
      expect(asked).to.have.length(before + 3);
    });

    it('not for five seconds after a device has reported a phase', () => {
      report('downloading');
      expect(upgradeIn(heartbeat(scene))).to.deep.equal([]);
      expect(upgradeIn(heartbeat(scene, {}, NOW + 4999))).to.deep.equal([]);
      expect(upgradeIn(heartbeat(scene, {}, NOW + 5000))).to.equal(UPGRADE);
    });

    const reasonAfter = (ms: number, end: () => void) => {
      clock.tick(ms);
      end();
      return scene.presence.at(-1)?.presence.reason;
    };
    const close = () => scene.actor.stop(undefined, 'socket_closed');

    it('and shows a device that disconnects during an upgrade as updating, for five minutes', () => {
      report('installing');
      expect(reasonAfter(5 * 60_000 - 1, close)).to.equal('updating');
    });
    it('and shows it as disconnected after that', () => {
      report('installing');
      expect(reasonAfter(5 * 60_000, close)).to.equal('socket_closed');
    });
    it('and shows it as disconnected when it never reported an upgrade, or one that has ended', () => {
      expect(reasonAfter(0, close)).to.equal('socket_closed');
      for (const phase of ['completed', 'failed', 'rolled_back'] as const) {
        scene = actorScene({ offers });
        scene.actor.claimed(7);
        report('installing');
        report(phase);
        expect(reasonAfter(0, close), phase).to.equal('socket_closed');
      }
    });
    it('and shows a device whose heartbeats are missing as such', () => {
      report('installing');
      expect(reasonAfter(0, () => scene.actor.heartbeatMissed())).to.equal('heartbeat_missed');
    });
  });

  it('answers heartbeats of one moment with the same object, unless they differ in something', () => {
    const upgrades = [[], []] as never[][];
    const offersOf = (upgrade: never[]): UpgradeOffers => ({
      revision: 0,
      offer: () => ({ upgrade, revision: 0, until: Number.POSITIVE_INFINITY }),
      onDeviceChanged() {},
    });
    const limits = { heartbeatMs: 60_000, graceMs: GRACE_MS, maxQueries: 4 };
    const answerOf = (upgrade: never[] = [], heartbeatMs = 60_000, at = NOW) => {
      const scene = actorScene({ offers: offersOf(upgrade), limits: { ...limits, heartbeatMs } });
      scene.actor.claimed(7);
      return heartbeat(scene, {}, at)[0];
    };
    const first = answerOf(upgrades[0]);
    expect(answerOf(upgrades[0])).to.equal(first);
    expect(answerOf(upgrades[1])).to.not.equal(first);
    const slower = answerOf(upgrades[1], 30_000);
    expect(slower).to.deep.equal({ ok: true, at: AT, nextInMs: 30_000, upgrade: [] });
    expect(answerOf(upgrades[1], 30_000, NOW + 1)).to.include({ at: '2026-01-31T08:00:00.001Z' });
  });

  describe('in the registry', () => {
    it('begins and ends with its own entry', () => {
      const registry = new ActorRegistry();
      const [first, second, other] = [actorScene().actor, actorScene().actor, actorScene().actor];
      expect([registry.put(first), registry.put(second), registry.size]).to.deep.equal([undefined, first, 1]);
      registry.remove(other);
      registry.remove(first);
      expect(registry.get('device-1')).to.equal(second);
      expect([...registry.values()]).to.deep.equal([second]);
      registry.remove(second);
      expect([registry.get('device-1'), registry.size]).to.deep.equal([undefined, 0]);
    });
  });
});
