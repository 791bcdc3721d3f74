import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { expect } from 'chai';
import { io } from 'socket.io-client';
import { WebSocket } from 'ws';
import { OneWriteServer } from '../../src/hub/one-write-socket.ts';
import { SharedLists } from '../../src/hub/shared-lists.ts';
import { HUB_PATH } from '../../src/protocol/index.ts';
import { buildDevice, buildTenant } from '../support/factories.ts';
import { createTestApp } from '../support/test-app.ts';

describe('coming in', () => {
  it('keeps one copy of a list that many say', () => {
    const lists = new SharedLists();
    const first = lists.shared(['a', 'b']);
    expect(lists.shared(['a', 'b'])).to.equal(first);
    expect(lists.shared(['a,b'])).to.deep.equal(['a,b']);
    for (let other = 0; other < 300; other++) lists.shared([String(other)]);
    expect(lists.shared(['a', 'b'])).to.not.equal(first);
  });
});

describe('a websocket that writes in one piece', () => {
  it('sends what ws would send, of every length and kind', async () => {
    const http = createServer();
    const server = new OneWriteServer({ server: http });
    http.listen(0, '127.0.0.1');
    await once(http, 'listening');
    const client = new WebSocket(`ws://127.0.0.1:${(http.address() as AddressInfo).port}`);
    const accepted = once(server, 'connection') as Promise<[WebSocket]>;
    await once(client, 'open');
    const [socket] = await accepted;
    const heard: (string | Buffer)[] = [];
    client.on('message', (data: Buffer, isBinary) => heard.push(isBinary ? data : data.toString()));
    const texts = [0, 1, 125, 126, 127, 65_535, 65_536, 100_000].map((length) => 'x'.repeat(length));
    const sent = [...texts, 'naïve – 日本 🙂', Buffer.from([0, 1, 255]), '\ud800'];
    await Promise.all(sent.map((data) => new Promise<void>((resolve) => socket.send(data, () => resolve()))));
    socket.close();
    await once(client, 'close');
    expect(heard).to.deep.equal([...sent.slice(0, -1), '\ufffd']);
    server.close();
    http.close();
  });
});

describe('a connection of an agent', () => {
  it('is none for a person beside it', async () => {
    const app = await createTestApp();
    const tenant = await buildTenant(app);
    const device = await buildDevice(app, tenant.orgId);
    const options = { path: HUB_PATH, transports: ['websocket'], reconnection: false };
    const agent = io(`${app.url}/agents`, {
      ...options,
      auth: { token: device.token, protocol: 1, agentVersion: '1.0.0', capabilities: [], bootId: 'boot-1' },
    });
    await new Promise<void>((resolve) => agent.once('connect', resolve));
    // The same manager: a second namespace on one connection.
    const person = agent.io.socket('/dashboard', { auth: { token: tenant.admin.token } });
    const error = await new Promise<Error>((resolve, reject) => {
      person.once('connect_error', resolve);
      person.once('connect', () => reject(new Error('it was let in')));
      person.connect();
    });
    expect(error.message).to.equal("This connection is an agent's. Open another one.");
    expect(
      await agent
        .timeout(2000)
        .emitWithAck('heartbeat', { at: new Date().toISOString(), agentVersion: '1.0.0' }),
    ).to.include({ ok: true });
    agent.disconnect();
    await app.close();
  });
});
