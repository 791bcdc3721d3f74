import { expect } from 'chai';
import type { HubMessage } from '../../../../src/hub/cluster/messages.ts';
import { RemoteQueries } from '../../../../src/hub/cluster/router.ts';
import type { LiveQueryOutcome } from '../../../../src/hub/device/live-query.ts';
import type { NodeBus } from '../../../../src/platform/cluster/node-bus.ts';
import { recordingLog } from '../../../support/quiet-log.ts';

const ROW = {
  recordId: 1,
  timeCreated: '2026-01-31T08:00:00.000Z',
  level: 'information',
  source: 'test',
  eventId: 1,
  computer: 'DESK-1',
  message: 'It happened.',
  category: 'none',
  user: null,
};
const settle = () => new Promise((resolve) => setImmediate(resolve));

describe('live queries to devices of other nodes', () => {
  let queries: RemoteQueries;
  let sent: [string, HubMessage][];
  let isDelivered: boolean | Error;
  let outcomes: LiveQueryOutcome[];
  let rows: unknown[];
  let log: ReturnType<typeof recordingLog>;
  /** Called with each message before `send` returns. */
  let onSend: (message: HubMessage) => void;

  beforeEach(() => {
    [sent, outcomes, rows] = [[], [], []];
    isDelivered = true;
    onSend = () => {};
    log = recordingLog();
    queries = new RemoteQueries(
      {
        async send(to: string, message: HubMessage) {
          sent.push([to, message]);
          onSend(message);
          if (isDelivered instanceof Error) throw isDelivered;
          return isDelivered;
        },
      } as NodeBus<HubMessage>,
      log.log,
    );
  });
  const ask = (id = 'a', nodeId = 'south') =>
    queries.send({
      nodeId,
      frame: {
        kind: 'ask',
        id,
        deviceId: 'device-1',
        type: 'eventlogs.query',
        payload: {},
        deadline: 1,
        maxRows: 10,
      },
      onRows: (some) => void rows.push(...some),
      settle: (outcome) => void outcomes.push(outcome),
    });
  const output = { scanned: 1, truncated: false };

  it('take an answer that comes while they are sent', () => {
    onSend = () => queries.answer('south', 'a', output);
    ask();
    expect([outcomes, queries.size]).to.deep.equal([[{ ok: true, output }], 0]);
  });

  it('can be cancelled at once, and the device is told', () => {
    ask();
    queries.cancel('a', { reason: 'timeout' });
    expect(outcomes).to.deep.equal([{ ok: false, reason: 'timeout' }]);
    expect(sent[1]).to.deep.equal([
      'south',
      { kind: 'cancel', id: 'a', deviceId: 'device-1', failure: { reason: 'timeout' } },
    ]);
    queries.cancel('a', { reason: 'timeout' });
    expect([outcomes.length, sent.length]).to.deep.equal([1, 2]);
  });

  it('fail when their node is not there, or cannot be reached', async () => {
    isDelivered = false;
    ask();
    await settle();
    isDelivered = new Error('Redis is away');
    ask();
    await settle();
    expect(outcomes).to.deep.equal([
      { ok: false, reason: 'offline' },
      { ok: false, reason: 'unavailable' },
    ]);
    expect(queries.size).to.equal(0);
  });

  it('stay open while their node works on them', async () => {
    ask();
    await settle();
    expect([outcomes, queries.size]).to.deep.equal([[], 1]);
  });

  it('pass on rows and end once', () => {
    ask();
    queries.rows('south', 'a', [ROW]);
    queries.rows('south', 'unknown', [ROW]);
    queries.answer('south', 'a', output);
    queries.answer('south', 'a', output);
    queries.failure('a', { reason: 'busy' });
    queries.rows('south', 'a', [ROW]);
    expect([rows, outcomes]).to.deep.equal([[ROW], [{ ok: true, output }]]);
  });

  it('fail if rows are missing that the other node has sent', () => {
    ask();
    queries.rows('south', 'a', [ROW]);
    queries.answer('south', 'a', output, 2);
    expect([rows, outcomes]).to.deep.equal([[ROW], [{ ok: false, reason: 'unavailable' }]]);
    ask('b');
    queries.rows('south', 'b', [ROW, ROW]);
    queries.answer('south', 'b', output, 2);
    expect(outcomes[1]).to.deep.equal({ ok: true, output });
    expect(queries.size).to.equal(0);
  });

  it('fail with the reason that the other node gives', () => {
    ask();
    queries.failure('a', { reason: 'busy' });
    expect(outcomes).to.deep.equal([{ ok: false, reason: 'busy' }]);
  });

  it('fail at rows or an output in another form than agreed, and are cancelled on the device', () => {
    ask('a');
    queries.rows('south', 'a', ['no row']);
    ask('b');
    queries.answer('south', 'b', 'no output');
    expect([rows, outcomes]).to.deep.equal([
      [],
      [
        { ok: false, reason: 'unavailable' },
        { ok: false, reason: 'unavailable' },
      ],
    ]);
    expect(sent.map(([, message]) => 'failure' in message && message.failure)).to.deep.equal([
      false,
      { reason: 'cancelled' },
      false,
      { reason: 'cancelled' },
    ]);
    expect(log.lines.map(({ event, from }) => [event, from])).to.deep.equal([
      ['hub.bus_message_refused', 'south'],
      ['hub.bus_message_refused', 'south'],
    ]);
  });

  it('fail at once when their node is lost, and no others do', () => {
    ask('a', 'south');
    ask('b', 'east');
    queries.nodeLost('south');
    expect([outcomes, queries.size]).to.deep.equal([[{ ok: false, reason: 'node_lost' }], 1]);
    queries.answer('east', 'b', output);
    expect(outcomes[1]).to.deep.equal({ ok: true, output });
  });

  it('are cancelled when the server stops, and log if that cannot be sent', async () => {
    ask('a');
    ask('b');
    isDelivered = new Error('Redis is away');
    queries.close();
    await settle();
    expect(outcomes).to.deep.equal([
      { ok: false, reason: 'node_lost' },
      { ok: false, reason: 'node_lost' },
    ]);
    expect(sent.slice(2).map(([, message]) => 'failure' in message && message.failure)).to.deep.equal([
      { reason: 'cancelled' },
      { reason: 'cancelled' },
    ]);
    expect(log.lines[0]).to.include({ event: 'hub.bus_send_failed', to: 'south' });
  });
});
