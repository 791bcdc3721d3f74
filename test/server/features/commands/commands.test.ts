import { expect } from 'chai';
import type { CommandFrame } from '../../../../src/protocol/index.ts';
import { SYSTEM_ROLES } from '../../../../src/features/users/index.ts';
import { newId } from '../../../../src/platform/ids.ts';
import { eventually } from '../../../support/eventually.ts';
import { buildDevice, buildPerson, buildTenant, type EnrolledDevice } from '../../../support/factories.ts';
import { connectDevice, type FakeDevice } from '../../../support/fake-device.ts';
import { type Answer, sharedTestApp, type TestApp } from '../../../support/test-app.ts';
import { testClock } from '../../../support/test-clock.ts';
import { asOwner } from '../../../support/test-postgres.ts';

const SCRIPT = { language: 'bash', content: 'echo done', timeoutSeconds: 60 };
const DONE = { exitCode: 0, stdout: 'done\n', stderr: '', truncated: false };

describe('commands', () => {
  let app: TestApp;
  let tenant: Awaited<ReturnType<typeof buildTenant>>;
  let device: EnrolledDevice;
  let agents: FakeDevice[];
  before(async () => {
    app = await sharedTestApp();
    tenant = await buildTenant(app);
  });
  after(async () => app.close());
  beforeEach(async () => {
    agents = [];
    device = await buildDevice(app, tenant.orgId);
    // What an agent can do, the server knows once it was connected.
    await known(device);
  });
  afterEach(() => {
    for (const agent of agents) agent.close();
  });

  const token = () => tenant.admin.token;
  const owner = (sql: string, values?: unknown[]) => asOwner(app.database.ownerUrl, sql, values);
  async function known({ deviceId }: EnrolledDevice) {
    await owner(
      `update devices set capabilities = '{script.run,agent.set-auto-update,agent.refresh-inventory,agent.reboot}'
      where id = $1`,
      [deviceId],
    );
  }
  async function connect(options: Parameters<typeof connectDevice>[2] = {}): Promise<FakeDevice> {
    const agent = await connectDevice(app, device.token, options);
    agents.push(agent);
    return agent;
  }
  const order = (body: object = {}, headers: Record<string, string> = {}): Promise<Answer> =>
    app.call('POST', `/devices/${device.deviceId}/commands`, {
      token: token(),
      headers,
      body: { type: 'script.run', payload: SCRIPT, ...body },
    });
  const read = async (id: string) => (await app.call('GET', `/commands/${id}`, { token: token() })).body;
  const ended = (id: string, status: string) =>
    eventually(
      () => read(id),
      (command) => command.status === status,
    );
  const steps = (command: { transitions: { to: string }[] }) => command.transitions.map(({ to }) => to);

  it('are sent to a device that is there, and end with what it says', async () => {
    const agent = await connect();
    const made = await order();
    expect(made.status).to.equal(202);
    expect(made.body).to.include({
      type: 'script.run',
      status: 'queued',
      deviceId: device.deviceId,
      attempt: 0,
    });
    const frame = await agent.nextCommand();
    expect(frame).to.include({ id: made.body.id, type: 'script.run', attempt: 1 });
    expect(frame.payload).to.deep.equal(SCRIPT);
    await ended(frame.id, 'accepted');
    await agent.send('command:progress', { id: frame.id, seq: 0, phase: 'running', percent: 50 });
    expect((await ended(frame.id, 'running')).progress).to.deep.equal({ phase: 'running', percent: 50 });
    expect(await agent.succeed(frame, DONE)).to.deep.equal({ ok: true });
    // The receipt of a result is given when it is in the ledger.
    const command = await read(frame.id);
    expect(command).to.deep.include({
      status: 'succeeded',
      output: DONE,
      error: null,
      waitsForDevice: false,
    });
    expect(steps(command)).to.deep.equal(['queued', 'dispatched', 'accepted', 'running', 'succeeded']);
    expect(command.finishedAt).to.be.a('string');
  });

  it('wait for a device that is away, say so, and come in the order they were made', async () => {
    const made = [
      await order(),
      await order({ type: 'agent.refresh-inventory', payload: {} }),
      await order(),
    ];
    expect(made.map(({ body }) => [body.status, body.waitsForDevice])).to.deep.equal(
      made.map(() => ['queued', true]),
    );
    const agent = await connect();
    const [first, second] = [await agent.nextCommand(), await agent.nextCommand()];
    expect([first.id, second.id]).to.deep.equal([made[0]?.body.id, made[1]?.body.id]);
    // No more than a device works on at once: the third comes when one of these has ended.
    await ended(second.id, 'accepted');
    expect((await read(made[2]?.body.id)).status).to.equal('queued');
    await agent.fail(first, 'FAILED', 'No shell.');
    expect((await agent.nextCommand()).id).to.equal(made[2]?.body.id);
    expect(await read(first.id)).to.deep.include({
      status: 'failed',
      error: { code: 'FAILED', message: 'No shell.' },
    });
  });

  it('are sent again under their id if no receipt came, and never once they were accepted', async () => {
    const silent = await connect({ receipt: () => undefined });
    const { body } = await order();
    expect((await silent.nextCommand()).attempt).to.equal(1);
    silent.close();
    const agent = await connect();
    const again = await agent.nextCommand();
    expect(again).to.include({ id: body.id, attempt: 2 });
    await ended(body.id, 'accepted');
    agent.close();
    const back = await connect();
    // The result of work that was accepted under an earlier claim counts.
    await back.finish(again, { status: 'succeeded', output: DONE });
    const command = await read(body.id);
    expect(steps(command)).to.deep.equal(['queued', 'dispatched', 'dispatched', 'accepted', 'succeeded']);
    expect(back.commands).to.deep.equal([]);
  });

  it('end once, however often and by whomever a result is told', async () => {
    const agent = await connect();
    const stranger = await buildDevice(app, tenant.orgId);
    const other = await connectDevice(app, stranger.token);
    agents.push(other);
    const { body } = await order();
    const frame = await agent.nextCommand();
    expect(
      await other.finish(frame, { status: 'failed', error: { code: 'X', message: 'Not mine.' } }),
    ).to.deep.equal({ ok: true });
    expect((await read(body.id)).status).to.be.oneOf(['dispatched', 'accepted']);
    await Promise.all([
      agent.succeed(frame, DONE),
      agent.succeed(frame, DONE),
      agent.finish({ ...frame, epoch: 1 }, { status: 'failed', error: { code: 'X', message: 'Second.' } }),
    ]);
    await agent.fail(frame, 'LATER');
    const command = await read(body.id);
    expect(command).to.include({ status: 'succeeded', error: null, lateResult: null });
    expect(steps(command).filter((to) => to === 'succeeded')).to.have.length(1);
    // Nothing is known of these, and nobody has to send them again.
    for (const id of [newId(), 'no-uuid']) {
      expect(await agent.finish({ id, epoch: 1 }, { status: 'succeeded', output: {} })).to.deep.equal({
        ok: true,
      });
    }
  });

  it('fail if the agent refuses them, cannot do them, or answers in another form', async () => {
    const refusing = await connect({
      receipt: () => ({ ok: false, error: { code: 'STORE_UNAVAILABLE', message: 'The disk is full.' } }),
    });
    const refused = (await order()).body.id;
    expect((await ended(refused, 'failed')).error).to.deep.equal({
      code: 'STORE_UNAVAILABLE',
      message: 'The disk is full.',
    });
    refusing.close();
    const odd = (await order()).body.id;
    const agent = await connect();
    await agent.succeed(await agent.nextCommand(), { exitCode: 'zero' });
    expect((await read(odd)).error).to.include({ code: 'INVALID_OUTPUT' });
    agent.close();
    const unable = (await order()).body.id;
    await connect({ capabilities: ['eventlogs.list'] });
    expect((await ended(unable, 'failed')).error).to.include({ code: 'CAPABILITY_MISSING' });
    // From now on it is known before anything is queued.
    await eventually(order, ({ status }) => status === 409);
    expect((await order()).body.code).to.equal('CAPABILITY_MISSING');
  });

  it('wait again, and come again, if the agent has too much to do', async () => {
    const agent = await connect({
      receipt: ({ attempt }) =>
        attempt === 1 ? { ok: false, error: { code: 'BUSY', message: 'Later.' } } : { ok: true },
    });
    const { id } = (await order()).body;
    await agent.nextCommand();
    await eventually(
      () => read(id),
      ({ transitions }) => transitions.length >= 3,
    );
    // The dispatcher looks again after some seconds.
    await testClock.advance(5000);
    const frame = await agent.nextCommand();
    expect([frame.id, frame.attempt]).to.deep.equal([id, 2]);
    const accepted = await ended(id, 'accepted');
    // Anything that wakes the dispatcher sends it again at once, so a request may never find it waiting.
    expect(steps(accepted)).to.deep.equal(['queued', 'dispatched', 'queued', 'dispatched', 'accepted']);
    expect(accepted.transitions[2].reason).to.equal('device_busy');
    await agent.succeed(frame, DONE);
    await ended(id, 'succeeded');
  }).timeout(120_000);

  it('change nothing by what is said of them after their end', async () => {
    const agent = await connect();
    const { id } = (await order()).body;
    const frame = await agent.nextCommand();
    await agent.fail(frame, 'FAILED');
    await ended(id, 'failed');
    await agent.send('command:progress', { id, seq: 9, phase: 'running', percent: 50 });
    await agent.rows(frame, [{ stream: 'stdout', text: 'late' }]);
    await agent.succeed(frame, DONE);
    await agent.heartbeat();
    const command = await read(id);
    expect([command.status, command.progress, command.output]).to.deep.equal(['failed', null, null]);
    expect(command.transitions.at(-1).to).to.equal('failed');
  });

  it('are cancelled at once before they are sent, and by the device after that', async () => {
    const cancel = (id: string) => app.call('POST', `/commands/${id}/cancel`, { token: token() });
    const early = (await order()).body.id;
    expect((await cancel(early)).body).to.include({ status: 'cancelled', reason: 'not_sent' });
    expect((await cancel(early)).status).to.equal(409);

    const agent = await connect();
    const stopped = (await order()).body.id;
    const frame = await agent.nextCommand();
    await ended(stopped, 'accepted');
    expect((await cancel(stopped)).body).to.include({ status: 'accepted' });
    await eventually(
      () => agent.cancelled,
      (ids) => ids.includes(stopped),
    );
    await agent.finish(frame, { status: 'cancelled' });
    expect(await read(stopped)).to.include({ status: 'cancelled' });

    // Asked of a device that is away: it hears of it when it comes back, and what it had done by then is done.
    const finished = (await order()).body.id;
    const done = await agent.nextCommand();
    await ended(finished, 'accepted');
    agent.close();
    expect((await cancel(finished)).body.cancelRequestedAt).to.be.a('string');
    const back = await connect();
    await eventually(
      () => back.cancelled,
      (ids) => ids.includes(finished),
    );
    await back.succeed(done, DONE);
    expect(await read(finished)).to.include({ status: 'succeeded' });
    expect(back.commands).to.deep.equal([]);
  });

  it('end by themselves when their time is over, and a late result is kept as what it is', async () => {
    const waited = (await order({ ttlSeconds: 60 })).body.id;
    await owner('update commands set expires_at = now() where id = $1', [waited]);
    await app.settle();
    const expired = await read(waited);
    expect(expired.status).to.equal('expired');
    expect(steps(expired)).to.deep.equal(['queued', 'expired']);

    const agent = await connect();
    const slow = (await order()).body.id;
    const frame = await agent.nextCommand();
    await ended(slow, 'accepted');
    await owner('update commands set due_at = now() where id = $1', [slow]);
    await app.settle();
    const over = await read(slow);
    expect([over.status, over.reason]).to.deep.equal(['timed_out', 'no_result']);
    await agent.succeed(frame, DONE);
    const command = await read(slow);
    expect(command).to.include({ status: 'timed_out', output: null });
    expect(command.lateResult).to.deep.include({ status: 'succeeded', output: DONE });
    expect(agent.commands).to.deep.equal([]);
  });

  it('are made once for one Idempotency-Key, also by requests at the same time', async () => {
    const headers = { 'idempotency-key': newId() };
    const answers = await Promise.all(Array.from({ length: 8 }, () => order({}, headers)));
    expect(new Set(answers.map(({ status }) => status))).to.deep.equal(new Set([202]));
    expect(new Set(answers.map(({ body }) => body.id)).size).to.equal(1);
    const listed = await app.call('GET', `/devices/${device.deviceId}/commands`, { token: token() });
    expect(listed.body.pagination.total).to.equal(1);
    const other = await order({ ttlSeconds: 60 }, headers);
    expect([other.status, other.body.code]).to.deep.equal([409, 'CONFLICT']);
    // Somebody else's key is another key.
    const colleague = await buildPerson(app, { scope: 'organization', orgId: tenant.orgId });
    const theirs = await app.call('POST', `/devices/${device.deviceId}/commands`, {
      token: colleague.token,
      headers,
      body: { type: 'script.run', payload: SCRIPT },
    });
    expect(theirs.status).to.equal(202);
    expect(theirs.body.id).not.to.equal(answers[0]?.body.id);
    const bad = await order({}, { 'idempotency-key': 'with blank' });
    expect([bad.status, bad.body.details[0].path]).to.deep.equal([400, 'headers.idempotency-key']);
  });

  it('are refused in every field that is wrong, and without the permission', async () => {
    const wrong = await order({
      payload: { language: 'perl', content: '', timeoutSeconds: 0 },
      ttlSeconds: 0,
    });
    expect(wrong.status).to.equal(400);
    expect(wrong.body.details.map(({ path }: { path: string }) => path)).to.include('body.ttlSeconds');
    const payload = await order({ payload: { language: 'perl', content: '', timeoutSeconds: 0 } });
    expect(payload.body.details.map(({ path }: { path: string }) => path)).to.deep.equal([
      'body.payload.language',
      'body.payload.content',
      'body.payload.timeoutSeconds',
    ]);
    expect((await order({ type: 'eventlogs.list', payload: {} })).body.details[0].path).to.equal('body.type');

    const stranger = await buildTenant(app);
    const foreign = await app.call('POST', `/devices/${device.deviceId}/commands`, {
      token: stranger.admin.token,
      body: { type: 'script.run', payload: SCRIPT },
    });
    expect(foreign.status).to.equal(404);
    const { id } = (await order()).body;
    for (const [method, path] of [
      ['GET', `/commands/${id}`],
      ['POST', `/commands/${id}/cancel`],
      ['GET', `/devices/${device.deviceId}/commands`],
    ] as const) {
      expect((await app.call(method, path, { token: stranger.admin.token })).status, path).to.equal(404);
    }
    const roles = await app.call('POST', '/roles', {
      token: token(),
      body: {
        name: `Hands ${newId()}`,
        scope: 'organization',
        permissions: ['devices:read', 'devices:execute'],
      },
    });
    const hands = await buildPerson(app, { scope: 'organization', orgId: tenant.orgId, role: roles.body.id });
    const script = await app.call('POST', `/devices/${device.deviceId}/commands`, {
      token: hands.token,
      body: { type: 'script.run', payload: SCRIPT },
    });
    expect([script.status, script.body.error]).to.deep.equal([
      403,
      'This needs the permission scripts:execute.',
    ]);
    await owner(`update organizations set status = 'suspended' where id = $1`, [tenant.orgId]);
    expect((await order()).status).to.equal(403);
    await owner(`update organizations set status = 'active' where id = $1`, [tenant.orgId]);
  });

  it('show the input of a script only to people who may run scripts', async () => {
    const { id } = (await order({ payload: { ...SCRIPT, parameters: { password: 'hunter2' } } })).body;
    expect((await read(id)).payload.parameters).to.deep.equal({ password: 'hunter2' });
    const viewer = await buildPerson(app, {
      scope: 'organization',
      orgId: tenant.orgId,
      role: SYSTEM_ROLES.organizationViewer,
    });
    const { body } = await app.call('GET', `/commands/${id}`, { token: viewer.token });
    expect([body.id, body.payload]).to.deep.equal([id, null]);
    expect(JSON.stringify([body, app.log])).not.to.contain('hunter2');
  });

  it('stand in the audit trail', async () => {
    const { id } = (await order()).body;
    await app.server.chainWriter.flush();
    const rows = await owner(
      `select action, resource_id, details from audit_logs where action = 'device.command' and details ->> 'commandId' = $1`,
      [id],
    );
    expect(rows).to.deep.equal([
      {
        action: 'device.command',
        resource_id: device.deviceId,
        details: { commandId: id, type: 'script.run' },
      },
    ]);
  });

  it('go to many devices that connect at once, in few statements, and none is lost', async () => {
    const fleet = await Promise.all(Array.from({ length: 30 }, () => buildDevice(app, tenant.orgId)));
    await Promise.all(fleet.map(known));
    const ids = await Promise.all(
      fleet.map(async ({ deviceId }) => {
        const made = await app.call('POST', `/devices/${deviceId}/commands`, {
          token: token(),
          body: { type: 'script.run', payload: SCRIPT },
        });
        return made.body.id as string;
      }),
    );
    const frames = await Promise.all(
      fleet.map(async (one): Promise<[FakeDevice, CommandFrame]> => {
        const agent = await connectDevice(app, one.token);
        agents.push(agent);
        return [agent, await agent.nextCommand()];
      }),
    );
    await Promise.all(frames.map(([agent, frame]) => agent.succeed(frame, DONE)));
    for (const id of ids) expect((await read(id)).status).to.equal('succeeded');
  });
});
