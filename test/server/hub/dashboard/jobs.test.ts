import { expect } from 'chai';
import type { JobOutput, JobsSnapshot, JobUpdate } from '../../../../src/protocol/index.ts';
import { connectDashboard, type DashboardClient } from '../../../support/dashboard-client.ts';
import { eventually } from '../../../support/eventually.ts';
import {
  buildDevice,
  buildOrganization,
  buildPerson,
  buildTenant,
  type EnrolledDevice,
} from '../../../support/factories.ts';
import { connectDevice, type FakeDevice } from '../../../support/fake-device.ts';
import { sharedTestApp, type TestApp } from '../../../support/test-app.ts';
import { asOwner } from '../../../support/test-postgres.ts';

const SCRIPT = { language: 'bash', content: 'true', timeoutSeconds: 60 };
const DONE = { exitCode: 0, stdout: 'done', stderr: '', truncated: false };

interface Follower {
  client: DashboardClient;
  updates: JobUpdate[];
  outputs: JobOutput[];
  follow(filter?: object): Promise<JobsSnapshot & { error?: { code: string } }>;
}

describe('jobs on the dashboard', () => {
  let app: TestApp;
  let tenant: Awaited<ReturnType<typeof buildTenant>>;
  let device: EnrolledDevice;
  let agent: FakeDevice;
  let clients: DashboardClient[];

  before(async () => {
    app = await sharedTestApp();
  });
  after(async () => app.close());
  beforeEach(async () => {
    clients = [];
    tenant = await buildTenant(app);
    device = await buildDevice(app, tenant.orgId);
    await asOwner(
      app.database.ownerUrl,
      `update devices set capabilities = '{script.run}' where id = '${device.deviceId}'`,
    );
  });
  afterEach(() => {
    agent?.close();
    for (const client of clients) client.close();
  });

  async function follower(token = tenant.admin.token): Promise<Follower> {
    const client = await connectDashboard(app, token);
    clients.push(client);
    const updates: JobUpdate[] = [];
    const outputs: JobOutput[] = [];
    client.socket.on('job:update', (update: JobUpdate) => updates.push(update));
    client.socket.on('job:output', (output: JobOutput) => outputs.push(output));
    return { client, updates, outputs, follow: (filter = {}) => client.send('jobs:subscribe', filter) };
  }
  async function order(): Promise<string> {
    const { body } = await app.call('POST', `/devices/${device.deviceId}/commands`, {
      token: tenant.admin.token,
      body: { type: 'script.run', payload: SCRIPT },
    });
    return body.id;
  }
  const states = ({ updates }: Follower) => updates.map(({ state }) => state);
  const progress = (id: string, seq: number, percent: number) =>
    agent.send('command:progress', { id, seq, phase: 'downloading', percent });

  it('are shown from creation to end, with their progress', async () => {
    const watcher = await follower();
    expect(await watcher.follow()).to.deep.equal({ ok: true, jobs: [] });
    const id = await order();
    await eventually(
      () => states(watcher),
      (told) => told.includes('queued'),
    );
    agent = await connectDevice(app, device.token);
    const frame = await agent.nextCommand();
    await progress(id, 1, 40);
    await eventually(
      () => watcher.updates,
      (told) => told.some(({ phase, percent }) => phase === 'downloading' && percent === 40),
    );
    await agent.succeed(frame, DONE);
    await eventually(
      () => states(watcher),
      (told) => told.at(-1) === 'succeeded',
    );
    expect(watcher.updates[0]).to.deep.include({
      id,
      kind: 'script.run',
      orgId: tenant.orgId,
      deviceId: device.deviceId,
    });
    expect(watcher.updates.at(-1)).to.include({ phase: 'succeeded', exitCode: 0 });
  });

  it('have the exit code of a script whose command has succeeded, and of nothing else', async () => {
    const watcher = await follower();
    await watcher.follow();
    agent = await connectDevice(app, device.token);
    for (const exitCode of [1, null]) {
      // One after another, as a device runs them.
      // oxlint-disable-next-line no-await-in-loop
      const id = await order();
      // oxlint-disable-next-line no-await-in-loop
      await agent.succeed(await agent.nextCommand(), { ...DONE, exitCode });
      // oxlint-disable-next-line no-await-in-loop
      const told = await eventually(
        () => watcher.updates.filter((update) => update.id === id),
        (updates) => updates.at(-1)?.state === 'succeeded',
      );
      expect(told.map((update) => update.exitCode)).to.deep.equal([
        ...Array<undefined>(told.length - 1).fill(undefined),
        exitCode,
      ]);
      // oxlint-disable-next-line no-await-in-loop
      expect((await watcher.follow({ jobId: id })).jobs[0]).to.include({ state: 'succeeded', exitCode });
    }
  });

  it('are included for a later subscriber, and finished ones when they are named', async () => {
    const id = await order();
    const watcher = await follower();
    expect((await watcher.follow()).jobs.map((job) => [job.id, job.state])).to.deep.equal([[id, 'queued']]);
    await app.call('POST', `/commands/${id}/cancel`, { token: tenant.admin.token });
    await eventually(
      () => states(watcher),
      (told) => told.at(-1) === 'cancelled',
    );
    expect((await watcher.follow({ deviceId: device.deviceId })).jobs).to.deep.equal([]);
    expect((await watcher.follow({ jobId: id })).jobs.map(({ state }) => state)).to.deep.equal(['cancelled']);
  });

  it('show the output of a script to subscribers of that job, and only from its own device', async () => {
    const other = await buildDevice(app, tenant.orgId);
    const stranger = await connectDevice(app, other.token);
    agent = await connectDevice(app, device.token);
    const id = await order();
    const [near, far] = [await follower(), await follower()];
    await near.follow({ jobId: id });
    await far.follow();
    const frame = await agent.nextCommand();
    const row = (text: string) => ({ stream: 'stdout', text });
    await stranger.rows(frame, [row('not mine to say')]);
    await agent.rows(frame, [{ stream: 'elsewhere', text: 'of no form' }]);
    await agent.rows(frame, [row('one\n'), row('two\n')], 7);
    await eventually(
      () => near.outputs,
      (outputs) => outputs.length > 0,
    );
    await agent.succeed(frame, DONE);
    await eventually(
      () => states(far),
      (told) => told.at(-1) === 'succeeded',
    );
    expect(near.outputs).to.deep.equal([{ id, seq: 7, rows: [row('one\n'), row('two\n')] }]);
    expect(far.outputs).to.deep.equal([]);
    stranger.close();
  });

  it('are sent at most four times a second, in their latest state', async () => {
    agent = await connectDevice(app, device.token);
    const watcher = await follower();
    await watcher.follow({ deviceId: device.deviceId });
    const id = await order();
    const frame = await agent.nextCommand();
    const startedAt = Date.now();
    for (let percent = 1; percent <= 60; percent++) {
      await progress(id, percent, percent);
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
    const tookMs = Date.now() - startedAt;
    await eventually(
      () => watcher.updates,
      (told) => told.at(-1)?.percent === 60,
    );
    const told = watcher.updates.filter(({ percent }) => percent !== undefined);
    expect(told.length).to.be.within(2, Math.ceil(tookMs / 250) + 2);
    await agent.succeed(frame, DONE);
    await eventually(
      () => states(watcher),
      (last) => last.at(-1) === 'succeeded',
    );
  });

  it('are not sent outside of the tenant, and a refusal names the rule', async () => {
    const stranger = await buildTenant(app);
    const watcher = await follower(stranger.admin.token);
    await watcher.follow();
    expect((await watcher.follow({ orgId: tenant.orgId })).error?.code).to.equal('FORBIDDEN');
    expect((await watcher.follow({ deviceId: device.deviceId })).error?.code).to.equal('NOT_FOUND');
    const id = await order();
    expect((await watcher.follow({ jobId: id })).error?.code).to.equal('NOT_FOUND');
    expect((await watcher.follow({ jobId: id, orgId: tenant.orgId })).error?.code).to.equal(
      'VALIDATION_FAILED',
    );
    const own = await follower();
    await own.follow();
    await app.call('POST', `/commands/${id}/cancel`, { token: tenant.admin.token });
    await eventually(
      () => states(own),
      (told) => told.length > 0,
    );
    expect(watcher.updates).to.deep.equal([]);
  });

  it("are those of the person's organizations, and of no other one of the provider", async () => {
    const otherOrg = await buildOrganization(app, tenant.partnerId);
    const person = await buildPerson(app, { scope: 'organization', orgId: otherOrg });
    const watcher = await follower(person.token);
    expect((await watcher.follow()).ok).to.equal(true);
    const provider = await follower();
    await provider.follow();
    await order();
    await eventually(
      () => states(provider),
      (told) => told.includes('queued'),
    );
    expect(watcher.updates).to.deep.equal([]);
  });

  it('stop after the subscription has ended', async () => {
    const watcher = await follower();
    await watcher.follow();
    await watcher.follow({ orgId: tenant.orgId });
    expect(await watcher.client.send('jobs:unsubscribe', {})).to.deep.equal({ ok: true });
    await order();
    await eventually(
      () => states(watcher),
      (told) => told.length === 1,
    );
    await watcher.client.send('jobs:unsubscribe', { orgId: tenant.orgId });
    const witness = await follower();
    await witness.follow();
    await order();
    await eventually(
      () => states(witness),
      (told) => told.includes('queued'),
    );
    expect(watcher.updates).to.have.length(1);
  });
});
