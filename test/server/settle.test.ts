import { expect } from 'chai';
import { z } from 'zod';
import { newId } from '../../src/platform/ids.ts';
import { defineJob } from '../../src/platform/jobs/definition.ts';
import { createJobs } from '../../src/platform/jobs/jobs.ts';
import { createEncryptor } from '../../src/platform/secrets/sealed.ts';
import { buildDevice, buildTenant } from '../support/factories.ts';
import { connectDevice } from '../support/fake-device.ts';
import { quietLog } from '../support/quiet-log.ts';
import { testClock } from '../support/test-clock.ts';
import { createTestApp, type TestApp } from '../support/test-app.ts';
import { asOwner } from '../support/test-postgres.ts';

describe('a server that settles', () => {
  let app: TestApp;
  let tenant: Awaited<ReturnType<typeof buildTenant>>;

  before(async () => {
    app = await createTestApp();
    tenant = await buildTenant(app);
  });
  after(async () => app.close());
  afterEach(() => testClock.run());

  const sql = <Row extends Record<string, unknown>>(text: string, values: unknown[] = []) =>
    asOwner<Row>(app.database.ownerUrl, text, values);
  const send = async (method: string, path: string, body: object) => {
    const answer = await app.call(method, path, { token: tenant.admin.token, body });
    expect(answer.status, JSON.stringify(answer.body)).to.be.within(200, 202);
    return answer.body;
  };
  /** No timer fires meanwhile. */
  const settleWithoutTimers = async () => {
    testClock.stop();
    await app.settle();
  };

  it('has written the presence of its devices, and the members of the groups that depend on it', async () => {
    const { id: filterId } = await send('POST', '/filters', {
      orgId: tenant.orgId,
      name: 'Online',
      conditions: { operator: 'AND', conditions: [{ field: 'status', operator: 'equals', value: 'online' }] },
    });
    const group = await send('POST', '/groups', {
      orgId: tenant.orgId,
      name: 'Online',
      type: 'dynamic',
      filterId,
    });
    const device = await buildDevice(app, tenant.orgId);
    const agent = await connectDevice(app, device.token);
    await agent.heartbeat();
    await settleWithoutTimers();
    const states = await sql('select state from device_presence where device_id = $1', [device.deviceId]);
    expect(states).to.deep.equal([{ state: 'connected' }]);
    const members = await sql('select device_id from device_group_members where group_id = $1', [group.id]);
    expect(members).to.deep.equal([{ device_id: device.deviceId }]);
    agent.close();
  });

  it('has sealed the audit entries of what was done', async () => {
    await send('POST', '/orgs/sites', { orgId: tenant.orgId, name: `Site ${newId()}` });
    await settleWithoutTimers();
    expect(await sql('select from audit_outbox')).to.deep.equal([]);
    const sealed = await sql(`select from audit_logs where action = 'site.create' and org_id = $1`, [
      tenant.orgId,
    ]);
    expect(sealed).to.have.length(1);
  });

  it('has handed commands to their devices, and recorded what these have reported', async () => {
    const device = await buildDevice(app, tenant.orgId);
    const agent = await connectDevice(app, device.token, { capabilities: ['script.run'] });
    await agent.heartbeat();
    await app.settle();
    const { id } = await send('POST', `/devices/${device.deviceId}/commands`, {
      type: 'script.run',
      payload: { language: 'bash', content: 'true', timeoutSeconds: 60 },
    });
    await settleWithoutTimers();
    const frame = await agent.nextCommand();
    testClock.run();
    await agent.succeed(frame, { exitCode: 0, stdout: '', stderr: '', truncated: false });
    await settleWithoutTimers();
    expect(await sql('select status from commands where id = $1', [id])).to.deep.equal([
      { status: 'succeeded' },
    ]);
    agent.close();
  });

  it('has run the jobs that are due, and those that these have added', async () => {
    const done: number[] = [];
    const job = defineJob({ name: 'settled', input: z.object({ left: z.number() }) });
    const jobs = createJobs({
      db: app.server.database.jobPool,
      encryptor: createEncryptor({ current: 'a-key-that-only-tests-seal-secrets-with', old: [] }),
      log: quietLog,
    });
    jobs.handle(job, async ({ input: { left } }) => {
      done.push(left);
      if (left > 0) await jobs.enqueue(undefined, job, { left: left - 1 });
    });
    jobs.start();
    testClock.stop();
    await jobs.enqueue(undefined, job, { left: 2 });
    await jobs.enqueue(undefined, job, { left: 100 }, { delayMs: 3_600_000 });
    await jobs.settle();
    expect(done).to.deep.equal([2, 1, 0]);
    testClock.run();
    await jobs.close();
  });
});
