import { expect } from 'chai';
import { SYSTEM_ROLES } from '../../../../src/features/users/index.ts';
import { newId } from '../../../../src/platform/ids.ts';
import { eventually } from '../../../support/eventually.ts';
import { buildOrganization, buildPerson, buildSite, buildTenant } from '../../../support/factories.ts';
import { connectDevice } from '../../../support/fake-device.ts';
import { sentStatements } from '../../../support/sent-statements.ts';
import { sharedTestApp, type TestApp } from '../../../support/test-app.ts';
import { runGround, SCRIPT, type Tenant } from './run-ground.ts';

const NOTHING = {
  waiting: 0,
  running: 0,
  completed: 0,
  failed: 0,
  timedOut: 0,
  cancelled: 0,
  expired: 0,
  refused: 0,
};
const printed = (stdout: string, exitCode: number | null = 0) => ({
  exitCode,
  stdout,
  stderr: '',
  truncated: false,
});

describe('script runs', () => {
  let app: TestApp;
  let tenant: Tenant;
  let stranger: Tenant;
  const { call, owner, able, many, script, started, report } = runGround(
    () => app,
    () => tenant,
  );
  before(async () => {
    app = await sharedTestApp();
  });
  after(async () => app.close());
  beforeEach(async () => {
    tenant = await buildTenant(app);
    stranger = await buildTenant(app);
  });
  const read = async (id: string, token?: string) =>
    (await call('GET', `/script-runs/${id}`, undefined, token)).body;

  it('say what became of a script on each device, and what devices have reported alike', async () => {
    const [one, two, three, windows] = [
      await able(tenant.orgId, { hostname: 'B' }),
      await able(tenant.orgId, { hostname: 'a' }),
      await able(tenant.orgId, { hostname: 'C' }),
      await able(tenant.orgId, { hostname: 'D', osType: 'windows' }),
    ];
    const { id: scriptId } = await script({ osTypes: ['linux'] });
    const { status, body } = await started(scriptId, {
      target: { all: true },
      parameters: { FOLDER: '/tmp/x' },
    });
    expect(status).to.equal(202);
    expect(body).to.deep.include({ scriptId, scriptName: SCRIPT.name, state: 'starting', total: 4 });
    const run = await read(body.id);
    expect(run).to.deep.include({
      state: 'running',
      counts: { ...NOTHING, waiting: 3, refused: 1 },
      parameters: { FOLDER: '/tmp/x' },
      content: SCRIPT.content,
      createdBy: tenant.admin.id,
      orgIds: [tenant.orgId],
      finishedAt: null,
    });
    await report(run.id, [
      { deviceId: one.deviceId, output: printed('same') },
      { deviceId: two.deviceId, output: printed('same') },
      { deviceId: three.deviceId, output: printed('other', 4_294_967_295) },
    ]);
    const ended = await read(run.id);
    expect(ended).to.deep.include({
      state: 'completed',
      counts: { ...NOTHING, completed: 2, failed: 1, refused: 1 },
    });
    expect(ended.finishedAt).to.be.a('string');
    const devices = (await call('GET', `/script-runs/${run.id}/devices`)).body;
    expect(
      devices.data.map((each: Record<string, unknown>) => [
        each['deviceName'],
        each['outcome'],
        each['exitCode'],
      ]),
    ).to.deep.equal([
      ['a', 'completed', 0],
      ['B', 'completed', 0],
      ['C', 'failed', 4_294_967_295],
      ['D', 'refused', null],
    ]);
    expect(devices.data[0].durationMs).to.be.within(1900, 2100);
    expect(devices.data[3].refusal).to.deep.equal({
      code: 'CONFLICT',
      message: 'The script is not for windows.',
    });
    expect(devices.data[3].deviceId).to.equal(windows.deviceId);
    const { data: groups, pagination } = (await call('GET', `/script-runs/${run.id}/outputs`)).body;
    expect(pagination.total).to.equal(2);
    expect(groups[0]).to.deep.include({
      devices: 2,
      deviceNames: ['a', 'B'],
      preview: 'same',
      exitCode: 0,
      size: 4,
    });
    const output = await call('GET', `/script-runs/${run.id}/outputs/${groups[1].outputHash}`);
    expect(output.body).to.deep.include({
      stdout: 'other',
      stderr: '',
      exitCode: 4_294_967_295,
      error: null,
    });
    const alike = await call(
      'GET',
      `/script-runs/${run.id}/devices?outputHash=${groups[0].outputHash}&limit=1`,
    );
    expect([alike.body.data.length, alike.body.pagination.total]).to.deep.equal([1, 2]);
    expect((await call('GET', `/script-runs/${run.id}/outputs/${'0'.repeat(64)}`)).status).to.equal(404);
    expect((await call('GET', `/script-runs/${run.id}/outputs/no`)).status).to.equal(404);
    const failed = await call('GET', `/script-runs/${run.id}/devices?outcome=failed`);
    expect(failed.body.data).to.have.length(1);
  });

  it('are listed newest first, by script, person, organization and state', async () => {
    await able();
    const [first, second] = [await script(), await script({ orgId: tenant.orgId })];
    const one = (await started(first.id, { target: { all: true } })).body.id;
    const two = (await started(second.id, { target: { all: true } }, tenant.technician.token)).body.id;
    await call('POST', `/script-runs/${one}/cancel`);
    await app.settle();
    const ids = async (query: string) =>
      (await call('GET', `/script-runs?${query}`)).body.data.map(({ id }: { id: string }) => id);
    expect(await ids('')).to.deep.equal([two, one]);
    expect(await ids('limit=1&page=2')).to.deep.equal([one]);
    expect(await ids(`scriptId=${first.id}`)).to.deep.equal([one]);
    expect(await ids(`createdBy=${tenant.technician.id}`)).to.deep.equal([two]);
    expect(await ids('state=cancelled')).to.deep.equal([one]);
    expect(await ids('state=running')).to.deep.equal([two]);
    expect(await ids(`orgId=${tenant.orgId}`)).to.deep.equal([two, one]);
    expect((await call('GET', `/script-runs?orgId=${stranger.orgId}`)).status).to.equal(403);
    expect((await call('GET', '/script-runs', undefined, stranger.admin.token)).body.data).to.deep.equal([]);
  });

  it('are counted in one statement, however many they are', async () => {
    await able();
    const made = await script();
    const statements = async () => {
      const sent = await sentStatements(['muster'], async () => {
        await call('GET', '/script-runs');
      });
      return sent.length;
    };
    await started(made.id, { target: { all: true } });
    const one = await statements();
    for (let more = 0; more < 4; more++) await started(made.id, { target: { all: true } });
    expect((await call('GET', '/script-runs')).body.data).to.have.length(5);
    expect([one > 3, await statements()]).to.deep.equal([true, one]);
  });

  it('of `execute` are the same, with the answer that it always had', async () => {
    const [one, other] = [await able(), await able()];
    const made = await script();
    // In the order in which they are named.
    const deviceIds = [other.deviceId, one.deviceId];
    const { body } = await call('POST', `/scripts/${made.id}/execute`, { deviceIds });
    expect(body.commands.map(({ deviceId }: { deviceId: string }) => deviceId)).to.deep.equal(deviceIds);
    expect(await read(body.executionId)).to.deep.include({
      state: 'running',
      counts: { ...NOTHING, waiting: 2 },
      target: { deviceIds },
    });
  });

  it('run the version that there was, again on all devices or on those that failed', async () => {
    const [good, bad] = [await able(), await able()];
    const made = await script({ orgId: tenant.orgId });
    const { body: run } = await started(made.id, {
      target: { all: true },
      parameters: { A: '1' },
      ttlSeconds: 600,
    });
    await call('PATCH', `/scripts/${made.id}`, { content: 'changed' });
    await report(run.id, [
      { deviceId: good.deviceId, output: printed('') },
      { deviceId: bad.deviceId, output: printed('', null) },
    ]);
    await call('DELETE', `/scripts/${made.id}`);
    const again = await call('POST', `/script-runs/${run.id}/run-again`, { which: 'failed' });
    await app.settle();
    expect(again.status).to.equal(202);
    expect(await read(again.body.id)).to.deep.include({
      againOf: run.id,
      target: null,
      scriptId: null,
      scriptName: SCRIPT.name,
      version: run.version,
      total: 1,
      parameters: { A: '1' },
    });
    const [command] = await owner('select payload, device_id from commands where execution_id = $1', [
      again.body.id,
    ]);
    expect(command).to.deep.equal({
      device_id: bad.deviceId,
      payload: { language: 'bash', content: SCRIPT.content, timeoutSeconds: 300, parameters: { A: '1' } },
    });
    const all = await call('POST', `/script-runs/${run.id}/run-again`, { which: 'all' });
    expect(all.body.total).to.equal(2);
    const none = await call('POST', `/script-runs/${all.body.id}/run-again`, { which: 'failed' });
    expect(none.status).to.equal(409);
  });

  it('do not keep secrets, and ask for them again', async () => {
    const device = await able();
    await owner(`update devices set capabilities = '{script.run,commands.secrets}' where id = $1`, [
      device.deviceId,
    ]);
    const made = await script();
    const { body: run } = await started(made.id, { target: { all: true }, secrets: { KEY: 'hush' } });
    expect(run.secretNames).to.deep.equal(['KEY']);
    const again = (secrets?: object) =>
      call('POST', `/script-runs/${run.id}/run-again`, {
        which: 'all',
        ...(secrets === undefined ? {} : { secrets }),
      });
    for (const secrets of [undefined, {}, { KEY: 'x', OTHER: 'y' }]) {
      // oxlint-disable-next-line no-await-in-loop
      const { status, body } = await again(secrets);
      expect([status, body.details[0].path]).to.deep.equal([400, 'body.secrets']);
    }
    expect((await again({ KEY: 'x' })).status).to.equal(202);
    await app.settle();
    const kept = await owner(
      `select (select count(*)::int from command_secrets s join commands c on c.id = s.command_id where c.execution_id = $1) as sealed,
        (select count(*)::int from script_runs r where r::text like '%hush%') as runs,
        (select count(*)::int from background_jobs j where j::text like '%hush%' or sealed_input is not null and key = $2) as jobs`,
      [run.id, run.id],
    );
    expect(kept).to.deep.equal([{ sealed: 1, runs: 0, jobs: 0 }]);
  });

  it('are cancelled as a whole: what was not sent ends, and devices are asked to stop', async () => {
    const [away, here] = [await able(), await able()];
    const agent = await connectDevice(app, here.token);
    const made = await script();
    const { body: run } = await started(made.id, { target: { all: true } });
    const frame = await agent.nextCommand();
    const cancelled = await call('POST', `/script-runs/${run.id}/cancel`);
    expect([cancelled.status, cancelled.body.state]).to.deep.equal([202, 'cancelling']);
    await app.settle();
    await eventually(
      () => agent.cancelled,
      (ids) => ids.includes(frame.id),
    );
    await agent.finish(frame, { status: 'cancelled' });
    await app.settle();
    expect(await read(run.id)).to.deep.include({ state: 'cancelled', counts: { ...NOTHING, cancelled: 2 } });
    expect((await call('POST', `/script-runs/${run.id}/cancel`)).status).to.equal(409);
    expect(away.deviceId).to.not.equal(here.deviceId);
    agent.close();
  });

  it('take no result from a device that is not the one', async () => {
    const [one, other] = [await able(), await able()];
    const [first, second] = [await connectDevice(app, one.token), await connectDevice(app, other.token)];
    const made = await script();
    const { body: run } = await started(made.id, { target: { deviceIds: [one.deviceId] } });
    const frame = await first.nextCommand();
    await second.finish(frame, { status: 'succeeded', output: printed('forged') });
    await app.settle();
    expect((await read(run.id)).counts.completed).to.equal(0);
    await first.succeed(frame, printed('real'));
    await app.settle();
    const { body } = await call('GET', `/script-runs/${run.id}/outputs`);
    expect(body.data.map(({ preview }: { preview: string }) => preview)).to.deep.equal(['real']);
    for (const agent of [first, second]) agent.close();
  });

  it('belong to their tenant: others find nothing, viewers change nothing', async () => {
    const device = await able();
    const theirs = await able(stranger.orgId);
    const made = await script();
    const { body: run } = await started(made.id, {
      target: { deviceIds: [device.deviceId, theirs.deviceId, newId()] },
    });
    expect(run.unknownDeviceIds).to.have.length(2);
    expect(run.total).to.equal(1);
    const viewer = await buildPerson(app, {
      scope: 'partner',
      partnerId: tenant.partnerId,
      role: SYSTEM_ROLES.partnerViewer,
    });
    const requests: [string, string, unknown?][] = [
      ['GET', ''],
      ['GET', '/devices'],
      ['GET', '/outputs'],
      ['GET', `/outputs/${'0'.repeat(64)}`],
      ['POST', '/cancel'],
      ['POST', '/run-again', { which: 'all' }],
    ];
    for (const [method, path, body] of requests) {
      // oxlint-disable-next-line no-await-in-loop
      const foreign = await call(method, `/script-runs/${run.id}${path}`, body, stranger.admin.token);
      expect(foreign.status, path).to.equal(404);
      if (method === 'GET') continue;
      // oxlint-disable-next-line no-await-in-loop
      const viewed = await call(method, `/script-runs/${run.id}${path}`, body, viewer.token);
      expect(viewed.status, path).to.equal(403);
    }
    expect((await read(run.id, viewer.token)).parameters).to.equal(null);
    const start = (target: object, token?: string) =>
      call('POST', `/scripts/${made.id}/runs`, { target }, token);
    expect((await start({ all: true }, viewer.token)).status).to.equal(403);
    expect((await start({ all: true }, stranger.admin.token)).status).to.equal(404);
    expect((await start({ deviceIds: [theirs.deviceId] })).status).to.equal(409);
    const group = await call(
      'POST',
      '/groups',
      { orgId: stranger.orgId, name: 'Theirs' },
      stranger.admin.token,
    );
    for (const target of [
      { groupIds: [group.body.id] },
      { siteIds: [stranger.siteId] },
      { filterId: newId() },
    ]) {
      // oxlint-disable-next-line no-await-in-loop
      expect((await start(target)).status, JSON.stringify(target)).to.equal(400);
    }
  });

  it('of several organizations show each person their own devices, and are cancelled by those who reach all', async () => {
    const orgId = await buildOrganization(app, tenant.partnerId);
    await buildSite(app, orgId);
    const [mine, other] = [await able(), await able(orgId)];
    const made = await script();
    const { body: run } = await started(made.id, { target: { all: true }, parameters: { A: '1' } });
    expect(run.total).to.equal(2);
    const some = await buildPerson(app, {
      scope: 'partner',
      partnerId: tenant.partnerId,
      orgAccess: 'selected',
      orgIds: [tenant.orgId],
    });
    for (const person of [some, tenant.technician]) {
      // oxlint-disable-next-line no-await-in-loop
      const seen = await read(run.id, person.token);
      expect(seen).to.deep.include({ total: 1, orgIds: [tenant.orgId], target: null });
      // oxlint-disable-next-line no-await-in-loop
      const { body } = await call('GET', `/script-runs/${run.id}/devices`, undefined, person.token);
      expect(body.data.map(({ deviceId }: { deviceId: string }) => deviceId)).to.deep.equal([mine.deviceId]);
      // oxlint-disable-next-line no-await-in-loop
      expect((await call('POST', `/script-runs/${run.id}/cancel`, undefined, person.token)).status).to.equal(
        403,
      );
    }
    const again = await call('POST', `/script-runs/${run.id}/run-again`, { which: 'all' }, some.token);
    expect(again.body).to.deep.include({ total: 1, orgIds: [tenant.orgId] });
    const own = await started(made.id, { target: { all: true } }, some.token);
    expect(own.body.total).to.equal(1);
    const foreign = await call(
      'POST',
      `/scripts/${made.id}/runs`,
      { target: { all: true }, orgId },
      some.token,
    );
    expect(foreign.status).to.equal(403);
    await app.server.chainWriter.flush();
    const trail = await owner(
      `select org_id, details -> 'deviceIds' as devices from audit_logs
      where action = 'script.execute' and details ->> 'executionId' = $1`,
      [run.id],
    );
    expect(trail).to.have.deep.members([
      { org_id: tenant.orgId, devices: [mine.deviceId] },
      { org_id: orgId, devices: [other.deviceId] },
    ]);
  });

  /** Starts a run whose last device lets its job crash, after a batch of 500 commands. */
  async function crashed() {
    const ids = await many(520);
    const last = [...ids].sort().at(-1);
    await owner(
      `create function crash() returns trigger language plpgsql as $$ begin raise exception 'crash'; end $$;
      create trigger crash before insert on commands for each row when (new.device_id = '${last}') execute function crash()`,
    );
    const made = await script();
    const { body: run } = await started(made.id, { target: { all: true } });
    const half = await read(run.id);
    expect([half.state, half.counts.waiting]).to.deep.equal(['starting', 520]);
    return run.id as string;
  }
  const mend = () => owner('drop function crash cascade');

  it('go on after a crash between two batches, and add each command once', async () => {
    const id = await crashed();
    const count = () =>
      owner(
        'select count(*)::int as n, count(distinct device_id)::int as devices from commands where execution_id = $1',
        [id],
      );
    expect(await count()).to.deep.equal([{ n: 500, devices: 500 }]);
    await mend();
    await owner('update background_jobs set run_at = now() where key = $1', [id]);
    await app.settle();
    expect(await count()).to.deep.equal([{ n: 520, devices: 520 }]);
    expect((await read(id)).state).to.equal('running');
  });

  it('are cancelled between two batches, with and without a command', async () => {
    const id = await crashed();
    expect((await call('POST', `/script-runs/${id}/cancel`)).status).to.equal(202);
    await mend();
    await app.settle();
    expect(await read(id)).to.deep.include({
      state: 'cancelled',
      counts: { ...NOTHING, cancelled: 520 },
    });
  });

  it('fail clearly if their commands cannot be added', async () => {
    await able();
    const made = await script();
    await owner(
      `create function refuse() returns trigger language plpgsql as $$ begin raise exception 'no'; end $$;
      create trigger refuse before insert on commands for each row when (new.org_id = '${tenant.orgId}') execute function refuse()`,
    );
    const { body: run } = await started(made.id, { target: { all: true } });
    await owner('drop function refuse cascade');
    // Its job has given up meanwhile.
    await owner('delete from background_jobs where key = $1', [run.id]);
    await owner(`update script_runs set created_at = now() - interval '76 minutes' where id = $1`, [run.id]);
    await owner(`update job_schedules set next_at = now() where name = 'script-runs.fail-stuck'`);
    await app.settle();
    const failed = await read(run.id);
    expect([failed.state, failed.counts.refused]).to.deep.equal(['failed', 1]);
    expect(failed.error).to.match(/could not add/);
  });

  it('with the largest outputs are listed by their beginnings', async () => {
    const ids = await many(30);
    const made = await script();
    const { body: run } = await started(made.id, { target: { all: true } });
    await owner(
      `update commands set status = 'succeeded', finished_at = now(), output = jsonb_build_object(
        'exitCode', 0, 'stdout', repeat('x', 99990) || (right(device_id::text, 1) > '7')::text, 'stderr', repeat('y', 100000), 'truncated', true)
      where execution_id = $1`,
      [run.id],
    );
    const answer = await call('GET', `/script-runs/${run.id}/outputs`);
    expect(answer.body.data.length).to.be.at.most(2);
    expect(JSON.stringify(answer.body).length).to.be.below(3000);
    expect(
      answer.body.data.reduce((sum: number, { devices }: { devices: number }) => sum + devices, 0),
    ).to.equal(ids.length);
  });
});
