import { expect } from 'chai';
import { once } from 'node:events';
import type { Server } from 'node:http';
import { type AddressInfo, connect, type Socket } from 'node:net';
import { createHttpServer } from '../../../src/platform/http/http-server.ts';
import { eventually } from '../../support/eventually.ts';
import { testClock } from '../../support/test-clock.ts';

describe('the time that a request may take', () => {
  let server: Server;
  let client: Socket;
  let before: number;

  beforeEach(async () => {
    before = testClock.pending;
    server = createHttpServer({ headersMs: 60_000, requestMs: 60_000, checkEveryMs: 60_000 });
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    client = connect((server.address() as AddressInfo).port, '127.0.0.1');
  });
  afterEach(() => {
    client.destroy();
    server.closeAllConnections();
    server.close();
  });

  const none = async () =>
    eventually(
      () => testClock.pending,
      (pending) => pending === before,
    );
  const post = (body: string) =>
    client.write(`POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n${body}`);

  it('is measured until the body is there, on a connection that goes on', async () => {
    server.on('request', (request, response) => request.resume().once('end', () => response.end()));
    for (let turn = 0; turn < 3; turn += 1) {
      const asked = once(server, 'request');
      post('123');
      await asked;
      expect(testClock.pending).to.equal(before + 1);
      const answered = once(client, 'data');
      client.write('456789');
      await answered;
      expect(testClock.pending).to.equal(before);
    }
  });

  it('is not measured any more once the server has ended the connection of a request that was answered early', async () => {
    server.on('request', (_request, response) => response.writeHead(401).end());
    const answered = once(client, 'data');
    post('123');
    await answered;
    expect(testClock.pending, 'while the body may come').to.equal(before + 1);
    server.closeAllConnections();
    await none();
  });

  it('is not measured any more once the client has gone', async () => {
    server.on('request', (_request, response) => response.writeHead(401).end());
    const answered = once(client, 'data');
    post('123');
    await answered;
    client.destroy();
    await none();
  });
});
