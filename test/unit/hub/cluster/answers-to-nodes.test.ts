import { expect } from 'chai';
import { InProcessDirectory } from '../../../../src/hub/cluster/directory.ts';
import type { HubMessage } from '../../../../src/hub/cluster/messages.ts';
import { Router } from '../../../../src/hub/cluster/router.ts';
import type { ActorMessage, LiveQueryRequest } from '../../../../src/hub/device/actor-messages.ts';
import { ActorRegistry } from '../../../../src/hub/device/actor-registry.ts';
import type { DeviceActor } from '../../../../src/hub/device/device-actor.ts';
import type { NodeBus } from '../../../../src/platform/cluster/node-bus.ts';
import { quietLog } from '../../../support/quiet-log.ts';
import { useTestClock } from '../../../support/use-test-clock.ts';

const OUTPUT = { scanned: 2, truncated: false };
const settle = () => new Promise((resolve) => setImmediate(resolve));

describe('a live query that another node has asked', () => {
  useTestClock({ isRunning: false });
  let router: Router;
  let sent: HubMessage[];
  /** Whether the next messages arrive; those after them do. */
  let deliveries: boolean[];
  let query: LiveQueryRequest;

  beforeEach(() => {
    [sent, deliveries] = [[], []];
    const registry = new ActorRegistry();
    registry.put({
      deviceId: 'device-1',
      post(message: ActorMessage) {
        if (message.kind === 'query') query = message.query;
        return true;
      },
    } as DeviceActor);
    router = new Router({
      registry,
      directory: new InProcessDirectory(),
      bus: {
        nodeId: 'north',
        async send(_to: string, message: HubMessage) {
          sent.push(message);
          return deliveries.shift() ?? true;
        },
        onNodeLost() {},
      } as unknown as NodeBus<HubMessage>,
      log: quietLog,
      onWork: () => {},
    });
    router.receive('south', {
      kind: 'ask',
      id: 'a',
      deviceId: 'device-1',
      type: 'eventlogs.query',
      payload: {},
      deadline: 1,
      leftMs: 30_000,
      maxRows: 10,
    });
  });
  afterEach(() => router.close());

  it('is answered with its rows and then its output', async () => {
    query.onRows([1]);
    query.onRows([2, 3]);
    await settle();
    query.settle({ ok: true, output: OUTPUT });
    expect(sent).to.deep.equal([
      { kind: 'rows', id: 'a', rows: [1] },
      { kind: 'rows', id: 'a', rows: [2, 3] },
      { kind: 'answer', id: 'a', output: OUTPUT, rowCount: 3 },
    ]);
  });

  it('fails if rows were lost on the way, also when later ones have arrived', async () => {
    deliveries = [false, true];
    query.onRows([1]);
    query.onRows([2]);
    await settle();
    query.settle({ ok: true, output: OUTPUT });
    expect(sent.at(-1)).to.deep.equal({ kind: 'failure', id: 'a', failure: { reason: 'unavailable' } });
  });
});
