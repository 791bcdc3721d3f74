import { expect } from 'chai';
import { buildPerson, buildTenant, giveSecondFactor } from '../../../support/factories.ts';
import type { Answer } from '../../../support/test-app.ts';
import {
  createReleaseBench,
  query,
  type ReleaseBench,
  upload,
} from '../../../support/releases/release-support.ts';
import { buildFleet, type FleetOptions, inSystem } from '../../../support/agent-upgrades/rollout-fleet.ts';

describe('the routes of rollouts', function () {
  this.timeout(120_000);
  let bench: ReleaseBench;
  beforeEach(async () => {
    bench = await createReleaseBench({ env: { AGENT_AUTO_PROMOTE: 'false' } });
    await upload(bench, { version: '1.1.0' });
  });
  afterEach(() => bench.close());

  const start = (body: object = { version: '1.1.0' }, token = bench.admin.token) =>
    bench.app.call('POST', '/agent-rollouts', { token, body });
  const get = (path = '') => bench.app.call('GET', `/agent-rollouts${path}`, { token: bench.admin.token });
  const act = (id: string, action: string, token = bench.admin.token) =>
    bench.app.call('POST', `/agent-rollouts/${id}/${action}`, { token });
  const fleet = (size: number, options: Omit<FleetOptions, 'size'> = {}) =>
    buildFleet(bench.app, { size, ...options });
  const sizes = ({ body }: Answer) => body.waves.map(({ devices }: { devices: number }) => devices);

  it('start one with the default waves, whose first has a tenth of a small fleet', async () => {
    await fleet(200);
    const { status, body } = await start();
    expect(status).to.equal(201);
    expect(body).to.deep.include({
      component: 'agent',
      version: '1.1.0',
      state: 'running',
      wave: 0,
      endedAt: null,
    });
    expect(body.haltWhen).to.deep.equal({ failedPercent: 2, silentMinutes: 30, minDevices: 20 });
    const [first, ...later] = body.waves;
    expect(first).to.include({ state: 'open' });
    expect(first.devices).to.be.within(20, 23);
    expect(first.counts.due).to.equal(first.devices);
    expect(
      later.slice(-2).map(({ reachedPercent }: { reachedPercent: number }) => reachedPercent),
    ).to.deep.equal([50, 100]);
    for (const wave of later) {
      expect(wave.state).to.equal('waiting');
      expect(wave.counts.waiting).to.deep.equal({ wave_not_reached: wave.devices });
    }
    expect(sizes({ body } as Answer).reduce((a: number, b: number) => a + b)).to.equal(200);
    expect(body.next).to.deep.include({
      step: 'hold',
      message: 'The open wave is being observed.',
    });
    expect((await get(`/${body.id}`)).body).to.deep.equal(body);
    const list = await get();
    expect(list.body.pagination.total).to.equal(1);
    expect(list.body.data[0]).to.deep.include({ id: body.id, state: 'running', createdBy: bench.admin.id });
    expect((await get('?state=paused')).body.data).to.deep.equal([]);
  });

  it('take shares as waves, whose sum may be less than 100', async () => {
    await fleet(400);
    const { status, body } = await start({
      version: '1.1.0',
      waves: [
        { percent: 0.5, soakMinutes: 0 },
        { percent: 49.5, soakMinutes: 60 },
      ],
      haltWhen: { minDevices: 5 },
    });
    expect(status).to.equal(201);
    expect(body.waves.map(({ reachedPercent }: { reachedPercent: number }) => reachedPercent)).to.deep.equal([
      0.5, 50,
    ]);
    expect(body.haltWhen).to.deep.equal({ failedPercent: 2, silentMinutes: 30, minDevices: 5 });
    // Half of them are expected, with a standard deviation of 10.
    expect(body.outside).to.be.within(150, 250);
    expect(body.outside + body.waves[0].devices + body.waves[1].devices).to.equal(400);
  });

  it('put three devices of each platform into the first wave, and all of a rare one', async () => {
    for (const platform of ['agent/windows/x64', 'agent/macos/arm64']) {
      await upload(bench, { version: '1.1.0', platform });
    }
    await fleet(300);
    await fleet(40, { platforms: [['windows', 'x64']] });
    await fleet(2, { platforms: [['macos', 'arm64']] });
    // No build: they take no part.
    await fleet(5, { platforms: [['linux', 'arm64']] });
    const { body } = await start({
      version: '1.1.0',
      waves: [
        { percent: 0.01, soakMinutes: 0 },
        { percent: 99.99, soakMinutes: 0 },
      ],
    });
    const rows = await query<{ os_type: string; count: string }>(
      bench.app,
      `select os_type, count(*) from devices where id = any(array(select unnest(first_devices) from agent_rollouts)) group by 1 order by 1`,
    );
    expect(rows).to.deep.equal([
      { os_type: 'linux', count: '3' },
      { os_type: 'macos', count: '2' },
      { os_type: 'windows', count: '3' },
    ]);
    expect(sizes({ body } as Answer)[0]).to.be.within(8, 9);
    expect(sizes({ body } as Answer)[0] + sizes({ body } as Answer)[1]).to.equal(342);
  });

  it('count devices by what stands in their way, as their own page does', async () => {
    await fleet(10);
    await fleet(2, { row: { auto_update: false } });
    await fleet(3, { row: { capabilities: [] } });
    await fleet(4, { row: { agent_version: '1.1.0' } });
    await fleet(5, { row: { agent_version: '1.2.0' } });
    await fleet(6, { settings: { agentUpdates: { policy: 'auto' } } });
    await fleet(7, { settings: { agentUpdates: { policy: 'staged', pins: { agent: '1.0.0' } } } });
    const offline = await fleet(8);
    await inSystem(bench.app, (tx) =>
      tx('device_presence')
        .whereIn(
          'device_id',
          offline.map(({ id }) => id),
        )
        .update({ state: 'disconnected', reason: 'socket_closed' }),
    );
    const { body } = await start({ version: '1.1.0', waves: [{ percent: 100, soakMinutes: 0 }] });
    const [wave] = body.waves;
    expect(wave.devices).to.equal(32);
    expect(wave.counts).to.deep.include({
      due: 10,
      upToDate: 4,
      waiting: { agent_offline: 8, auto_update_off: 2, capability_missing: 3, newer_than_target: 5 },
    });
  });

  it('refuse what cannot be rolled out', async () => {
    const none = await start();
    expect([none.status, none.body.code]).to.deep.equal([409, 'CONFLICT']);
    expect(none.body.error ?? none.body.message).to.include('No device would be upgraded to agent 1.1.0');
    await fleet(10);
    for (const body of [{ version: '9.9.9' }, { version: '1.1.0', component: 'watchdog' }]) {
      expect((await start(body)).status, JSON.stringify(body)).to.equal(404);
    }
    await inSystem(bench.app, (tx) => tx.raw('update agent_releases set size = size + 1'));
    const untrusted = await start();
    expect([untrusted.status, untrusted.body.code]).to.deep.equal([409, 'RELEASE_UNTRUSTED']);
    await inSystem(bench.app, (tx) => tx.raw('update agent_releases set size = size - 1'));
    expect((await start()).status).to.equal(201);
    const second = await start();
    expect([second.status, second.body.code]).to.deep.equal([409, 'CONFLICT']);
    const { id } = (await bench.app.call('GET', '/agent-versions', { token: bench.admin.token })).body
      .data[0];
    const deleted = await bench.app.call('DELETE', `/agent-versions/${id}`, { token: bench.admin.token });
    expect(deleted.status).to.equal(409);
  });

  it('refuse bad input with the field and the rule', async () => {
    await fleet(10);
    const wave = { percent: 10, soakMinutes: 60 };
    const waves = (length: number, each: object) => Array.from({ length }, () => each);
    const cases: [object, field: string][] = [
      [{}, 'version'],
      [{ version: 'latest' }, 'version'],
      [{ version: 'v1.1.0' }, 'version'],
      [{ version: '1.1.0', component: 'backup' }, 'component'],
      [{ version: '1.1.0', waves: [] }, 'waves'],
      [{ version: '1.1.0', waves: waves(11, wave) }, 'waves'],
      [
        {
          version: '1.1.0',
          waves: [
            { percent: 99.99, soakMinutes: 1 },
            { percent: 0.02, soakMinutes: 1 },
          ],
        },
        'waves',
      ],
      [{ version: '1.1.0', waves: waves(21, { percent: 1, soakMinutes: 1 }) }, 'waves'],
      [{ version: '1.1.0', waves: waves(1500, { percent: 0.01, soakMinutes: 1 }) }, 'waves'],
      [{ version: '1.1.0', waves: [{ ...wave, percent: 0 }] }, 'waves.0.percent'],
      [{ version: '1.1.0', waves: [{ ...wave, percent: -1 }] }, 'waves.0.percent'],
      [{ version: '1.1.0', waves: [{ ...wave, percent: 100.5 }] }, 'waves.0.percent'],
      [{ version: '1.1.0', waves: [{ ...wave, percent: 0.001 }] }, 'waves.0.percent'],
      [{ version: '1.1.0', waves: [{ ...wave, soakMinutes: 1.5 }] }, 'waves.0.soakMinutes'],
      [{ version: '1.1.0', waves: [{ ...wave, soakMinutes: 1e9 }] }, 'waves.0.soakMinutes'],
      [{ version: '1.1.0', waves: [{ percent: 10 }] }, 'waves.0.soakMinutes'],
      [{ version: '1.1.0', waves: [{ ...wave, color: 'red' }] }, 'waves.0'],
      [{ version: '1.1.0', haltWhen: { failedPercent: 0 } }, 'haltWhen.failedPercent'],
      [{ version: '1.1.0', haltWhen: { failedPercent: 101 } }, 'haltWhen.failedPercent'],
      [{ version: '1.1.0', haltWhen: { silentMinutes: 0 } }, 'haltWhen.silentMinutes'],
      [{ version: '1.1.0', haltWhen: { minDevices: 0 } }, 'haltWhen.minDevices'],
    ];
    for (const [body, field] of cases) {
      const { status, body: answer } = await start(body);
      const about = JSON.stringify(body).slice(0, 200);
      expect(status, about).to.equal(400);
      expect(
        answer.details.map(({ path }: { path: string }) => path),
        about,
      ).to.include(`body.${field}`);
    }
    const megabyte = await start({ version: '1.1.0', waves: waves(40_000, wave) });
    expect(megabyte.status).to.equal(413);
    expect((await get()).body.pagination.total).to.equal(0);
    expect((await get('/nonsense')).status).to.equal(404);
    for (const path of ['?state=gone', '?component=backup']) expect((await get(path)).status).to.equal(400);
  });

  it('pause, resume and abort, each from the states that allow it', async () => {
    await fleet(50);
    const { body: rollout } = await start({ version: '1.1.0', waves: [{ percent: 100, soakMinutes: 60 }] });
    const outcome = async (action: string) => {
      const { status, body } = await act(rollout.id, action);
      return status === 200 ? body.state : body.code;
    };
    expect(await outcome('resume')).to.equal('CONFLICT');
    expect(await outcome('pause')).to.equal('paused');
    const paused = (await get(`/${rollout.id}`)).body;
    expect(paused.waves[0].counts).to.deep.include({ due: 0, waiting: { wave_not_reached: 50 } });
    expect(paused.next.message).to.equal('The rollout is paused. Resume or abort it.');
    expect(await outcome('pause')).to.equal('CONFLICT');
    expect((await start()).status, 'a paused one is unfinished').to.equal(409);
    expect(await outcome('resume')).to.equal('running');
    const resumed = (await get(`/${rollout.id}`)).body;
    expect(resumed.waves[0].counts.due).to.equal(50);
    expect(resumed.waveOpenedAt > rollout.waveOpenedAt, 'the wave is observed anew').to.equal(true);
    expect(await outcome('abort')).to.equal('aborted');
    for (const action of ['pause', 'resume', 'abort']) expect(await outcome(action)).to.equal('CONFLICT');
    expect((await start()).status).to.equal(201);
    for (const action of ['pause', 'resume', 'abort']) {
      expect((await act('0190a1b2-0000-7000-8000-000000000001', action)).status).to.equal(404);
    }
  });

  it('write an audit entry for each change', async () => {
    await fleet(10);
    const { body } = await start({ version: '1.1.0', waves: [{ percent: 100, soakMinutes: 60 }] });
    for (const action of ['pause', 'resume', 'abort']) await act(body.id, action);
    await bench.app.server.chainWriter.flush();
    const entries = await query<{ action: string }>(
      bench.app,
      `select action, resource_id, resource_name, details, actor_email from audit_logs where action like 'agent_rollout.%' order by id`,
    );
    const about = {
      resource_id: body.id,
      resource_name: 'agent 1.1.0',
      details: { wave: 0, waves: [{ percent: 100, soakMinutes: 60 }] },
      actor_email: bench.admin.email,
    };
    const changes = [
      ['start', {}],
      ['pause', { before: { state: 'running' }, after: { state: 'paused' } }],
      ['resume', { before: { state: 'paused' }, after: { state: 'running' } }],
      ['abort', { before: { state: 'running' }, after: { state: 'aborted' } }],
    ] as const;
    expect(entries).to.deep.equal(
      changes.map(([action, change]) => ({
        ...about,
        action: `agent_rollout.${action}`,
        details: { ...about.details, ...change },
      })),
    );
  });

  it('are for system administrators with a second factor', async () => {
    await fleet(10);
    const { body: rollout } = await start();
    const { admin, technician, viewer } = await people();
    const plain = await buildPerson(bench.app, { scope: 'system' });
    const tokens: [string, string][] = [
      [admin, 'FORBIDDEN'],
      [technician, 'FORBIDDEN'],
      [viewer, 'FORBIDDEN'],
      [plain.token, 'MFA_REQUIRED'],
    ];
    for (const [token, code] of tokens) {
      const answers = [
        await start({ version: '1.1.0' }, token),
        await bench.app.call('GET', '/agent-rollouts', { token }),
        await bench.app.call('GET', `/agent-rollouts/${rollout.id}`, { token }),
        ...(await Promise.all(['pause', 'resume', 'abort'].map((action) => act(rollout.id, action, token)))),
      ];
      expect(answers.map(({ status, body }) => [status, body.code])).to.deep.equal(
        answers.map(() => [403, code]),
      );
    }
    expect((await get(`/${rollout.id}`)).body.state).to.equal('running');
  });

  async function people() {
    const { admin, technician, orgId } = await buildTenant(bench.app);
    await giveSecondFactor(bench.app, admin);
    await giveSecondFactor(bench.app, technician);
    const viewer = await giveSecondFactor(
      bench.app,
      await buildPerson(bench.app, { scope: 'organization', orgId }),
    );
    return { admin: admin.token, technician: technician.token, viewer: viewer.token };
  }
});
