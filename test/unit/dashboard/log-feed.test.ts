import { expect } from 'chai';
import type { QueryOutcome } from '../../../src/protocol/index.ts';
import { LogFeed, type AskLogs } from '../../../src/dashboard/features/event-logs/log-feed.ts';
import { MAX_ROWS } from '../../../src/dashboard/features/event-logs/log-row.ts';
import { eventually } from '../../support/eventually.ts';
import { DEVICE, entryOf } from './log-rows.ts';

/** A hub whose answers the test gives. */
class ScriptedHub {
  readonly asked: { query: Parameters<AskLogs>[0]; listeners: Parameters<AskLogs>[1]; cancelled: boolean }[] =
    [];
  refusal: Error | undefined;

  ask: AskLogs = async (query, listeners) => {
    if (this.refusal !== undefined) throw this.refusal;
    const call = { query, listeners, cancelled: false };
    this.asked.push(call);
    return () => {
      call.cancelled = true;
    };
  };

  last(kind: 'query' | 'tail') {
    const call = this.asked.filter(({ query }) => query.kind === kind).at(-1);
    if (call === undefined) throw new Error(`No ${kind} was asked.`);
    return {
      call,
      send: (...ids: number[]) =>
        call.listeners.rows(
          DEVICE,
          ids.map((id) => entryOf(id)),
        ),
      end: (outcome: QueryOutcome['outcome'], more: Partial<QueryOutcome> = {}) =>
        call.listeners.end([{ deviceId: DEVICE, outcome, rows: 0, ...more }]),
    };
  }
}

const TARGET = { name: 'System', deviceIds: [DEVICE] };

