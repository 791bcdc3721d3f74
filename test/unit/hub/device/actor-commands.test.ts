import { expect } from 'chai';
import { AgentErrorCode, SECRETS_CAPABILITY } from '../../../../src/protocol/index.ts';
import { actorScene, AT, command } from './actor-scene.ts';

describe('commands of a device actor', () => {
  function online(...args: Parameters<typeof actorScene>) {
    const scene = actorScene(...args);
    scene.actor.claimed(7);
    return scene;
  }

  it('go to the device with their epoch, attempt and deadline', () => {
    const { actor, sent, commandEvents } = online();
    actor.sendCommand(command());
    expect(sent).to.deep.equal([
      {
        id: 'command-1',
        type: 'agent.reboot',
        payload: {},
        epoch: 7,
        deadline: '2026-01-31T08:10:00.000Z',
        attempt: 2,
      },
    ]);
    expect(commandEvents).to.deep.equal([]);
  });

  it('are neither sent nor refused when they were taken under another epoch', () => {
    for (const epoch of [6, 8]) {
      const { actor, sent, commandEvents } = online();
      actor.sendCommand(command({ epoch }));
      // One that the agent does not support would otherwise fail, although another connection is responsible for it.
      actor.sendCommand(command({ epoch, type: 'agent.unknown' as 'agent.reboot' }));
      expect([sent, commandEvents]).to.deep.equal([[], []]);
    }
  });

  it('are not sent over a closed link', () => {
    const { actor, sent, cancelled, commandEvents } = online();
    actor.linkClosed();
    actor.sendCommand(command());
    actor.cancelCommand('command-1');
    expect([sent, cancelled, commandEvents]).to.deep.equal([[], [], []]);
    expect([actor.state, actor.isConnected]).to.deep.equal(['online', false]);
    actor.stop(undefined, undefined);
  });

  it('are cancelled over an open link', () => {
    const { actor, cancelled } = online();
    actor.cancelCommand('command-1');
    expect(cancelled).to.deep.equal(['command-1']);
  });

  it('fail when the agent does not support their type', () => {
    const { actor, sent, commandEvents } = online({ capabilities: ['script.run'] });
    actor.sendCommand(command());
    expect(sent).to.deep.equal([]);
    expect(commandEvents).to.deep.equal([
      {
        kind: 'finished',
        id: 'command-1',
        deviceId: 'device-1',
        end: {
          status: 'failed',
          error: {
            code: AgentErrorCode.capabilityMissing,
            message: 'The agent on this device does not support "agent.reboot".',
          },
        },
      },
    ]);
  });

  it('carry their secrets only to an agent that supports secrets', () => {
    const secrets = { password: 'correct horse' };
    const able = online({ capabilities: ['agent.reboot', SECRETS_CAPABILITY] });
    able.actor.sendCommand(command({ secrets }));
    expect(able.sent[0]?.secrets).to.deep.equal(secrets);
    const unable = online({ capabilities: ['agent.reboot'] });
    unable.actor.sendCommand(command({ secrets }));
    expect(unable.sent).to.deep.equal([]);
    expect(unable.commandEvents[0]).to.nested.include({
      'end.error.code': AgentErrorCode.capabilityMissing,
      'end.error.message': 'The agent on this device does not support secrets.',
    });
    unable.actor.sendCommand(command());
    expect(unable.sent).to.have.length(1);
    expect(unable.sent[0]).to.not.have.property('secrets');
  });

  it('are accepted, postponed or failed by the receipt of the agent', () => {
    const { actor, receipts, commandEvents } = online();
    actor.sendCommand(command());
    const [receipt] = receipts;
    receipt?.({ ok: true });
    receipt?.({ ok: false, error: { code: AgentErrorCode.busy, message: 'Full.' } });
    receipt?.({ ok: false, error: { code: 'INVALID', message: 'No.' } });
    const id = { id: 'command-1', deviceId: 'device-1' };
    expect(commandEvents).to.deep.equal([
      { kind: 'accepted', ...id },
      { kind: 'postponed', ...id, attempt: 2 },
      { kind: 'finished', ...id, end: { status: 'failed', error: { code: 'INVALID', message: 'No.' } } },
    ]);
  });

  it('ignore a receipt that comes after the actor has ended, so that they are sent again', () => {
    const { actor, receipts, commandEvents } = online();
    actor.sendCommand(command());
    actor.stop(undefined, undefined);
    receipts[0]?.({ ok: true });
    expect(commandEvents).to.deep.equal([]);
  });

  it('end by a result under whichever epoch they were sent, which is acknowledged when it is stored', () => {
    const stored: ((isStored: boolean) => void)[] = [];
    const { actor, commandEvents, result } = online(undefined, {
      events: {
        command(event, onStored) {
          commandEvents.push(event);
          if (onStored !== undefined) stored.push(onStored);
        },
      },
    });
    const acks = result('command-1', { epoch: 3, output: { exitCode: 0 } });
    expect(acks).to.deep.equal([]);
    stored[0]?.(false);
    expect(acks).to.deep.equal([false]);
    result('command-2', { status: 'failed', output: undefined, error: { code: 'X', message: 'No.' } });
    result('command-3', {
      status: 'failed',
      output: undefined,
      error: { code: AgentErrorCode.timedOut, message: 'Late.' },
    });
    result('command-4', {
      status: 'cancelled',
      output: undefined,
      error: { code: AgentErrorCode.timedOut, message: 'Late.' },
    });
    expect(commandEvents.map((event) => [event.kind, event.id, event.deviceId])).to.deep.equal(
      [1, 2, 3, 4].map((n) => ['finished', `command-${n}`, 'device-1']),
    );
    expect(commandEvents.map((event) => 'end' in event && event.end)).to.deep.equal([
      { status: 'succeeded', output: { exitCode: 0 } },
      { status: 'failed', error: { code: 'X', message: 'No.' } },
      { status: 'timed_out', error: { code: AgentErrorCode.timedOut, message: 'Late.' } },
      { status: 'cancelled', error: { code: AgentErrorCode.timedOut, message: 'Late.' } },
    ]);
    expect(actor.state).to.equal('online');
  });

  it('report progress and rows, which are not mixed up with those of live queries', () => {
    const { actor, commandEvents, jobRows, ask, queryRows } = online();
    ask('query-1', { type: 'eventlogs.query' });
    const progress = { seq: 4, phase: 'copying', percent: 12 };
    actor.post({ kind: 'progress', progress: { id: 'command-1', ...progress } });
    actor.post({ kind: 'progress', progress: { id: 'query-1', ...progress } });
    expect(commandEvents).to.deep.equal([
      {
        kind: 'running',
        id: 'command-1',
        deviceId: 'device-1',
        progress: { phase: 'copying', percent: 12 },
      },
    ]);
    const rows = { id: 'command-1', seq: 0, rows: ['a line'], done: false };
    actor.post({ kind: 'rows', rows });
    actor.post({ kind: 'rows', rows: { ...rows, id: 'query-1', rows: [] } });
    expect(jobRows).to.deep.equal([{ deviceId: 'device-1', rows }]);
    expect(queryRows.get('query-1')).to.deep.equal([]);
  });

  it('are announced as possible once, when the claim stands and the link is open', () => {
    const open = actorScene();
    expect(open.ready).to.equal(0);
    open.actor.claimed(7);
    expect(open.ready).to.equal(1);
    const closed = actorScene();
    closed.actor.linkClosed();
    closed.actor.claimed(7);
    expect([closed.actor.state, closed.ready]).to.deep.equal(['online', 0]);
    closed.actor.stop(undefined, undefined);
  });

  it('have the phases of upgrades beside them, which are acknowledged when they are stored', () => {
    const stored: ((isStored: boolean) => void)[] = [];
    const { actor, upgrades } = online(undefined, {
      events: {
        upgrade(deviceId, status, onStored) {
          upgrades.push({ deviceId, status });
          stored.push(onStored);
        },
      },
    });
    const acks: boolean[] = [];
    const status = { component: 'agent', targetVersion: '2.0.0', phase: 'downloading' } as const;
    actor.post({
      kind: 'upgrade',
      status,
      at: Date.parse(AT),
      ack: (isStored) => void acks.push(isStored),
    });
    expect(acks).to.deep.equal([]);
    stored[0]?.(true);
    expect([upgrades, acks]).to.deep.equal([[{ deviceId: 'device-1', status }], [true]]);
  });
});
