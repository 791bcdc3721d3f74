import { expect } from 'chai';
import { CachedAgentCredentials } from '../../../../src/features/devices/index.ts';
import { withSystem } from '../../../../src/platform/db/transaction.ts';
import { newToken } from '../../../../src/platform/secrets/tokens.ts';
import { eventually } from '../../../support/eventually.ts';
import { buildDevice, buildTenant, type EnrolledDevice } from '../../../support/factories.ts';
import { connectDevice, Refused } from '../../../support/fake-device.ts';
import { createTestApp, type TestApp } from '../../../support/test-app.ts';

describe('the rotation of an agent’s token', () => {
  let app: TestApp;
  let tenant: Awaited<ReturnType<typeof buildTenant>>;
  let device: EnrolledDevice;

  before(async () => {
    app = await createTestApp();
    tenant = await buildTenant(app);
  });
  after(async () => app.close());
  beforeEach(async () => {
    device = await buildDevice(app, tenant.orgId);
  });

  const rotate = (token = device.token, through = app) =>
    through.call('POST', `/agents/${device.deviceId}/token/rotate`, { token });
  const staged = async (token = device.token): Promise<string> => (await rotate(token)).body.token;
  const beat = async (token: string, through = app) => {
    const { status } = await through.call('POST', `/agents/${device.deviceId}/heartbeat`, {
      token,
      body: { at: new Date().toISOString(), agentVersion: '1.0.0' },
    });
    return status;
  };
  const refusal = async (token: string) => {
    const error: unknown = await connectDevice(app, token).then(
      (agent) => agent.close(),
      (caught: unknown) => caught,
    );
    return error instanceof Refused ? error.refusal?.code : 'let in';
  };
  const inDatabase = (sql: string, values: readonly string[]) =>
    withSystem(app.server.database.pool, 'test', (tx) => tx.raw(sql, values));
  const valid = async () => {
    const { rows } = await inDatabase(
      'select staged from agent_credentials where device_id = ? and revoked_at is null order by staged',
      [device.deviceId],
    );
    return rows.map((row: { staged: boolean }) => (row.staged ? 'staged' : 'current'));
  };

  it('gives out a new token, and leaves the old one valid until the new one is used over HTTP', async () => {
    const { status, body } = await rotate();
    expect(status).to.equal(201);
    expect(body).to.have.all.keys('token');
    expect(body.token).to.match(/^magt_[0-9A-Za-z]{46}$/);
    expect([await beat(device.token), await beat(device.token)]).to.deep.equal([200, 200]);
    expect(await valid()).to.deep.equal(['current', 'staged']);
    expect(await beat(body.token)).to.equal(200);
    // This process has just seen the old one, and remembers tokens.
    expect(await beat(device.token)).to.equal(401);
    expect(await refusal(device.token)).to.equal('UNAUTHENTICATED');
    expect(await beat(body.token)).to.equal(200);
    expect(await valid()).to.deep.equal(['current']);
  });

  it('or on the socket, which takes the place of the one under the old token', async () => {
    const first = await connectDevice(app, device.token);
    const token = await staged();
    const second = await connectDevice(app, token);
    await eventually(
      () => first.socket.connected,
      (connected) => !connected,
    );
    expect((await second.heartbeat()).ok).to.equal(true);
    expect(await beat(device.token)).to.equal(401);
    second.close();
  });

  it('ends the connection under the old token also when the new one is used over HTTP', async () => {
    const agent = await connectDevice(app, device.token);
    await agent.heartbeat();
    const token = await staged();
    expect(agent.socket.connected).to.equal(true);
    await beat(token);
    await eventually(
      () => agent.socket.connected,
      (connected) => !connected,
    );
    const again = await connectDevice(app, token);
    await beat(token);
    expect((await again.heartbeat()).ok).to.equal(true);
    again.close();
  });

  it('makes a token worthless that was given out before and never used', async () => {
    const lost = await staged();
    const token = await staged();
    expect(await beat(lost)).to.equal(401);
    expect([await beat(device.token), await beat(token), await beat(device.token)]).to.deep.equal([
      200, 200, 401,
    ]);
  });

  it('asked for with the new token confirms that one first', async () => {
    const second = await staged();
    const third = await staged(second);
    expect(await beat(device.token)).to.equal(401);
    expect([await beat(second), await beat(third), await beat(second)]).to.deep.equal([200, 200, 401]);
  });

  it('leaves one valid token and at most one new one, however often it is asked for at once', async () => {
    const answers = await Promise.all(Array.from({ length: 10 }, () => rotate()));
    expect(answers.map(({ status }) => status)).to.deep.equal(Array.from({ length: 10 }, () => 201));
    expect(await valid()).to.deep.equal(['current', 'staged']);
    const used = await Promise.all(answers.map(({ body }) => beat(body.token)));
    expect(used.filter((status) => status === 200)).to.have.length(1);
    expect(await valid()).to.deep.equal(['current']);
  });

  it('is confirmed once, however many uses come at once, on whichever process', async () => {
    const other = await createTestApp({ database: app.database });
    try {
      const token = await staged();
      const statuses = await Promise.all(
        Array.from({ length: 20 }, (_, i) => beat(token, i % 2 === 0 ? app : other)),
      );
      expect(new Set(statuses)).to.deep.equal(new Set([200]));
      expect(await valid()).to.deep.equal(['current']);
    } finally {
      await other.close();
    }
  });

  it('never leaves a device without a token, whatever meets at once', async () => {
    let token = device.token;
    for (let round = 0; round < 15; round++) {
      const next = await staged(token);
      const [, ...rotated] = await Promise.all([beat(next), rotate(token), rotate(token), rotate(next)]);
      const candidates = [...rotated.map(({ body }) => body.token as string | undefined), next, token];
      const good: string[] = [];
      // The current one last: the use of a staged one ends it.
      expect(await valid()).to.include('current');
      for (const candidate of candidates) {
        if (candidate !== undefined && (await beat(candidate)) === 200) good.push(candidate);
      }
      expect(good, `round ${round}`).not.to.deep.equal([]);
      token = good.at(-1)!;
      expect(await beat(token)).to.equal(200);
    }
    expect(app.log.filter(({ level }) => level === 'error')).to.deep.equal([]);
  });

  it('ends with the device, and with a new enrollment', async () => {
    const machineId = 'machine-rotated';
    device = await buildDevice(app, tenant.orgId, { machineId });
    const before = await staged();
    const again = await buildDevice(app, tenant.orgId, { machineId });
    expect(await beat(before)).to.equal(401);
    const token = await staged(again.token);
    await app.call('DELETE', `/devices/${device.deviceId}`, { token: tenant.admin.token });
    expect([await beat(token), (await rotate(again.token)).status]).to.deep.equal([401, 401]);
    expect(await valid()).to.deep.equal([]);
  });

  it('meets a new enrollment in the same moment, and only what that gave out is left', async () => {
    const machineId = 'machine-at-once';
    device = await buildDevice(app, tenant.orgId, { machineId });
    for (let round = 0; round < 10; round++) {
      const next = await staged();
      const [, again, rotated] = await Promise.all([
        beat(next),
        buildDevice(app, tenant.orgId, { machineId }),
        rotate(),
      ]);
      for (const token of [device.token, next, rotated.body.token].filter(Boolean)) {
        expect(await beat(token), `round ${round}`).to.equal(401);
      }
      device = again;
      expect(await beat(device.token)).to.equal(200);
    }
    expect(app.log.filter(({ level }) => level === 'error')).to.deep.equal([]);
  });

  it('gives nothing for a token that has died elsewhere, although this process remembers it', async () => {
    expect(await beat(device.token)).to.equal(200);
    await inDatabase('update agent_credentials set revoked_at = now() where device_id = ?', [
      device.deviceId,
    ]);
    expect((await rotate()).status).to.equal(401);
  });

  it('stands in the audit trail under the name of the agent, and without the token', async () => {
    const token = await staged();
    await app.server.chainWriter.flush();
    const { rows } = await inDatabase(
      `select action, org_id, partner_id, actor_type, actor_id, actor_email, resource_type, resource_id, details, ip_address, result
      from audit_logs where resource_id = ? and action <> 'device.create'`,
      [device.deviceId],
    );
    expect(rows).to.deep.equal([
      {
        action: 'agent.token.rotate',
        org_id: tenant.orgId,
        partner_id: tenant.partnerId,
        actor_type: 'agent',
        actor_id: device.deviceId,
        actor_email: null,
        resource_type: 'device',
        resource_id: device.deviceId,
        details: {},
        ip_address: '127.0.0.1',
        result: 'success',
      },
    ]);
    const { rows: kept } = await inDatabase(
      `select string_agg(c::text, ' ') as text from agent_credentials c where device_id = ?`,
      [device.deviceId],
    );
    expect(kept[0].text).not.to.contain(token.slice(5));
  });

  it('is not remembered wrongly by a process that was reading the old token at that moment', async () => {
    const credentials = new CachedAgentCredentials(app.server.database.pool);
    const reading = credentials.verify(device.token);
    credentials.forget([device.deviceId]);
    expect((await reading).ok).to.equal(true);
    await inDatabase('update agent_credentials set revoked_at = now() where device_id = ?', [
      device.deviceId,
    ]);
    expect((await credentials.verify(device.token)).ok).to.equal(false);
    expect(await credentials.verify(newToken('agent'))).to.deep.equal({ ok: false, code: 'UNAUTHENTICATED' });
  });
});
