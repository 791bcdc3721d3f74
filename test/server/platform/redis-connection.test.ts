import { expect } from 'chai';
import { once } from 'node:events';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import { openRedis } from '../../../src/platform/cluster/redis.ts';
import { eventually } from '../../support/eventually.ts';
import { quietLog } from '../../support/quiet-log.ts';

/** Takes every command; no subscriptions once its connections were lost. */
async function startSlowRedis() {
  const sockets: Socket[] = [];
  const subscriptions: string[] = [];
  let answersSubscriptions = true;
  const server = createServer((socket) => {
    sockets.push(socket);
    socket.on('error', () => {});
    socket.on('data', (data) => {
      // Each command is an array of bulk strings: its words are every other line.
      for (const command of data
        .toString()
        .split(/^\*\d+\r\n/m)
        .slice(1)) {
        const [, name = '', , channel = ''] = command.split('\r\n');
        if (name.toLowerCase() !== 'subscribe') socket.write('+OK\r\n');
        else {
          subscriptions.push(channel);
          if (answersSubscriptions) {
            socket.write(`*3\r\n$9\r\nsubscribe\r\n$${channel.length}\r\n${channel}\r\n:1\r\n`);
          }
        }
      }
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: `redis://127.0.0.1:${(server.address() as AddressInfo).port}`,
    connections: () => sockets.length,
    subscriptions,
    loseConnections() {
      answersSubscriptions = false;
      for (const socket of sockets) socket.destroy();
    },
    close() {
      for (const socket of sockets) socket.destroy();
      server.close();
    },
  };
}

describe('the connection to Redis', () => {
  it('does not subscribe again by itself when it comes back, because a failure of that would end the server', async () => {
    const slow = await startSlowRedis();
    const { client, close } = await openRedis(slow.url, quietLog);
    try {
      await client.subscribe('news');
      slow.loseConnections();
      await eventually(
        () => client.status,
        (status) => status !== 'ready',
      );
      await eventually(
        () => client.status,
        (status) => status === 'ready',
      );
      await client.set('asked', 'after it').catch(() => undefined);
      expect(slow.connections()).to.equal(2);
      expect(slow.subscriptions).to.deep.equal(['news']);
    } finally {
      await close();
      slow.close();
    }
  });
});
