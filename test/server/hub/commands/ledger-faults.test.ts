import { expect } from 'chai';
import { eventually } from '../../../support/eventually.ts';
import { buildDevice, buildTenant, type EnrolledDevice } from '../../../support/factories.ts';
import { connectDevice, type FakeDevice } from '../../../support/fake-device.ts';
import { startTcpProxy, type TcpProxy } from '../../../support/tcp-proxy.ts';
import { createTestApp, type TestApp } from '../../../support/test-app.ts';
import { asOwner, createTestDatabase, type TestDatabase } from '../../../support/test-postgres.ts';

const SCRIPT = { language: 'bash', content: 'true', timeoutSeconds: 60 };
const DONE = { exitCode: 0, stdout: '', stderr: '', truncated: false };

describe('a command during faults', () => {
  let database: TestDatabase;
  let proxy: TcpProxy;
  let app: TestApp;
  let token: string;
  let device: EnrolledDevice;
  let agents: FakeDevice[];

  /** A server that reaches the database through the proxy. */
  async function startServer(): Promise<TestApp> {
    const url = new URL(database.appUrl);
    url.port = String(proxy.port);
    return createTestApp({ database: { ...database, appUrl: url.href } });
  }
  beforeEach(async () => {
    database = await createTestDatabase();
    const { hostname, port } = new URL(database.appUrl);
    proxy = await startTcpProxy({ host: hostname, port: Number(port) });
    app = await startServer();
    const tenant = await buildTenant(app);
    token = tenant.admin.token;
    device = await buildDevice(app, tenant.orgId);
    await asOwner(database.ownerUrl, `update devices set capabilities = '{script.run}'`);
    agents = [];
  });
  afterEach(async () => {
    for (const agent of agents) agent.close();
    await app.close();
    await proxy.cut();
    await database.drop();
  });

  async function connect(options: Parameters<typeof connectDevice>[2] = {}): Promise<FakeDevice> {
    const agent = await connectDevice(app, device.token, options);
    agents.push(agent);
    return agent;
  }
  async function order(): Promise<string> {
    const { body } = await app.call('POST', `/devices/${device.deviceId}/commands`, {
      token,
      body: { type: 'script.run', payload: SCRIPT },
    });
    return body.id;
  }
  const read = async (id: string) => (await app.call('GET', `/commands/${id}`, { token })).body;
  const is = (id: string, status: string) =>
    eventually(
      () => read(id),
      (command) => command.status === status,
    );
  /** As the real agent: again and again, until the hub has it. */
  async function sendUntilKept(send: () => Promise<unknown>): Promise<number> {
    for (let tries = 1; ; tries++) {
      const answer = (await send().catch(() => undefined)) as { ok: boolean } | undefined;
      if (answer?.ok === true) return tries;
      await new Promise((resolve) => setTimeout(resolve, 200));
    }
  }
  const ends = async (id: string) =>
    asOwner<{ to_status: string }>(
      database.ownerUrl,
      `select to_status from command_transitions where command_id = $1
        and to_status in ('succeeded', 'failed', 'cancelled', 'timed_out', 'expired')`,
      [id],
    );

  it('keeps its result on the device while the database is unavailable, and has it afterwards', async () => {
    const agent = await connect();
    const id = await order();
    const frame = await agent.nextCommand();
    await is(id, 'accepted');
    await proxy.cut();
    let isKept = false;
    const kept = sendUntilKept(() => agent.succeed(frame, DONE)).then((tries) => {
      isKept = true;
      return tries;
    });
    await eventually(
      () => app.log,
      (lines) => lines.some(({ event }) => event === 'commands.not_recorded'),
    );
    expect(isKept).to.equal(false);
    await proxy.mend();
    await kept;
    expect((await is(id, 'succeeded')).output).to.deep.equal(DONE);
    expect(await ends(id)).to.have.length(1);
  }).timeout(120_000);

  it('continues on another server when one is lost: without a receipt it is sent again, with one its result is awaited', async () => {
    const mute = await connect({
      receipt: (frame) => (frame.attempt === 1 && frame.id === second ? undefined : { ok: true }),
    });
    let second = '';
    const first = await order();
    const accepted = await mute.nextCommand();
    await is(first, 'accepted');
    second = await order();
    await mute.nextCommand();
    await is(second, 'dispatched');
    await app.close();
    app = await startServer();
    const agent = await connect();
    const again = await agent.nextCommand();
    expect([again.id, again.attempt]).to.deep.equal([second, 2]);
    await sendUntilKept(() => agent.succeed(again, DONE));
    await sendUntilKept(() => agent.finish(accepted, { status: 'succeeded', output: DONE }));
    for (const id of [first, second]) {
      expect((await read(id)).status).to.equal('succeeded');
      expect(await ends(id)).to.have.length(1);
    }
    expect(agent.commands).to.deep.equal([]);
  });

  it('is sent although the connection to the database was lost between the commit and its answer', async () => {
    const agent = await connect();
    const marked = () =>
      asOwner<{ status: string }>(
        database.ownerUrl,
        `select status from commands where status = 'dispatched'`,
      );
    await asOwner(
      database.ownerUrl,
      `create function wait_at_commit() returns trigger language plpgsql as $$
        begin perform pg_sleep(1); return null; end $$;
      create constraint trigger wait_at_commit after update on commands deferrable initially deferred
        for each row when (new.status = 'dispatched') execute function wait_at_commit()`,
    );
    const id = await order();
    await eventually(
      () => asOwner(database.ownerUrl, `select 1 from pg_stat_activity where wait_event = 'PgSleep'`),
      ({ length }) => length > 0,
    );
    await proxy.cut();
    await eventually(marked, ({ length }) => length === 1);
    expect(agent.commands, 'nobody has sent it').to.deep.equal([]);
    await asOwner(database.ownerUrl, 'drop trigger wait_at_commit on commands');
    await proxy.mend();
    const frame = await agent.nextCommand();
    expect([frame.id, frame.attempt]).to.deep.equal([id, 2]);
    await sendUntilKept(() => agent.succeed(frame, DONE));
    expect(await ends(id)).to.have.length(1);
  });

  it('is taken by one connection only, however many connections a device has', async () => {
    const ids = [await order(), await order()];
    const many = await Promise.all(Array.from({ length: 6 }, () => connect().catch(() => undefined)));
    // The newest connection has the device; what an older one was sent without a receipt came to the newest again.
    const last = await eventually(
      () => many.filter((agent) => agent?.socket.connected === true),
      (left) => left.length === 1,
    );
    const frames = new Set(many.flatMap((agent) => agent?.commands ?? []).map(({ id }) => id));
    for (const id of ids) {
      await eventually(
        () => read(id),
        ({ status }) => status === 'accepted',
      );
      await sendUntilKept(
        () => last[0]?.finish({ id, epoch: 1 }, { status: 'succeeded', output: DONE }) ?? Promise.reject(),
      );
      expect(await ends(id)).to.have.length(1);
    }
    expect(frames.size).to.be.within(0, 2);
  });
});
