import http from 'node:http';
import net, { type AddressInfo } from 'node:net';
import { expect } from 'chai';
import { recoveryCheckHandlers } from '../../../../src/agent/capabilities/recovery-checks.ts';
import type { CommandPayload } from '../../../../src/protocol/index.ts';
import { eventually } from '../../../support/eventually.ts';
import { useTestClock } from '../../../support/use-test-clock.ts';

describe('checks of a recovery plan on a device', () => {
  const testClock = useTestClock();
  const servers: (http.Server | net.Server)[] = [];
  const listen = async (server: http.Server | net.Server): Promise<number> => {
    servers.push(server);
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    return (server.address() as AddressInfo).port;
  };
  afterEach(() => {
    for (const server of servers.splice(0)) {
      if ('closeAllConnections' in server) server.closeAllConnections();
      server.close();
    }
  });

  type Check = CommandPayload<'recovery.check'>['check'];
  const begin = (check: Check, timeoutSeconds: number, signal = new AbortController().signal) => {
    const handler = recoveryCheckHandlers()['recovery.check'];
    if (typeof handler !== 'function') throw new Error('the handler is a function');
    return handler({ check, timeoutSeconds }, { signal } as Parameters<typeof handler>[1]);
  };
  /** The outcome of a check, while time passes quickly for it. */
  const inTime = async <T>(checked: Promise<T>): Promise<T> => {
    let isOver = false;
    const over = checked.finally(() => (isOver = true));
    await eventually(
      async () => {
        await testClock.advance(200);
        return isOver;
      },
      (is) => is,
    );
    return over;
  };
  const run = (check: Check) => inTime(begin(check, 3));
  const site = () =>
    http.createServer((request, response) => {
      response.statusCode = request.url === '/broken' ? 503 : request.url === '/moved' ? 302 : 200;
      response.setHeader('location', 'http://10.0.0.1/elsewhere');
      response.end('all is well');
    });

  it('say that the expected text may follow in what they do not read', async () => {
    const long = http.createServer((_request, response) => response.end('x'.repeat(100_000) + 'well'));
    const check = { type: 'http', host: '127.0.0.1', port: await listen(long), secure: false } as const;
    expect(await run({ ...check, path: '/', contains: 'well' })).to.deep.include({
      passed: false,
      message: 'It answered with status 200, without the expected text in the first 65536 bytes.',
    });
  });

  it('pass if a service answers as expected, and say what it answered if not', async () => {
    const port = await listen(site());
    const host = '127.0.0.1';
    const get = { type: 'http', host, port, secure: false } as const;
    expect(await run({ type: 'tcp', host, port })).to.include({ passed: true, attempts: 1 });
    expect(await run({ ...get, path: '/', contains: 'well' })).to.include({ passed: true });
    expect(await run({ ...get, path: '/broken', expectStatus: 503 })).to.include({ passed: true });
    // A redirect is an answer, and nothing follows it.
    expect(await run({ ...get, path: '/moved' })).to.include({ passed: true });
    const bad = await run({ ...get, path: '/broken' });
    expect(bad).to.include({ passed: false, message: 'It answered with status 503.' });
    expect((await run({ ...get, path: '/', contains: 'ill' })).message).to.contain(
      'without the expected text',
    );
    expect((await run({ ...get, path: '/', secure: true })).passed).to.equal(false);
  });

  it('are repeated until the service is there', async () => {
    const port = await listen(site());
    const [server] = servers.splice(0);
    await new Promise((resolve) => server?.close(resolve));
    const checked = begin({ type: 'tcp', host: '127.0.0.1', port }, 10);
    const late = site();
    servers.push(late);
    await new Promise<void>((resolve) => late.listen(port, '127.0.0.1', resolve));
    expect(await inTime(checked)).to.include({ passed: true });
  });

  it('end in time if a service says nothing, and at once if they are cancelled', async () => {
    const silent = await listen(net.createServer(() => {}));
    const check = { type: 'http', host: '127.0.0.1', port: silent, path: '/', secure: false } as const;
    expect(await run(check)).to.include({ passed: false, attempts: 1 });
    const stop = new AbortController();
    const cancelled = begin(check, 3600, stop.signal);
    stop.abort();
    const error = await cancelled.catch((reason: unknown) => reason);
    expect(error).to.include({ code: 'CANCELLED' });
  });
});
