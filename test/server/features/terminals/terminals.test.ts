import { expect } from 'chai';
import jwt from 'jsonwebtoken';
import { SYSTEM_ROLES } from '../../../../src/features/users/index.ts';
import { withSystem } from '../../../../src/platform/db/transaction.ts';
import { newId } from '../../../../src/platform/ids.ts';
import {
  type CommandFrame,
  type TerminalClosed,
  type TerminalControl,
  type TerminalOutput,
  TERMINAL_INPUT_WINDOW,
  TERMINAL_WINDOW,
} from '../../../../src/protocol/index.ts';
import { connectDashboard, type DashboardClient } from '../../../support/dashboard-client.ts';
import { eventually } from '../../../support/eventually.ts';
import {
  buildDevice,
  buildPerson,
  buildTenant,
  type EnrolledDevice,
  giveSecondFactor,
  type Person,
} from '../../../support/factories.ts';
import { connectDevice, type FakeDevice } from '../../../support/fake-device.ts';
import { createTestApp, type TestApp } from '../../../support/test-app.ts';

const SIZE = { cols: 80, rows: 24 };

describe('a terminal of a device', () => {
  let app: TestApp;
  let tenant: Awaited<ReturnType<typeof buildTenant>>;
  let device: EnrolledDevice;
  let agent: FakeDevice;
  let controls: TerminalControl[];
  let person: Person;
  let dashboard: DashboardClient;
  let open: { close(): void }[];

  before(async () => {
    app = await createTestApp();
  });
  after(async () => app.close());
  beforeEach(async () => {
    open = [];
    tenant = await buildTenant(app);
    device = await buildDevice(app, tenant.orgId);
    [agent, controls] = await connectAgent(device);
    person = await giveSecondFactor(app, tenant.technician);
    await allow(true);
    dashboard = await connect(person);
  });
  afterEach(async () => {
    for (const one of open) one.close();
    await app.settle();
  });

  async function connectAgent({ token }: EnrolledDevice): Promise<[FakeDevice, TerminalControl[]]> {
    const fake = await connectDevice(app, token);
    const heard: TerminalControl[] = [];
    fake.socket.on('terminal:control', (control: TerminalControl, ack: (answer: unknown) => void) => {
      heard.push(control);
      ack({ ok: true });
    });
    open.push(fake);
    await fake.heartbeat();
    return [fake, heard];
  }

  async function connect({ token }: Person): Promise<Client> {
    const client = await connectDashboard(app, token);
    open.push(client);
    const outputs: TerminalOutput[] = [];
    const closed: TerminalClosed[] = [];
    client.socket.on('terminal:data', (output: TerminalOutput) => outputs.push(output));
    client.socket.on('terminal:close', (message: TerminalClosed) => closed.push(message));
    return { ...client, outputs, closed };
  }
  type Client = DashboardClient & { outputs: TerminalOutput[]; closed: TerminalClosed[] };

  const query = (sql: string, values: unknown[] = []) =>
    withSystem(app.server.database.pool, 'test', async (tx) => (await tx.raw(sql, values as string[])).rows);

  async function allow(enabled: boolean, orgId = tenant.orgId) {
    const admin = await giveSecondFactor(app, tenant.admin);
    const answer = await app.call('PUT', `/orgs/organizations/${orgId}/terminals`, {
      token: admin.token,
      body: { enabled },
    });
    expect(answer.status, JSON.stringify(answer.body)).to.equal(200);
  }

  /** Opens a terminal; the device shows it at once. */
  async function opened(client: DashboardClient = dashboard, from = agent) {
    const asked = client.send('terminal:open', { deviceId: device.deviceId, ...SIZE });
    const frame = await from.nextCommand();
    await attach(frame, 0, from);
    const answer = await asked;
    expect(answer.ok, JSON.stringify(answer)).to.equal(true);
    return { frame, answer, terminalId: answer.terminalId as string };
  }

  const attach = (frame: CommandFrame, offset: number, from = agent) =>
    from.rows(frame, [{ kind: 'attached', mode: 'pty', shell: '/bin/bash', notice: 'nobody', offset }]);
  const show = (frame: CommandFrame, offset: number, data: string, received = 0) =>
    agent.rows(frame, [{ kind: 'output', offset, data, received }]);
  const refusal = async (client: DashboardClient, deviceId = device.deviceId) =>
    (await client.send('terminal:open', { deviceId, ...SIZE })).error?.code;
  const ends = (list: TerminalClosed[]) =>
    eventually(
      () => list.at(0),
      (closed) => closed !== undefined,
    );
  const entries = async (action: string) => {
    await app.settle();
    return query('select * from audit_logs where action = ? and resource_id = ? order by timestamp', [
      action,
      device.deviceId,
    ]);
  };
  const client = () => dashboard as Client;
  /** The same access token, which expires in a second. */
  const shortLived = (token: string) =>
    jwt.sign(
      { ...(jwt.verify(token, app.jwtSecret) as object), exp: Math.floor(Date.now() / 1000 + 0.4) + 1 },
      app.jwtSecret,
    );

  it('carries input and output, and records the output only', async () => {
    const { frame, terminalId } = await opened();
    expect(frame.payload).to.include({ isNew: true, cols: 80, terminalId });
    await dashboard.send('terminal:data', { terminalId, data: 'echo hunter2\r' });
    await eventually(
      () => controls.some(({ input }) => input === 'echo hunter2\r'),
      (isThere) => isThere,
    );
    await show(frame, 0, 'prompt$ ', 13);
    await eventually(
      () =>
        client()
          .outputs.map(({ data }) => data)
          .join(''),
      (text) => text === 'prompt$ ',
    );
    expect(client().outputs.at(-1)).to.include({ terminalId, offset: 0, received: 13 });
    await dashboard.send('terminal:resize', { terminalId, cols: 100, rows: 30 });
    await dashboard.send('terminal:close', { terminalId });
    await eventually(
      () => controls.some(({ end }) => end === true),
      (isThere) => isThere,
    );
    await agent.succeed(frame, { reason: 'closed', exitCode: null });
    expect(await ends(client().closed)).to.include({ reason: 'closed', canContinue: false });

    const path = `/devices/${device.deviceId}/terminal-recordings`;
    const list = await eventually(
      () => app.call('GET', path, { token: person.token }),
      ({ body }) => body.data?.[0]?.endReason === 'closed',
    );
    expect(list.body.data[0]).to.include({ id: terminalId, userId: person.id, characters: 8 });
    const cast = await app.call('GET', `${path}/${terminalId}/cast`, { token: person.token });
    expect(cast.status).to.equal(200);
    const [header, ...events] = String(cast.body)
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line));
    expect(header).to.include({ version: 2, width: 80, height: 24 });
    expect(events.map(([, code, text]) => [code, text])).to.deep.equal([
      ['r', '80x24'],
      ['o', 'prompt$ '],
      ['r', '100x30'],
    ]);
    expect(String(cast.body)).not.to.include('hunter2');
    const [part] = await query('select content from terminal_parts where terminal_id = ?', [terminalId]);
    expect(part.content.toString('latin1')).not.to.include('prompt');

    const [begin] = await entries('device.terminal.open');
    const [end] = await entries('device.terminal.close');
    expect(begin).to.include({ actor_id: person.id, org_id: tenant.orgId });
    expect(end.details).to.include({ terminalId, reason: 'closed' });
    expect(await entries('data.access')).to.have.length(1);
  });

  it('stays closed without the permission, the second factor, the switch, or the device', async () => {
    const viewer = await giveSecondFactor(
      app,
      await buildPerson(app, {
        scope: 'organization',
        orgId: tenant.orgId,
        role: SYSTEM_ROLES.organizationViewer,
      }),
    );
    expect(await refusal(await connect(viewer))).to.equal('FORBIDDEN');
    const plain = await buildPerson(app, { scope: 'organization', orgId: tenant.orgId });
    expect(await refusal(await connect(plain))).to.equal('MFA_REQUIRED');
    const stranger = await buildTenant(app);
    await giveSecondFactor(app, stranger.admin);
    const foreign = await connect(stranger.admin);
    expect(await refusal(foreign)).to.equal('NOT_FOUND');
    expect(await refusal(dashboard, newId())).to.equal('NOT_FOUND');
    await query(`update sessions set created_at = now() - interval '16 minutes' where user_id = ?`, [
      person.id,
    ]);
    expect(await refusal(dashboard)).to.equal('MFA_REQUIRED');
    await query('update sessions set mfa_at = now() where user_id = ?', [person.id]);
    await allow(false);
    expect(await refusal(dashboard)).to.equal('FORBIDDEN');
    expect(agent.commands).to.deep.equal([]);
    const denied = await entries('device.terminal.open');
    expect(
      denied.map(({ result, details }: { result: string; details: { code: string } }) => [
        result,
        details.code,
      ]),
    ).to.deep.equal([
      ['denied', 'FORBIDDEN'],
      ['denied', 'MFA_REQUIRED'],
      ['denied', 'MFA_REQUIRED'],
      ['denied', 'FORBIDDEN'],
    ]);
    expect(await query('select from terminals where device_id = ?', [device.deviceId])).to.deep.equal([]);
  });

  it('is opened by people of every scope', async () => {
    for (const one of [tenant.admin, await buildPerson(app, { scope: 'system' })]) {
      const { terminalId } = await opened(await connect(await giveSecondFactor(app, one)));
      const list = await app.call('GET', `/devices/${device.deviceId}/terminal-recordings`, {
        token: one.token,
      });
      expect(list.body.data[0].id).to.equal(terminalId);
    }
  });

  it('is no concern of an API key', async () => {
    const created = await app.call('POST', '/api-keys', {
      token: person.token,
      body: { orgId: tenant.orgId, name: 'Key', scopes: ['devices:read', 'devices:terminal'] },
    });
    expect(created.status, JSON.stringify(created.body)).to.equal(201);
    const key = await connect({ ...person, token: created.body.key });
    expect(await refusal(key)).to.equal('FORBIDDEN');
  });

  it('ends when the organization forbids terminals', async () => {
    const { terminalId } = await opened();
    await allow(false);
    expect(await ends(client().closed)).to.include({ terminalId, reason: 'switched_off' });
    expect(controls.some(({ end }) => end === true)).to.equal(true);
  });

  for (const [what, lose] of Object.entries<() => Promise<unknown>>({
    'the person is disabled': () =>
      app.call('PATCH', `/users/${person.id}`, { token: tenant.admin.token, body: { status: 'disabled' } }),
    'the session ends': () => query('update sessions set revoked_at = now() where user_id = ?', [person.id]),
    'the role is a lesser one': () =>
      app.call('POST', `/users/${person.id}/role`, {
        token: tenant.admin.token,
        body: { roleId: SYSTEM_ROLES.organizationViewer },
      }),
  })) {
    it(`ends when ${what}`, async () => {
      const { frame, terminalId } = await opened();
      await lose();
      await eventually(
        () => controls.some(({ end }) => end === true),
        (isEnded) => isEnded,
      );
      await agent.succeed(frame, { reason: 'closed', exitCode: null });
      const [row] = await eventually(
        () => query('select * from terminals where id = ?', [terminalId]),
        ([found]) => found.ended_at !== null,
      );
      expect(row.end_reason).to.equal('access_ended');
    });
  }

  it('cannot be continued in another organization, to which the device has moved', async () => {
    const { terminalId, answer } = await opened();
    const other = await app.call('POST', '/orgs/organizations', {
      token: tenant.admin.token,
      body: { name: 'Other', slug: `other-${newId()}` },
    });
    const site = await app.call('POST', '/orgs/sites', {
      token: tenant.admin.token,
      body: { orgId: other.body.id, name: 'Site' },
    });
    await allow(true, other.body.id);
    const moved = await app.call('POST', `/devices/${device.deviceId}/move`, {
      token: tenant.admin.token,
      body: { orgId: other.body.id, siteId: site.body.id },
    });
    expect(moved.status, JSON.stringify(moved.body)).to.equal(200);
    await ends(client().closed);
    const admin = await connect(tenant.admin);
    for (const one of [client(), admin]) {
      const again = await one.send('terminal:open', {
        deviceId: device.deviceId,
        terminalId,
        resumeToken: answer.resumeToken,
        ...SIZE,
      });
      expect(again.error?.code).to.equal('NOT_FOUND');
    }
  });

  it('is continued by its person after a lost connection, without another second factor', async () => {
    const { frame, terminalId, answer } = await opened();
    await show(frame, 0, 'one ');
    await eventually(
      () => client().outputs.length,
      (count) => count > 0,
    );
    dashboard.close();
    await query(`update sessions set created_at = now() - interval '1 hour' where user_id = ?`, [person.id]);
    const again = await connect(person);
    const ask = { deviceId: device.deviceId, terminalId, after: 4, ...SIZE };
    expect((await again.send('terminal:open', { ...ask, resumeToken: 'wrong' })).error.code).to.equal(
      'MFA_REQUIRED',
    );
    const colleague = await giveSecondFactor(
      app,
      await buildPerson(app, { scope: 'organization', orgId: tenant.orgId }),
    );
    const stolen = await (await connect(colleague)).send('terminal:open', {
      ...ask,
      resumeToken: answer.resumeToken,
    });
    expect(stolen.error.code).to.equal('NOT_FOUND');
    const asked = again.send('terminal:open', { ...ask, resumeToken: answer.resumeToken });
    const next = await agent.nextCommand();
    expect(next.payload).to.include({ isNew: false, terminalId });
    expect((next.payload as { after: number }).after).to.be.at.most(4);
    await agent.rows(next, [
      { kind: 'attached', mode: 'pty', shell: '/bin/bash', notice: 'nobody', offset: 0 },
      { kind: 'output', offset: 0, data: 'one two', received: 0 },
    ]);
    expect(await asked).to.include({ ok: true, offset: 4 });
    await eventually(
      () => again.outputs.map(({ data }) => data).join(''),
      (text) => text === 'two',
    );
    // The old token was good for once.
    again.close();
    const third = await connect(person);
    const reused = await third.send('terminal:open', { ...ask, resumeToken: answer.resumeToken });
    expect(reused.error.code).to.equal('MFA_REQUIRED');
  });

  it('stops where the client confirms nothing, and a device that goes on regardless loses it', async () => {
    const { frame, terminalId } = await opened();
    const part = 'x'.repeat(32_000);
    for (let offset = 0; offset < TERMINAL_WINDOW; offset += part.length) await show(frame, offset, part);
    await app.settle();
    expect(Math.max(0, ...controls.map(({ taken = 0 }) => taken))).to.equal(0);
    await dashboard.send('terminal:data', { terminalId, taken: 64_000 });
    await eventually(
      () => controls.at(-1)?.taken,
      (taken) => taken === 64_000,
    );
    for (let offset = TERMINAL_WINDOW; offset < TERMINAL_WINDOW + 96_000; offset += part.length) {
      await show(frame, offset, part);
    }
    expect(await ends(client().closed)).to.include({ reason: 'protocol_violation' });
    expect(agent.socket.connected).to.equal(true);
  });

  for (const [what, rows] of Object.entries<unknown[]>({
    'more in one row than is allowed': [{ kind: 'output', offset: 0, data: 'x'.repeat(32_001), received: 0 }],
    'what is no row': [{ kind: 'nonsense' }],
    'a confirmation of input that nobody typed': [{ kind: 'output', offset: 0, data: '', received: 5 }],
    'a second beginning': [
      { kind: 'attached', mode: 'pty', shell: 'sh', notice: 'nobody', offset: 9 },
      { kind: 'output', offset: 0, data: 'x', received: 0 },
    ],
  })) {
    it(`is lost to a device that sends ${what}`, async () => {
      const { frame } = await opened();
      await agent.rows(frame, rows);
      const closed = await ends(client().closed);
      expect(['protocol_violation', 'disconnected']).to.include(closed?.reason);
      await agent.rows(frame, [{ kind: 'output', offset: 0, data: 'late', received: 0 }]);
      await app.settle();
      expect(client().outputs.map(({ data }) => data)).not.to.include('late');
    });
  }

  it('ignores what is repeated, and is interrupted by what is missing', async () => {
    const { frame } = await opened();
    await show(frame, 0, 'abc');
    await show(frame, 0, 'abc');
    await show(frame, 2, 'cde');
    await eventually(
      () =>
        client()
          .outputs.map(({ data }) => data)
          .join(''),
      (text) => text === 'abcde',
    );
    await show(frame, 100, 'z');
    expect(await ends(client().closed)).to.include({ reason: 'disconnected', canContinue: true });
  });

  it('is answered by its own device only', async () => {
    const { frame } = await opened();
    const other = await buildDevice(app, tenant.orgId);
    const [intruder] = await connectAgent(other);
    await intruder.rows(frame, [{ kind: 'output', offset: 0, data: 'forged', received: 0 }]);
    await intruder.finish(frame, { status: 'succeeded', output: { reason: 'exited', exitCode: 0 } });
    await app.settle();
    expect(client().outputs).to.deep.equal([]);
    expect(client().closed).to.deep.equal([]);
  });

  it('refuses input that no program reads', async () => {
    const { terminalId } = await opened();
    const part = 'y'.repeat(16_000);
    for (let sent = 0; sent + part.length <= TERMINAL_INPUT_WINDOW; sent += part.length) {
      expect((await dashboard.send('terminal:data', { terminalId, data: part })).ok).to.equal(true);
    }
    const over = await dashboard.send('terminal:data', { terminalId, data: part });
    expect(over.error.code).to.equal('DEVICE_BUSY');
  });

  it('exists in a limited number for each device and each person', async () => {
    const room: string[] = [];
    for (let count = 0; count < 4; count++) room.push((await opened()).terminalId);
    expect(await refusal(dashboard)).to.equal('RATE_LIMITED');
    const second = await buildDevice(app, tenant.orgId);
    const [fake] = await connectAgent(second);
    const another = await connect(person);
    for (let count = 0; count < 4; count++) {
      const asked = another.send('terminal:open', { deviceId: second.deviceId, ...SIZE });
      await attach(await fake.nextCommand(), 0, fake);
      expect((await asked).ok).to.equal(true);
    }
    const third = await buildDevice(app, tenant.orgId);
    await connectAgent(third);
    expect(await refusal(another, third.deviceId)).to.equal('RATE_LIMITED');
  });

  it('that is opened a hundred times at once is opened four times', async () => {
    agent.socket.removeAllListeners('command');
    agent.socket.on('command', (frame: CommandFrame, ack: (answer: unknown) => void) => {
      ack({ ok: true });
      void attach(frame, 0);
    });
    const clients = await Promise.all(Array.from({ length: 5 }, () => connect(person)));
    const answers = await Promise.all(
      clients.flatMap((one) =>
        Array.from({ length: 20 }, () => one.send('terminal:open', { deviceId: device.deviceId, ...SIZE })),
      ),
    );
    expect(answers.filter(({ ok }) => ok)).to.have.length(4);
  });

  it('is checked again and again, also if no change was announced', async () => {
    const { frame, terminalId } = await opened();
    await query(`update devices set condition = 'pending' where id = ?`, [device.deviceId]);
    await app.advance(16_000);
    await eventually(
      () => controls.some(({ end }) => end === true),
      (isEnded) => isEnded,
    );
    await agent.succeed(frame, { reason: 'closed', exitCode: null });
    expect(await ends(client().closed)).to.include({ terminalId, reason: 'device_lost' });
  });

  it('is left, and not ended, when the access token of the connection expires', async () => {
    dashboard = await connect({ ...person, token: shortLived(person.token) });
    const { frame, terminalId, answer } = await opened();
    await eventually(
      () => dashboard.socket.connected,
      (isConnected) => !isConnected,
    );
    await app.advance(4000);
    await eventually(
      () => agent.cancelled.includes(frame.id),
      (isLeft) => isLeft,
    );
    expect(controls.some(({ end }) => end === true)).to.equal(false);
    const again = await connect(person);
    const { resumeToken } = answer;
    const asked = again.send('terminal:open', {
      deviceId: device.deviceId,
      terminalId,
      resumeToken,
      ...SIZE,
    });
    await attach(await agent.nextCommand(), 0);
    expect((await asked).ok).to.equal(true);
  });

  it('that a connection continues twice at once is continued once, and ends with the rights of its person', async () => {
    const { terminalId } = await opened();
    dashboard.close();
    const again = await connect(person);
    const ask = { deviceId: device.deviceId, terminalId, ...SIZE };
    const both = [again.send('terminal:open', ask), again.send('terminal:open', ask)];
    await attach(await agent.nextCommand(), 0);
    const answers = await Promise.all(both);
    expect(answers.map(({ ok, error }) => error?.code ?? ok)).to.have.members([true, 'CONFLICT']);
    await query(`update devices set condition = 'pending' where id = ?`, [device.deviceId]);
    await app.advance(16_000);
    expect(await ends(again.closed)).to.include({ terminalId, reason: 'device_lost' });
    expect(again.closed).to.have.length(1);
  });

  it('ends after eight hours, however often it was continued', async () => {
    const { terminalId } = await opened();
    await query(`update terminals set opened_at = now() - interval '8 hours' where id = ?`, [terminalId]);
    await app.advance(16_000);
    expect(await ends(client().closed)).to.include({ terminalId, reason: 'too_long' });
    await eventually(
      () => controls.some(({ end }) => end === true),
      (isEnded) => isEnded,
    );
  });

  it('ends on the device when the right to it ends while it is being opened', async () => {
    void dashboard.send('terminal:open', { deviceId: device.deviceId, ...SIZE }).catch(() => undefined);
    const frame = await agent.nextCommand();
    await query(`update sessions set revoked_at = now() where user_id = ?`, [person.id]);
    await eventually(
      () => dashboard.socket.connected,
      (isConnected) => !isConnected,
    );
    await attach(frame, 0);
    await eventually(
      () => controls.some(({ id, end }) => id === frame.id && end === true),
      (isEnded) => isEnded,
    );
  });

  it('that no server has seen for a while has ended, and cannot be continued', async () => {
    const { terminalId, answer } = await opened();
    dashboard.close();
    await app.advance(4000);
    await query(`update terminals set seen_at = now() - interval '8 minutes' where id = ?`, [terminalId]);
    await query(`update job_schedules set next_at = now() where name = 'terminals.end-unseen'`);
    await app.settle();
    const [row] = await eventually(
      () => query('select * from terminals where id = ?', [terminalId]),
      ([found]) => found.ended_at !== null,
    );
    expect(row.end_reason).to.equal('unattended');
    const [entry] = await entries('device.terminal.close');
    expect(entry.details).to.include({ terminalId, reason: 'unattended' });
    const { resumeToken } = answer;
    const again = await connect(person);
    const late = await again.send('terminal:open', {
      deviceId: device.deviceId,
      terminalId,
      resumeToken,
      ...SIZE,
    });
    expect(late.error.code).to.equal('NOT_FOUND');
  });

  it('is told of a device that does not have it', async () => {
    agent.close();
    await eventually(
      () => app.server.hub.live(device.deviceId)?.isConnected,
      (isConnected) => isConnected !== true,
    );
    expect(await refusal(dashboard)).to.equal('DEVICE_OFFLINE');
    const [row] = await query('select * from terminals where device_id = ?', [device.deviceId]);
    expect(row.end_reason).to.equal('not_started');
  });
});
