import { expect } from 'chai';
import { SYSTEM_ROLES } from '../../../../src/features/users/index.ts';
import { newId } from '../../../../src/platform/ids.ts';
import {
  buildDevice,
  buildOrganization,
  buildPerson,
  buildSite,
  buildTenant,
  type EnrolledDevice,
} from '../../../support/factories.ts';
import { connectDevice } from '../../../support/fake-device.ts';
import { sharedTestApp, type TestApp } from '../../../support/test-app.ts';
import { asOwner } from '../../../support/test-postgres.ts';

const SCRIPT = { name: 'Clean up', language: 'bash', content: 'rm -rf "$PARAM_FOLDER"' };

describe('scripts', () => {
  let app: TestApp;
  let tenant: Awaited<ReturnType<typeof buildTenant>>;
  let stranger: Awaited<ReturnType<typeof buildTenant>>;
  let device: EnrolledDevice;
  before(async () => {
    app = await sharedTestApp();
    tenant = await buildTenant(app);
    stranger = await buildTenant(app);
    device = await able(tenant.orgId);
  });
  after(async () => app.close());

  const call = (method: string, path: string, body?: unknown, token = tenant.admin.token) =>
    app.call(method, path, { token, ...(body === undefined ? {} : { body }) });
  const owner = (sql: string, values?: unknown[]) => asOwner(app.database.ownerUrl, sql, values);
  async function able(orgId: string, machine: Record<string, unknown> = {}): Promise<EnrolledDevice> {
    const made = await buildDevice(app, orgId, machine);
    await owner(`update devices set capabilities = '{script.run}' where id = $1`, [made.deviceId]);
    return made;
  }

  it('are made, read, changed and deleted, each noted', async () => {
    const made = await call('POST', '/scripts', {
      ...SCRIPT,
      orgId: tenant.orgId,
      osTypes: ['linux', 'linux'],
    });
    expect(made.status).to.equal(201);
    expect(made.body).to.deep.include({
      ...SCRIPT,
      orgId: tenant.orgId,
      partnerId: null,
      osTypes: ['linux'],
    });
    expect(made.body.timeoutSeconds).to.equal(300);
    const path = `/scripts/${made.body.id}`;
    expect((await call('GET', path)).body).to.deep.equal(made.body);
    const changed = await call('PATCH', path, { content: 'true', description: null });
    expect(changed.body).to.deep.include({ content: 'true', name: SCRIPT.name });
    expect((await call('PATCH', path, {})).body.error).to.equal('no fields provided');
    expect((await call('PATCH', path, { timeoutSeconds: 0, osTypes: ['beos'] })).body.details).to.have.length(
      2,
    );
    const listed = await call('GET', `/scripts?orgId=${tenant.orgId}&language=bash&search=CLEAN`);
    expect(listed.body.data.map(({ id }: { id: string }) => id)).to.deep.equal([made.body.id]);
    expect((await call('GET', '/scripts?language=python')).body.data).to.deep.equal([]);
    expect((await call('DELETE', path)).body).to.deep.equal({ success: true });
    expect((await call('GET', path)).status).to.equal(404);
    await app.server.chainWriter.flush();
    const trail = await owner(
      `select action, org_id from audit_logs where resource_id = $1 order by "timestamp", action`,
      [made.body.id],
    );
    expect(trail).to.have.deep.members(
      ['script.create', 'script.update', 'script.delete'].map((action) => ({ action, org_id: tenant.orgId })),
    );
  });

  it('ask each run for the parameters that they declare', async () => {
    const { body: script } = await call('POST', '/scripts', {
      ...SCRIPT,
      orgId: tenant.orgId,
      parameters: [
        { name: 'FOLDER', required: true, description: 'What is emptied.' },
        { name: 'DAYS', type: 'number', defaultValue: '30' },
        { name: 'KEY', type: 'secret' },
      ],
    });
    expect(script.parameters).to.deep.equal([
      { name: 'FOLDER', type: 'text', description: 'What is emptied.', required: true, defaultValue: null },
      { name: 'DAYS', type: 'number', description: null, required: false, defaultValue: '30' },
      { name: 'KEY', type: 'secret', description: null, required: false, defaultValue: null },
    ]);
    const { deviceId } = await able(tenant.orgId);
    const target = { target: { deviceIds: [deviceId] } };
    const schedule = {
      name: 'Weekly',
      scriptId: script.id,
      orgId: tenant.orgId,
      cron: '0 3 * * 1',
      timezone: 'UTC',
    };
    for (const [path, body] of [
      [`/scripts/${script.id}/runs`, target],
      [`/scripts/${script.id}/execute`, { deviceIds: [deviceId] }],
      ['/script-schedules', { ...schedule, ...target }],
    ] as const) {
      // oxlint-disable-next-line no-await-in-loop
      const refused = await call('POST', path, { ...body, parameters: { DAYS: 'many' } });
      expect(refused.status, path).to.equal(400);
      expect(refused.body.details, path).to.deep.equal([
        { path: 'body.parameters.FOLDER', message: 'is required by the script' },
        { path: 'body.parameters.DAYS', message: 'must be a number, such as 30 or -1.5' },
      ]);
    }
    const run = await call('POST', `/scripts/${script.id}/runs`, {
      ...target,
      parameters: { FOLDER: '/tmp', OTHER: 'x' },
    });
    expect(run.status).to.equal(202);
    expect(run.body.parameters).to.deep.equal({ DAYS: '30', FOLDER: '/tmp', OTHER: 'x' });
    const executed = await call('POST', `/scripts/${script.id}/execute`, {
      deviceIds: [deviceId],
      parameters: { FOLDER: '/tmp' },
    });
    const { body: execution } = await call('GET', `/script-runs/${executed.body.executionId}`);
    expect(execution.parameters).to.deep.equal({ DAYS: '30', FOLDER: '/tmp' });
    const planned = await call('POST', '/script-schedules', {
      ...schedule,
      ...target,
      parameters: { FOLDER: '/tmp' },
    });
    expect(planned.status).to.equal(201);
    // The schedule keeps what it was given, so that it follows a default value that changes later.
    expect(planned.body.parameters).to.deep.equal({ FOLDER: '/tmp' });
    const changed = await call('PATCH', `/scripts/${script.id}`, {
      parameters: [{ name: 'KEY', type: 'secret', required: true }],
    });
    expect(changed.body.parameters).to.have.length(1);
    expect((await call('PATCH', `/script-schedules/${planned.body.id}`, { enabled: false })).status).to.equal(
      200,
    );
    const again = await call('PATCH', `/script-schedules/${planned.body.id}`, { parameters: {} });
    expect(again.body.details).to.deep.equal([
      { path: 'body.secrets.KEY', message: 'is required by the script' },
    ]);
    const wrong = await call('PATCH', `/scripts/${script.id}`, {
      parameters: [{ name: 'A' }, { name: 'a' }],
    });
    expect(wrong.body.details[0].path).to.equal('body.parameters.1.name');
  });

  it('of a partner are for all its organizations, and nobody else’s', async () => {
    const { body: script } = await call('POST', '/scripts', SCRIPT);
    expect(script).to.include({ orgId: null, partnerId: tenant.partnerId });
    const path = `/scripts/${script.id}`;
    for (const token of [stranger.admin.token, tenant.technician.token]) {
      expect((await call('GET', path, undefined, token)).status).to.equal(404);
      expect(
        (await call('POST', `${path}/execute`, { deviceIds: [device.deviceId] }, token)).status,
      ).to.equal(404);
    }
    const some = await buildPerson(app, {
      scope: 'partner',
      partnerId: tenant.partnerId,
      orgAccess: 'selected',
      orgIds: [tenant.orgId],
    });
    expect((await call('GET', path, undefined, some.token)).status).to.equal(200);
    expect((await call('PATCH', path, { content: 'false' }, some.token)).status).to.equal(403);
    const foreign = await call('POST', '/scripts', { ...SCRIPT, orgId: stranger.orgId });
    expect([foreign.status, foreign.body.error]).to.deep.equal([403, 'Access to this organization denied']);
  });

  it('run on devices that they fit, and say which they do not', async () => {
    const otherOrg = await buildOrganization(app, tenant.partnerId);
    await buildSite(app, otherOrg);
    const elsewhere = await able(otherOrg);
    const windows = await able(tenant.orgId, { osType: 'windows' });
    const unable = await buildDevice(app, tenant.orgId, { capabilities: ['agent.reboot'] });
    const theirs = await able(stranger.orgId);
    const { body: script } = await call('POST', '/scripts', { ...SCRIPT, osTypes: ['linux'] });
    const started = await call('POST', `/scripts/${script.id}/execute`, {
      deviceIds: [device, elsewhere, windows, unable, theirs, device].map(({ deviceId }) => deviceId),
      parameters: { FOLDER: '/tmp/x' },
    });
    expect(started.status).to.equal(202);
    const { commands, refused, executionId } = started.body;
    expect(commands.map(({ deviceId }: EnrolledDevice) => deviceId)).to.have.members([
      device.deviceId,
      elsewhere.deviceId,
    ]);
    expect(commands[0].scriptName).to.equal(script.name);
    expect(
      refused.map(({ deviceId, code }: { deviceId: string; code: string }) => [deviceId, code]),
    ).to.deep.equal([
      [windows.deviceId, 'CONFLICT'],
      [unable.deviceId, 'CAPABILITY_MISSING'],
      [theirs.deviceId, 'NOT_FOUND'],
    ]);
    // What is under way has the script as it was.
    await call('PATCH', `/scripts/${script.id}`, { content: 'changed' });
    await call('DELETE', `/scripts/${script.id}`);
    const agent = await connectDevice(app, device.token);
    const frame = await agent.nextCommand();
    expect(frame.payload).to.deep.equal({
      language: 'bash',
      content: SCRIPT.content,
      timeoutSeconds: 300,
      parameters: { FOLDER: '/tmp/x' },
    });
    await agent.succeed(frame, { exitCode: 3, stdout: '', stderr: 'no', truncated: false });
    const command = (await call('GET', `/commands/${frame.id}`)).body;
    expect([command.status, command.output.exitCode, command.scriptName]).to.deep.equal([
      'succeeded',
      3,
      null,
    ]);
    agent.close();
    await app.server.chainWriter.flush();
    const trail = await owner(
      `select org_id, details from audit_logs where action = 'script.execute' and details ->> 'executionId' = $1`,
      [executionId],
    );
    expect(trail).to.have.deep.members([
      { org_id: tenant.orgId, details: { executionId, deviceIds: [device.deviceId] } },
      { org_id: otherOrg, details: { executionId, deviceIds: [elsewhere.deviceId] } },
    ]);
  });

  it('are not run at all if they fit no device, nor by people who may not', async () => {
    const { body: script } = await call('POST', '/scripts', { ...SCRIPT, orgId: tenant.orgId });
    const path = `/scripts/${script.id}/execute`;
    const none = await call('POST', path, { deviceIds: [newId()] });
    expect([none.status, none.body.details[0].code]).to.deep.equal([409, 'NOT_FOUND']);
    await owner(`update organizations set status = 'suspended' where id = $1`, [tenant.orgId]);
    const suspended = await call('POST', path, { deviceIds: [device.deviceId] });
    expect(suspended.body.details[0].code).to.equal('TENANT_INACTIVE');
    await owner(`update organizations set status = 'active' where id = $1`, [tenant.orgId]);
    const viewer = await buildPerson(app, {
      scope: 'organization',
      orgId: tenant.orgId,
      role: SYSTEM_ROLES.organizationViewer,
    });
    expect((await call('POST', path, { deviceIds: [device.deviceId] }, viewer.token)).status).to.equal(403);
    for (const parameters of [{ 'A B': 'x' }, { A: 1 }, ['x']]) {
      const { status, body } = await call('POST', path, { deviceIds: [device.deviceId], parameters });
      expect([status, body.details[0].path.startsWith('body.parameters')]).to.deep.equal([400, true]);
    }
    const headers = { 'idempotency-key': newId() };
    const twice = await Promise.all(
      [1, 2].map(() =>
        app.call('POST', path, {
          token: tenant.admin.token,
          headers,
          body: { deviceIds: [device.deviceId] },
        }),
      ),
    );
    expect(new Set(twice.map(({ body }) => body.executionId)).size).to.equal(1);
  });
});
