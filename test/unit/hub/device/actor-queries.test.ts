import { expect } from 'chai';
import { AgentErrorCode } from '../../../../src/protocol/index.ts';
import { actorScene, AT } from './actor-scene.ts';

const ROW = {
  recordId: 1,
  timeCreated: AT,
  level: 'information',
  source: 'test',
  eventId: 1,
  computer: 'DESK-1',
  message: 'It happened.',
  category: 'none',
  user: null,
};

describe('live queries of a device actor', () => {
  function online(...args: Parameters<typeof actorScene>) {
    const scene = actorScene(...args);
    scene.actor.claimed(7);
    return scene;
  }
  const rowsOf = (id: string, rows: unknown[]) =>
    ({ kind: 'rows', rows: { id, seq: 0, rows, done: false } }) as const;

  it('go to the device as first attempts with their deadline', () => {
    const { sent, ask, actor } = online();
    ask('a');
    expect(sent).to.deep.equal([
      {
        id: 'a',
        type: 'eventlogs.query',
        payload: { name: 'System' },
        epoch: 7,
        deadline: '2026-01-31T08:00:30.000Z',
        attempt: 1,
      },
    ]);
    expect([actor.hasOpenQuery('a'), actor.hasOpenQuery('b'), actor.hasOpenQuery(7)]).to.deep.equal([
      true,
      false,
      false,
    ]);
    expect(actor.openQueries).to.equal(1);
  });

  it('are unknown to an actor that was never asked', () => {
    const { actor } = online();
    expect([actor.hasOpenQuery('a'), actor.openQueries]).to.deep.equal([false, 0]);
    actor.cancelQuery('a', { reason: 'cancelled' });
    expect(actor.state).to.equal('online');
  });

  it('end with the output of the agent', () => {
    const { ask, result, outcomes, actor } = online();
    ask('a');
    const acks = result('a');
    expect(outcomes.get('a')).to.deep.equal([{ ok: true, output: { scanned: 1, truncated: false } }]);
    expect(acks).to.deep.equal([true]);
    expect(actor.openQueries).to.equal(0);
  });

  it('end with the failure that the agent reports', () => {
    const { ask, result, outcomes } = online();
    for (const id of ['failed', 'no reason', 'missing', 'cancelled']) ask(id);
    result('failed', { status: 'failed', output: undefined, error: { code: 'NO_LOG', message: 'None.' } });
    result('no reason', { status: 'failed', output: undefined });
    result('missing', {
      status: 'failed',
      output: undefined,
      error: { code: AgentErrorCode.capabilityMissing, message: 'No.' },
    });
    result('cancelled', { status: 'cancelled', output: undefined });
    expect([...outcomes.values()].flat()).to.deep.equal([
      { ok: false, reason: 'agent', code: 'NO_LOG', message: 'None.' },
      { ok: false, reason: 'agent', code: AgentErrorCode.failed, message: 'The agent gave no reason.' },
      { ok: false, reason: 'capability_missing' },
      { ok: false, reason: 'cancelled' },
    ]);
  });

  it('fail when the output has another form than agreed', () => {
    const { ask, result, outcomes } = online();
    ask('a');
    result('a', { output: 'text' });
    expect(outcomes.get('a')?.[0]).to.include({ ok: false, reason: 'agent', code: 'INVALID_OUTPUT' });
  });

  it('pass on rows up to their limit, and then end the work on the device', () => {
    const { ask, outcomes, queryRows, cancelled, actor } = online();
    ask('a', { maxRows: 3 });
    actor.post(rowsOf('a', [ROW, ROW]));
    actor.post(rowsOf('a', []));
    actor.post(rowsOf('a', [ROW]));
    expect(queryRows.get('a')).to.deep.equal([ROW, ROW, ROW]);
    expect([outcomes.get('a'), cancelled]).to.deep.equal([[], []]);
    actor.post(rowsOf('a', [ROW]));
    expect(queryRows.get('a')).to.have.length(3);
    expect(outcomes.get('a')?.[0]).to.include({ ok: false, reason: 'agent', code: 'TOO_MANY_ROWS' });
    expect(cancelled).to.deep.equal(['a']);
  });

  it('fail at rows in another form than agreed, and end the work on the device', () => {
    const { ask, outcomes, queryRows, cancelled, actor } = online();
    ask('a');
    actor.post(rowsOf('a', [ROW, 'no row']));
    expect(queryRows.get('a')).to.deep.equal([]);
    expect(outcomes.get('a')?.[0]).to.include({ ok: false, reason: 'agent', code: 'INVALID_ROWS' });
    expect([cancelled, actor.openQueries]).to.deep.equal([['a'], 0]);
  });

  it('all fail with the given reason when the link closes', () => {
    const { ask, outcomes, actor } = online();
    ask('a');
    ask('b');
    actor.linkClosed({ reason: 'unavailable' });
    actor.linkClosed();
    expect([...outcomes.values()]).to.deep.equal([
      [{ ok: false, reason: 'unavailable' }],
      [{ ok: false, reason: 'unavailable' }],
    ]);
    actor.stop(undefined, undefined);
  });

  it('fail as disconnected when the actor ends, whether they are open or waiting', () => {
    const open = online();
    open.ask('a');
    open.actor.stop(undefined, 'socket_closed');
    expect(open.outcomes.get('a')).to.deep.equal([{ ok: false, reason: 'disconnected' }]);
    const waiting = actorScene();
    waiting.ask('a');
    waiting.actor.stop(undefined, 'socket_closed');
    expect(waiting.outcomes.get('a')).to.deep.equal([{ ok: false, reason: 'disconnected' }]);
  });

  it('are the only messages that a cancellation withdraws from the mailbox', () => {
    const scene = actorScene();
    const acks = scene.result('a');
    scene.ask('b');
    scene.actor.cancelQuery('a', { reason: 'cancelled' });
    expect([acks, scene.outcomes.get('b'), scene.actor.depth]).to.deep.equal([[], [], 2]);
    scene.actor.cancelQuery('b', { reason: 'timeout' });
    expect(scene.outcomes.get('b')).to.deep.equal([{ ok: false, reason: 'timeout' }]);
    expect(scene.actor.depth).to.equal(1);
  });
});
