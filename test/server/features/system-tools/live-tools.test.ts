import { expect } from 'chai';
import { SYSTEM_ROLES } from '../../../../src/features/users/index.ts';
import type { MachineProcess } from '../../../../src/protocol/index.ts';
import { eventually } from '../../../support/eventually.ts';
import { buildDevice, buildPerson, buildTenant, type EnrolledDevice } from '../../../support/factories.ts';
import { connectDevice, type FakeDevice } from '../../../support/fake-device.ts';
import { sharedTestApp, type TestApp } from '../../../support/test-app.ts';
import { entriesOf } from '../audit/reading-support.ts';

const STARTED_AT = '2026-11-20T10:00:00.000Z';
const PYTHON: MachineProcess = {
  pid: 4711,
  parentPid: 1,
  name: 'python3',
  commandLine: 'python3 /srv/job.py --all',
  user: 'www-data',
  cpuPercent: 12.5,
  memoryBytes: 73_400_320,
  startedAt: STARTED_AT,
  state: 'running',
};
const NGINX = { name: 'nginx', displayName: 'A web server', state: 'running', startMode: 'automatic' };
const ENDED = { outcome: 'ended', name: 'python3', user: 'www-data', graceSeconds: 5 };

describe('the live processes and services of a device', () => {
  let app: TestApp;
  let tenant: Awaited<ReturnType<typeof buildTenant>>;
  let device: EnrolledDevice;
  let agent: FakeDevice;
  let token: string;

  before(async () => {
    app = await sharedTestApp();
    tenant = await buildTenant(app);
    token = tenant.technician.token;
  });
  after(async () => app.close());
  beforeEach(async () => {
    device = await buildDevice(app, tenant.orgId);
    agent = await connectDevice(app, device.token);
    await agent.heartbeat();
  });
  afterEach(() => agent.close());

  const call = (method: string, path: string, { by = token, of = device.deviceId, body }: Call = {}) =>
    app.call(method, `/system-tools/devices/${of}${path}`, {
      token: by,
      ...(body === undefined ? {} : { body }),
    });
  interface Call {
    by?: string;
    of?: string;
    body?: unknown;
  }
  const end = (
    pid: number | string = PYTHON.pid,
    body: unknown = { startedAt: STARTED_AT },
    more: Call = {},
  ) => call('POST', `/processes/${pid}/end`, { body, ...more });
  const control = (name: string, action: string, more: Call = {}) =>
    call('POST', `/services/${encodeURIComponent(name)}/${action}`, more);
  const audited = async (action: string) =>
    (await entriesOf(app, action)).filter(({ resource_id: id }) => id === device.deviceId);

  it('are listed as the device streams them, with how many there are', async () => {
    const answering = call('GET', '/processes');
    const frame = await agent.nextCommand();
    expect([frame.type, frame.payload]).to.deep.equal(['processes.list', {}]);
    await agent.rows(frame, [PYTHON], 0);
    await agent.rows(frame, [{ pid: 1, name: 'systemd', isProtected: true }], 1);
    await agent.succeed(frame, { total: 4200 });
    const { status, body } = await answering;
    expect(status).to.equal(200);
    expect(body.data).to.deep.equal([PYTHON, { pid: 1, name: 'systemd', isProtected: true }]);
    expect(body.meta).to.deep.include({ total: 4200 });
    expect(Date.parse(body.meta.readAt)).to.be.within(Date.now() - 60_000, Date.now() + 1000);

    const listing = call('GET', '/services');
    const asked = await agent.nextCommand();
    expect(asked.type).to.equal('services.list');
    await agent.rows(asked, [NGINX]);
    await agent.succeed(asked, { manager: 'systemd', total: 1 });
    const services = await listing;
    expect(services.body.data).to.deep.equal([NGINX]);
    expect(services.body.meta).to.deep.include({ manager: 'systemd', total: 1 });
  });

  it('are a read of the device in the audit trail, one entry for readings soon after one another', async () => {
    for (let time = 0; time < 2; time += 1) {
      const answering = call('GET', '/processes');
      await agent.succeed(await agent.nextCommand(), { total: 0 });
      await answering;
    }
    const entries = await audited('data.access');
    expect(entries.map(({ details }) => details)).to.deep.equal([{ how: 'live', what: 'processes' }]);
  });

  it('are what technicians act on, and the trail has what was ended and how', async () => {
    const ending = end();
    const frame = await agent.nextCommand();
    expect([frame.type, frame.payload]).to.deep.equal([
      'processes.end',
      { pid: 4711, startedAt: STARTED_AT },
    ]);
    await agent.succeed(frame, { ...ENDED, outcome: 'killed' });
    const { status, body } = await ending;
    expect([status, body]).to.deep.equal([200, { pid: 4711, ...ENDED, outcome: 'killed' }]);
    const [entry] = await audited('device.process.end');
    expect(entry).to.deep.include({
      result: 'success',
      org_id: tenant.orgId,
      details: {
        pid: 4711,
        name: 'python3',
        user: 'www-data',
        startedAt: STARTED_AT,
        graceSeconds: 5,
        before: { state: 'running' },
        after: { state: 'killed' },
      },
    });
  });

  it('include services, which are started, stopped and restarted', async () => {
    for (const [action, before, after] of [
      ['start', 'stopped', 'running'],
      ['stop', 'running', 'stopping'],
      ['restart', 'running', 'running'],
    ] as const) {
      const answering = control('getty@tty1', action);
      const frame = await agent.nextCommand();
      expect([frame.type, frame.payload]).to.deep.equal(['services.control', { name: 'getty@tty1', action }]);
      await agent.succeed(frame, { before, after });
      const { status, body } = await answering;
      expect([status, body]).to.deep.equal([200, { name: 'getty@tty1', action, before, after }]);
      const [entry] = await audited(`device.service.${action}`);
      expect(entry?.['details']).to.deep.equal({
        service: 'getty@tty1',
        before: { state: before },
        after: { state: after },
      });
    }
  });

  it('can be listed by a viewer, who ends and controls nothing; the trail has the refusals', async () => {
    const viewer = await buildPerson(app, {
      scope: 'organization',
      orgId: tenant.orgId,
      role: SYSTEM_ROLES.organizationViewer,
    });
    const answering = call('GET', '/processes', { by: viewer.token });
    await agent.succeed(await agent.nextCommand(), { total: 0 });
    expect((await answering).status).to.equal(200);
    for (const refused of [
      await end(4711, { startedAt: STARTED_AT }, { by: viewer.token }),
      await control('nginx', 'stop', { by: viewer.token }),
    ]) {
      expect([refused.status, refused.body.code]).to.deep.equal([403, 'FORBIDDEN']);
    }
    expect(agent.commands).to.deep.equal([]);
    const denials = (await entriesOf(app, 'device.process.end')).filter(({ result }) => result === 'denied');
    expect(denials.some(({ actor_id: id }) => id === viewer.id)).to.equal(true);
  });

  it('of other tenants do not exist, and nothing reaches their devices', async () => {
    const stranger = await buildTenant(app);
    const by = stranger.admin.token;
    for (const answer of [
      await call('GET', '/processes', { by }),
      await call('GET', '/services', { by }),
      await end(4711, { startedAt: STARTED_AT }, { by }),
      await control('nginx', 'restart', { by }),
      await call('GET', '/processes', { of: 'not-a-uuid' }),
    ]) {
      expect([answer.status, answer.body.code]).to.deep.equal([404, 'NOT_FOUND']);
    }
    expect(agent.commands).to.deep.equal([]);
    expect(await audited('device.process.end')).to.deep.equal([]);
  });

  it('are refused at once by a device that is not connected, or too old', async () => {
    agent.close();
    const answer = await eventually(
      () => call('GET', '/processes'),
      ({ body }) => body.code === 'DEVICE_OFFLINE',
    );
    expect(answer.status).to.equal(409);
    const acting = await control('nginx', 'start');
    expect([acting.status, acting.body.code]).to.deep.equal([409, 'DEVICE_OFFLINE']);
    // Nothing was done, and nothing waits for the device.
    expect(await audited('device.service.start')).to.deep.equal([]);

    agent = await connectDevice(app, device.token, { capabilities: ['eventlogs.list'], bootId: 'boot-2' });
    await agent.heartbeat();
    for (const old of [await call('GET', '/services'), await end()]) {
      expect([old.status, old.body.code]).to.deep.equal([409, 'CAPABILITY_MISSING']);
    }
    expect(agent.commands).to.deep.equal([]);
  });

  it('are refused by the machine in its own words, which the trail keeps', async () => {
    for (const [code, status, wire] of [
      ['PROCESS_NOT_FOUND', 404, 'NOT_FOUND'],
      ['PROCESS_REPLACED', 409, 'CONFLICT'],
      ['PROCESS_PROTECTED', 409, 'CONFLICT'],
      ['FAILED', 502, 'DEVICE_ERROR'],
    ] as const) {
      const ending = end(1);
      await agent.fail(await agent.nextCommand(), code, `It said ${code}.`);
      const answer = await ending;
      expect([answer.status, answer.body.code], code).to.deep.equal([status, wire]);
      expect(answer.body.details).to.deep.equal({ code, message: `It said ${code}.` });
    }
    for (const [code, status] of [
      ['SERVICE_NOT_FOUND', 404],
      ['SERVICE_PROTECTED', 409],
    ] as const) {
      const stopping = control('muster-agent', 'stop');
      await agent.fail(await agent.nextCommand(), code, 'No.');
      expect((await stopping).status).to.equal(status);
    }
    const failures = await audited('device.process.end');
    expect(failures.map(({ result, error_message: message }) => [result, message])).to.deep.equal(
      ['PROCESS_NOT_FOUND', 'PROCESS_REPLACED', 'PROCESS_PROTECTED', 'FAILED'].map((code) => [
        'failure',
        `It said ${code}.`,
      ]),
    );
  });

  it('that may have been changed before the connection ended are in the trail, and the answer says that it is not known', async () => {
    const restarting = control('nginx', 'restart');
    await agent.nextCommand();
    agent.socket.disconnect();
    const answer = await restarting;
    expect([answer.status, answer.body.code]).to.deep.equal([409, 'DEVICE_OFFLINE']);
    expect(answer.body.error).to.include('not known');
    const [entry] = await audited('device.service.restart');
    expect(entry).to.deep.include({
      result: 'failure',
      details: { service: 'nginx', code: 'DEVICE_OFFLINE' },
    });
  });

  it('of a device that does not answer are given up after 30 seconds; what it answers later changes nothing', async () => {
    const stopping = control('nginx', 'stop');
    const frame = await agent.nextCommand();
    await app.advance(31_000);
    const answer = await stopping;
    expect([answer.status, answer.body.code]).to.deep.equal([504, 'DEVICE_TIMEOUT']);
    expect(answer.body.error).to.include('not known');
    await eventually(
      () => agent.cancelled,
      (ids) => ids.includes(frame.id),
    );
    await agent.succeed(frame, { before: 'running', after: 'stopped' });
    const entries = await audited('device.service.stop');
    expect(entries.map(({ result, details }) => [result, details])).to.deep.equal([
      ['failure', { service: 'nginx', code: 'DEVICE_TIMEOUT' }],
    ]);
  });

  it('are ended although the client has gone, so that the trail has it', async () => {
    const client = new AbortController();
    const ending = app
      .call('POST', `/system-tools/devices/${device.deviceId}/processes/4711/end`, {
        token,
        body: { startedAt: STARTED_AT },
        signal: client.signal,
      })
      .catch(() => 'gone');
    const frame = await agent.nextCommand();
    client.abort();
    expect(await ending).to.equal('gone');
    await agent.succeed(frame, ENDED);
    const [entry] = await eventually(
      () => audited('device.process.end'),
      (entries) => entries.length === 1,
    );
    expect(entry).to.deep.include({ result: 'success' });
    expect(agent.cancelled).to.deep.equal([]);
  });

  it('have names that reach the device as names and nothing else', async () => {
    for (const name of ['; rm -rf /', '--force', '$(reboot)', '../../x', 'a b', 'Zeitgeber ü']) {
      const stopping = control(name, 'stop');
      const frame = await agent.nextCommand();
      expect(frame.payload).to.deep.equal({ name, action: 'stop' });
      await agent.fail(frame, 'SERVICE_NOT_FOUND', 'There is no such service.');
      expect((await stopping).status, name).to.equal(404);
    }
    for (const answer of [
      await control('x'.repeat(5000), 'stop'),
      await control('a\0b', 'stop'),
      await control('nginx', 'disable'),
      await end(0),
      await end(-1),
      await end('1e3'),
      await end('99999999999'),
    ]) {
      expect(answer.status).to.equal(404);
    }
    expect(agent.commands).to.deep.equal([]);
  });

  it('are ended by their start, which the request has to name', async () => {
    for (const body of [{}, { startedAt: 'yesterday' }, { startedAt: STARTED_AT, force: true }, []]) {
      const answer = await end(4711, body);
      expect([answer.status, answer.body.code]).to.deep.equal([400, 'VALIDATION_FAILED']);
    }
    expect(agent.commands).to.deep.equal([]);
  });

  it('are not believed from a device that has gone bad', async () => {
    const outcomeOf = async (send: (frame: Awaited<ReturnType<FakeDevice['nextCommand']>>) => unknown) => {
      const answering = call('GET', '/processes');
      await send(await agent.nextCommand());
      const { status, body } = await answering;
      return [status, body.details?.code];
    };
    expect(await outcomeOf((frame) => agent.succeed(frame, { total: 'many' }))).to.deep.equal([
      502,
      'INVALID_OUTPUT',
    ]);
    for (const row of [{ pid: 0, name: 'x' }, { pid: 1.5, name: 'x' }, { pid: 7 }, 'x', null]) {
      expect(await outcomeOf((frame) => agent.rows(frame, [row]))).to.deep.equal([502, 'INVALID_ROWS']);
    }
    const many = Array.from({ length: 100 }, (_, at) => ({ pid: at + 1, name: 'x' }));
    expect(
      await outcomeOf(async (frame) => {
        for (let part = 0; part <= 10; part += 1) await agent.rows(frame, many, part);
      }),
    ).to.deep.equal([502, 'TOO_MANY_ROWS']);
    // Texts are cut and made safe, whatever their length.
    const answering = call('GET', '/processes');
    const frame = await agent.nextCommand();
    await agent.rows(frame, [
      { pid: 1, name: `a\n\u202Eb${'c'.repeat(900)}`, commandLine: 'd'.repeat(90_000) },
    ]);
    await agent.succeed(frame, { total: 1 });
    const [shown] = (await answering).body.data;
    expect(shown.name)
      .to.match(/^a\uFFFD\uFFFDb/)
      .and.to.have.length(200);
    expect(shown.commandLine).to.have.length(1000);
  });

  it('end the connection of a device that answers with a megabyte', async () => {
    const ending = end();
    const frame = await agent.nextCommand();
    agent
      .finish(frame, { status: 'succeeded', output: { ...ENDED, name: 'x'.repeat(1_100_000) } })
      .catch(() => {});
    const answer = await ending;
    expect([answer.status, answer.body.code]).to.deep.equal([502, 'DEVICE_ERROR']);
    expect(answer.body.details.message).to.include('which ended its connection');
    expect((await audited('device.process.end'))[0]).to.deep.include({ result: 'failure' });
  });

  it('are answered by the device that was asked, and by no other, and once', async () => {
    const other = await buildDevice(app, tenant.orgId);
    const foreign = await connectDevice(app, other.token);
    await foreign.heartbeat();
    const ending = end();
    const frame = await agent.nextCommand();
    await foreign.finish(frame, { status: 'succeeded', output: { ...ENDED, name: 'forged' } });
    await agent.succeed(frame, ENDED);
    // A second answer is late, and changes nothing.
    await agent.succeed(frame, { ...ENDED, name: 'late' });
    expect((await ending).body.name).to.equal('python3');
    expect(await audited('device.process.end')).to.have.length(1);
    foreign.close();
  });
});
