import { expect } from 'chai';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { byteBody } from '../../../src/platform/http/stream-answer.ts';

describe('a body of bytes that its reader leaves half-way', () => {
  let server: Server;
  let read = 0;
  const refuse = async (request: IncomingMessage, response: ServerResponse) => {
    for await (const piece of byteBody(request, 1e9).pieces) {
      read += piece.length;
      break;
    }
    // As long as it takes to remove what was written.
    await sleep(50);
    response.statusCode = 507;
    response.end('full');
  };
  before(async () => {
    server = createServer((request, response) => void refuse(request, response));
    // Idle connections are closed by the test alone, so that it sees which ones are.
    server.keepAliveTimeout = 600_000;
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  });
  after(() => server.closeAllConnections());

  it('keeps neither the client from its answer nor the connection', async function () {
    this.timeout(120_000);
    const { port } = server.address() as AddressInfo;
    const answer = await fetch(`http://127.0.0.1:${port}/`, {
      method: 'PUT',
      headers: { 'x-content-sha256': 'a'.repeat(64) },
      body: new Uint8Array(20 << 20),
    });
    expect([answer.status, await answer.text()]).to.deep.equal([507, 'full']);
    expect(read).to.be.lessThan(1 << 20);
    const closed = once(server, 'close').then(() => 'closed');
    server.close();
    // The client may have its answer while the last of the body still arrives; the connection is idle only afterwards.
    const closing = setInterval(() => server.closeIdleConnections(), 20);
    try {
      expect(await Promise.race([closed, sleep(30_000, undefined, { ref: false })])).to.equal('closed');
    } finally {
      clearInterval(closing);
    }
  });
});
