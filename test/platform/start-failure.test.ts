import { expect } from 'chai';
import { createServer } from 'node:http';
import { createHttpServer, listen } from '../../src/platform/http/server/http-server.ts';
import { startFailureText } from '../../src/start-failure.ts';

describe('a start that fails at the address to listen on', () => {
  const failureAt = async (host: string, port = 0) => {
    const server = createHttpServer();
    try {
      await listen(server, { host, port });
    } catch (error) {
      return startFailureText(error);
    } finally {
      server.close();
    }
    return 'no failure';
  };

  it('blames HOST where the name is not known or the address is another machine’s', async () => {
    for (const host of ['no-such-host.invalid', '203.0.113.1']) {
      expect(await failureAt(host), host)
        .to.include('HOST')
        .and.include(host)
        .and.not.include('DATABASE');
    }
  });

  it('blames PORT where that is taken', async () => {
    const other = createServer();
    const url = await listen(other, { host: '127.0.0.1', port: 0 });
    const { port } = new URL(url);
    try {
      expect(await failureAt('127.0.0.1', Number(port))).to.include(`Port ${port} on 127.0.0.1 is taken`);
    } finally {
      other.close();
    }
  });

  it('blames the database for what fails there', () => {
    const error = Object.assign(new Error('getaddrinfo ENOTFOUND db.invalid'), { code: 'ENOTFOUND' });
    expect(startFailureText(error)).to.include('DATABASE_URL');
  });
});
