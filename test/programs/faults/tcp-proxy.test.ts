import { once } from 'node:events';
import { type AddressInfo, connect, createServer } from 'node:net';
import { expect } from 'chai';
import { eventually } from '../../support/eventually.ts';
import { startTcpProxy } from '../../support/tcp-proxy.ts';

describe('the proxy that makes a link slow', () => {
  it('keeps the order of what is sent while the delay begins and ends, and loses nothing at the end', async () => {
    let received = '';
    const server = createServer((socket) => socket.on('data', (bytes) => (received += bytes.toString())));
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    const { port } = server.address() as AddressInfo;
    const proxy = await startTcpProxy({ host: '127.0.0.1', port });
    const client = connect(proxy.port, '127.0.0.1');
    await once(client, 'connect');
    const lines = Array.from({ length: 30 }, (_value, index) => `line ${index}\n`);
    for (const [index, line] of lines.entries()) {
      proxy.slow(index % 10 < 5 ? 50 : 0);
      client.write(line);
      await new Promise((resolve) => setTimeout(resolve, 2));
    }
    client.end();
    await eventually(
      () => received.length,
      (length) => length === lines.join('').length,
    );
    expect(received).to.equal(lines.join(''));
    client.destroy();
    await proxy.cut();
    server.close();
  });
});
