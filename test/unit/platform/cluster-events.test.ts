import { expect } from 'chai';
import { z } from 'zod';
import { ClusterEvents, topic, type TopicMessage } from '../../../src/platform/cluster/cluster-events.ts';

const RENAMED = topic('renamed', z.object({ id: z.string(), name: z.string() }));

describe('events of the cluster', () => {
  let sent: TopicMessage[];
  let undelivered: number;
  let isBusDown: boolean;
  let events: ClusterEvents;
  let received: { id: string; name: string }[];
  beforeEach(() => {
    sent = [];
    undelivered = 0;
    isBusDown = false;
    received = [];
    const deliver = (message: TopicMessage) => {
      if (isBusDown) throw new Error('The bus is unavailable.');
      sent.push(message);
    };
    events = new ClusterEvents(
      {
        broadcast: async (message) => deliver(message),
        async send(to, message) {
          deliver({ ...message, to });
          return true;
        },
      },
      () => (undelivered += 1),
    );
  });
  const subscribe = () => events.subscribe(RENAMED, (payload) => void received.push(payload));
  const payload = { id: 'a', name: 'first' };

  it('are delivered to the publishing node and sent to the others under the name of their topic', () => {
    subscribe();
    events.publish(RENAMED, payload);
    expect(received).to.deep.equal([payload]);
    expect(sent).to.deep.equal([{ kind: 'renamed', ...payload }]);
  });

  it('are delivered to every subscription when they come from another node', () => {
    subscribe();
    subscribe();
    expect(events.receive({ kind: 'renamed', ...payload }, 'east')).to.equal(true);
    expect(received).to.deep.equal([payload, payload]);
    expect(sent).to.deep.equal([]);
  });

  it('of other nodes do not reach those who listen to this node only', () => {
    events.onPublished(RENAMED, ({ name }) => void received.push({ id: 'published', name }));
    events.receive({ kind: 'renamed', ...payload }, 'east');
    expect(received).to.deep.equal([]);
    events.publish(RENAMED, payload);
    expect(received).to.deep.equal([{ id: 'published', name: 'first' }]);
  });

  it('are refused in an invalid format, and under a name without subscriptions', () => {
    subscribe();
    const invalid = [
      null,
      'renamed',
      {},
      { kind: 7 },
      { kind: 'renamed', id: 'a' },
      { kind: 'moved', ...payload },
    ];
    for (const message of invalid) expect(events.receive(message, 'east')).to.equal(false);
    expect(received).to.deep.equal([]);
  });

  it('that cannot be sent are counted and reported to their publisher, and delivered here all the same', async () => {
    subscribe();
    isBusDown = true;
    await new Promise<void>((resolve) => events.publish(RENAMED, payload, resolve));
    expect(undelivered).to.equal(1);
    expect(received).to.deep.equal([payload]);
  });

  it('are sent only to the nodes that are named, and say from which one they come', () => {
    const from: (string | undefined)[] = [];
    events.subscribe(RENAMED, (_payload, sender) => void from.push(sender));
    events.sendTo(new Set(['east', 'west']), RENAMED, payload);
    events.sendTo(new Set(), RENAMED, payload);
    expect(sent.map(({ to }) => to)).to.deep.equal(['east', 'west']);
    expect(from).to.deep.equal([]);
    events.publish(RENAMED, payload, undefined, new Set(['east']));
    events.receive({ kind: 'renamed', ...payload }, 'east');
    expect(from).to.deep.equal([undefined, 'east']);
  });

  it('stay on this node when there are no others', () => {
    events = new ClusterEvents(undefined, () => (undelivered += 1));
    subscribe();
    events.publish(RENAMED, payload);
    expect(received).to.deep.equal([payload]);
    expect(undelivered).to.equal(0);
  });
});
