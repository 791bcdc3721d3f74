import { mkdtemp, rm } from 'node:fs/promises';
import { createServer, type Server, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { expect } from 'chai';
import { z } from 'zod';
import { QmpClient, QmpLost, QmpRefusal } from '../../../../../src/agent/os/qemu/qmp-client.ts';

/** The client of qemu's monitor, against monitors that answer as they like. */
describe('the client of a monitor', () => {
  const GREETING = { QMP: { version: { qemu: { major: 7, minor: 2, micro: 0 } }, capabilities: ['oob'] } };
  let folder: string;
  let server: Server | undefined;
  const sockets = new Set<Socket>();

  beforeEach(async () => {
    folder = await mkdtemp(path.join(tmpdir(), 'muster-qmp-'));
  });
  afterEach(async () => {
    for (const socket of sockets) socket.destroy();
    sockets.clear();
    await new Promise<void>((resolve) => {
      if (server === undefined) resolve();
      else server.close(() => resolve());
    });
    server = undefined;
    await rm(folder, { recursive: true, force: true });
  });

  type Command = { execute: string; id: number; arguments: object };
  /** A monitor that greets, and then calls `answer` for each command after the first one. */
  async function monitor(answer: (command: Command, socket: Socket) => void, greeting: unknown = GREETING) {
    const file = path.join(folder, 'qmp.sock');
    server = createServer((socket) => {
      sockets.add(socket);
      socket.on('error', () => {});
      if (greeting !== null) socket.write(`${JSON.stringify(greeting)}\r\n`);
      socket.on('data', (bytes) => {
        for (const line of bytes.toString().trim().split('\n')) {
          const command = JSON.parse(line) as Command;
          if (command.execute === 'qmp_capabilities') reply(socket, { id: command.id, return: {} });
          else answer(command, socket);
        }
      });
    });
    await new Promise<void>((resolve) => server?.listen(file, resolve));
    return file;
  }
  const reply = (socket: Socket, value: unknown) => socket.write(`${JSON.stringify(value)}\r\n`);
  const failure = (promise: Promise<unknown>) =>
    promise.then(
      () => expect.fail('it has succeeded'),
      (error: unknown) => error as Error,
    );

  it('sends commands with their arguments, and returns what each was answered, in any order', async () => {
    const waiting: Command[] = [];
    const file = await monitor((command, socket) => {
      waiting.push(command);
      if (waiting.length < 2) return;
      for (const each of waiting.reverse()) reply(socket, { id: each.id, return: each.arguments });
    });
    const client = await QmpClient.connect(file);
    const name = 'a "b", c\n$(d)';
    const answers = await Promise.all([client.execute('one', { name }), client.execute('two', { n: 2 })]);
    expect(answers).to.deep.equal([{ name }, { n: 2 }]);
    client.close();
  });

  it('offers events, also between a command and its answer', async () => {
    const events: string[] = [];
    const file = await monitor(({ id }, socket) => {
      reply(socket, { event: 'BLOCK_JOB_COMPLETED', data: { error: 'no room' }, timestamp: { seconds: 1 } });
      reply(socket, { id, return: {} });
    });
    const client = await QmpClient.connect(file, {
      onEvent: (event, data) => events.push(`${event} ${String(data['error'])}`),
    });
    await client.execute('query-jobs');
    expect(events).to.deep.equal(['BLOCK_JOB_COMPLETED no room']);
    client.close();
  });

  it('distinguishes a refusal from a lost monitor, and goes on after a refusal', async () => {
    const file = await monitor(({ id, execute }, socket) =>
      reply(
        socket,
        execute === 'wrong' ? { id, error: { class: 'GenericError', desc: 'not so' } } : { id, return: 1 },
      ),
    );
    const client = await QmpClient.connect(file);
    const refusal = await failure(client.execute('wrong'));
    expect(refusal).to.be.instanceOf(QmpRefusal);
    expect(refusal.message).to.contain('not so');
    expect(await client.execute('right')).to.equal(1);
    client.close();
  });

  it('rejects everything that waits when the monitor ends', async () => {
    const file = await monitor((_command, socket) => socket.destroy());
    const client = await QmpClient.connect(file);
    const [one, other] = await Promise.all([failure(client.execute('one')), failure(client.execute('two'))]);
    expect(one).to.be.instanceOf(QmpLost);
    expect(other).to.be.instanceOf(QmpLost);
    expect(await failure(client.execute('three'))).to.be.instanceOf(QmpLost);
  });

  it('rejects if nothing answers, a silent monitor included', async () => {
    expect(await failure(QmpClient.connect(path.join(folder, 'none.sock')))).to.be.instanceOf(QmpLost);
    const silent = await monitor(() => {}, null);
    expect(await failure(QmpClient.connect(silent, { connectMs: 50 }))).to.be.instanceOf(QmpLost);
  });

  it('gives up a monitor that greets and then never answers', async () => {
    const client = await QmpClient.connect(await monitor(() => {}), { commandMs: 50 });
    const lost = await failure(client.execute('query-status'));
    expect(lost).to.be.instanceOf(QmpLost);
    expect(lost.message).to.contain('query-status');
  });

  it('accepts no line without an end, no rubbish, and no answer of another shape', async () => {
    const endless = await monitor((_command, socket) => {
      const more = () => {
        if (!socket.destroyed) socket.write('x'.repeat(1_000_000), more);
      };
      more();
    });
    const first = await QmpClient.connect(endless);
    expect((await failure(first.execute('query-status'))).message).to.contain('more than');
    await new Promise<void>((resolve) => server?.close(() => resolve()));
    const rubbish = await monitor((_command, socket) => socket.write('<html>\n'));
    expect(await failure((await QmpClient.connect(rubbish)).execute('a'))).to.be.instanceOf(QmpLost);
    await new Promise<void>((resolve) => server?.close(() => resolve()));
    const other = await monitor(({ id }, socket) => reply(socket, { id, return: 'text' }));
    const client = await QmpClient.connect(other);
    expect(await failure(client.ask('query-status', z.object({ running: z.boolean() })))).to.be.instanceOf(
      QmpLost,
    );
    client.close();
  });

  it('accepts no greeting of another protocol', async () => {
    const file = await monitor(() => {}, { hello: 'there' });
    expect(await failure(QmpClient.connect(file))).to.be.instanceOf(QmpLost);
  });
});