describe('the feed of the event log viewer', () => {
  let hub: ScriptedHub;
  let feed: LogFeed;

  beforeEach(() => {
    hub = new ScriptedHub();
    feed = new LogFeed(hub.ask);
  });
  afterEach(() => feed.close());

  const shown = () => feed.state.rows.map(({ recordId }) => recordId);
  const shows = (...ids: number[]) =>
    eventually(shown, (rows) => JSON.stringify(rows) === JSON.stringify(ids));
  const asked = () =>
    eventually(
      () => hub.asked.length,
      (count) => count > 0,
    );
  async function started(): Promise<ReturnType<ScriptedHub['last']>> {
    feed.start(TARGET, {});
    await asked();
    return hub.last('query');
  }

  it('shows rows while they arrive, and ends as the device says', async () => {
    const query = await started();
    query.send(2, 1);
    await shows(2, 1);
    expect(feed.state.query).to.include({ state: 'running', arrived: 2 });
    query.send(3);
    query.end('answered', { rows: 3, scanned: 10, truncated: false });
    expect(shown()).to.deep.equal([3, 2, 1]);
    expect(feed.state.query).to.include({ state: 'ended', reason: 'complete', arrived: 3 });
    expect(feed.state.hasOlder).to.equal(false);
  });

  for (const outcome of ['timed_out', 'offline', 'error'] as const) {
    it(`keeps what came before the query ended with "${outcome}"`, async () => {
      const query = await started();
      query.send(5);
      query.end(outcome, { message: 'why' });
      expect(shown()).to.deep.equal([5]);
      expect(feed.state.query).to.include({ reason: outcome, message: 'why', arrived: 1 });
    });
  }

  it('keeps what came when the person cancels, tells the hub, and takes nothing that comes later', async () => {
    const query = await started();
    await eventually(
      () => feed.state.query.state,
      (state) => state === 'running',
    );
    query.send(1);
    await shows(1);
    feed.cancel();
    expect(query.call.cancelled).to.equal(true);
    query.end('cancelled');
    expect(feed.state.query).to.include({ state: 'ended', reason: 'cancelled', arrived: 1 });
    query.send(2);
    query.end('answered');
    expect(feed.state.query).to.include({ reason: 'cancelled' });
    expect(shown()).to.deep.equal([1]);
  });

  it('says that a query was cancelled if the hub does not answer any more', async () => {
    const query = await started();
    query.send(1);
    await shows(1);
    feed.cancel();
    await eventually(
      () => feed.state.query.state,
      (state) => state === 'ended',
    );
    expect(feed.state.query).to.include({ reason: 'cancelled' });
  });

  it('reports a lost connection and a refusal', async () => {
    const query = await started();
    query.call.listeners.end([]);
    expect(feed.state.query).to.include({ reason: 'connection_lost' });
    hub.refusal = new Error('A connection may have at most 8 live queries.');
    feed.start(TARGET, {});
    await eventually(
      () => feed.state.query.state,
      (state) => state === 'ended',
    );
    expect(feed.state.query).to.include({ reason: 'refused', message: hub.refusal.message });
  });

  it('cancels the query before when another one begins, and drops its rows', async () => {
    const first = await started();
    first.send(1);
    await shows(1);
    feed.start(TARGET, { text: 'x' });
    expect(first.call.cancelled).to.equal(true);
    await eventually(
      () => hub.asked.length,
      (count) => count === 2,
    );
    first.send(9);
    hub.last('query').send(2);
    await shows(2);
    expect(hub.last('query').call.query.message).to.include({ text: 'x', name: 'System', limit: 500 });
  });

  it('cancels a query that the hub accepts after the page has gone', async () => {
    feed.start(TARGET, {});
    feed.close();
    await eventually(
      () => hub.asked.every(({ cancelled }) => cancelled) && hub.asked.length === 1,
      (isCancelled) => isCancelled,
    );
  });

  it('goes on from where the device has stopped, although nothing was found', async () => {
    feed.start(TARGET, { text: 'rare' }, 2);
    await asked();
    hub.last('query').end('no_match');
    feed.older('2026-01-31T07:00:00.000Z');
    await eventually(
      () => hub.asked.length,
      (count) => count === 2,
    );
    expect(hub.last('query').call.query.message).to.include({
      text: 'rare',
      endTime: '2026-01-31T07:00:00.000Z',
    });
    hub.last('query').send(1);
    hub.last('query').end('answered');
    expect(shown()).to.deep.equal([1]);
  });

  it('reads older entries from the time of the oldest, and stops if none is new', async () => {
    feed.start(TARGET, { startTime: '2026-01-01T00:00:00.000Z' }, 2);
    await asked();
    const first = hub.last('query');
    first.send(4, 3);
    first.end('answered');
    expect(feed.state.hasOlder).to.equal(true);
    feed.older();
    await eventually(
      () => hub.asked.length,
      (count) => count === 2,
    );
    const older = hub.last('query');
    expect(older.call.query.message).to.include({
      startTime: '2026-01-01T00:00:00.000Z',
      endTime: '2026-01-31T08:00:03.000Z',
    });
    older.send(3, 2);
    older.end('answered');
    expect(shown()).to.deep.equal([4, 3, 2]);
    expect(feed.state.hasOlder).to.equal(true);
    feed.older();
    await eventually(
      () => hub.asked.length,
      (count) => count === 3,
    );
    hub.last('query').send(2);
    hub.last('query').end('answered');
    expect(feed.state.hasOlder).to.equal(false);
  });

  describe('that follows new entries', () => {
    async function following() {
      const query = await started();
      query.send(2, 1);
      query.end('answered');
      feed.follow();
      await eventually(
        () => feed.state.tail.state,
        (state) => state === 'following',
      );
      return hub.last('tail');
    }

    it('first reads what was written while it was not following', async () => {
      await following();
      expect(hub.last('query').call.query.message).to.include({ startTime: '2026-01-31T08:00:02.000Z' });
      hub.last('query').send(3, 2);
      await shows(3, 2, 1);
    });

    it('holds new entries back while it is paused, counts them, and shows them afterwards', async () => {
      const tail = await following();
      tail.send(3);
      await shows(3, 2, 1);
      feed.pause();
      tail.send(4);
      tail.send(5, 4, 3);
      await eventually(
        () => feed.state.tail.waiting,
        (waiting) => waiting === 2,
      );
      expect(feed.state.tail.state).to.equal('paused');
      expect(shown()).to.deep.equal([3, 2, 1]);
      feed.resume();
      expect(feed.state.tail).to.include({ state: 'following', waiting: 0 });
      expect(shown()).to.deep.equal([5, 4, 3, 2, 1]);
    });

    it('counts what a flood adds now and then, and not with each message', async () => {
      const tail = await following();
      feed.pause();
      let changes = 0;
      feed.watch(() => (changes += 1));
      for (let id = 3; id < 203; id++) tail.send(id);
      expect(changes).to.equal(0);
      await eventually(
        () => feed.state.tail.waiting,
        (waiting) => waiting === 200,
      );
    });

    it('holds no more than it may while a hidden page is not woken up', async () => {
      const tail = await following();
      const ids = (from: number) => Array.from({ length: MAX_ROWS / 2 }, (_, at) => from + at);
      tail.send(...ids(3));
      expect(shown()).to.deep.equal([2, 1]);
      tail.send(...ids(3 + MAX_ROWS / 2));
      expect(shown()).to.have.length(MAX_ROWS);
    });

    it('continues with other conditions, and follows them without a time', async () => {
      const before = await following();
      feed.start(TARGET, { text: 'x', startTime: '2026-01-01T00:00:00.000Z' });
      expect(before.call.cancelled).to.equal(true);
      await eventually(
        () => feed.state.tail.state,
        (state) => state === 'following',
      );
      expect(hub.last('tail').call.query.message).to.deep.equal({
        deviceId: DEVICE,
        name: 'System',
        text: 'x',
      });
    });

    it('says why it ended, and keeps what was held back', async () => {
      const tail = await following();
      feed.pause();
      tail.send(3);
      tail.end('offline');
      expect(feed.state.tail.state).to.equal('off');
      expect(feed.state.tail.ended).to.contain('The device is not connected.');
      expect(shown()).to.deep.equal([3, 2, 1]);
    });

    it('goes on as it was when a lost connection is back, and only if it was not ended', async () => {
      const stands = (wanted: string) =>
        eventually(
          () => feed.state.tail.state,
          (state) => state === wanted,
        );
      const lost = await following();
      feed.pause();
      lost.call.listeners.end([]);
      expect(feed.state.tail.ended).to.contain('followed again');
      hub.refusal = new Error('There is no connection.');
      feed.followAgain();
      await stands('off');
      hub.refusal = undefined;
      feed.followAgain();
      await stands('paused');
      expect(hub.last('query').call.query.message).to.include({ startTime: '2026-01-31T08:00:02.000Z' });
      hub.last('tail').end('offline');
      feed.start(TARGET, {});
      await stands('following');

      hub.last('tail').end('timed_out');
      feed.followAgain();
      expect(feed.state.tail.state).to.equal('off');
    });

    it('is cancelled on the device when the page closes', async () => {
      const tail = await following();
      feed.close();
      expect(tail.call.cancelled).to.equal(true);
      tail.send(9);
      expect(shown()).not.to.include(9);
    });
  });
});
