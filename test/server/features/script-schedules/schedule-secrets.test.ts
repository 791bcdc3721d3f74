import { expect } from 'chai';
import { SEALED_COLUMNS } from '../../../../src/features/sealed-columns.ts';
import { SYSTEM_ROLES } from '../../../../src/features/users/index.ts';
import { COMMAND_TYPES, SECRETS_CAPABILITY } from '../../../../src/protocol/index.ts';
import { newId } from '../../../../src/platform/ids.ts';
import { resealColumn } from '../../../../src/platform/secrets/reseal.ts';
import { createEncryptor } from '../../../../src/platform/secrets/sealed.ts';
import { buildDevice, buildPerson, buildTenant, type Person } from '../../../support/factories.ts';
import { connectDevice } from '../../../support/fake-device.ts';
import { createTestApp, TEST_ENCRYPTION_KEY, type TestApp } from '../../../support/test-app.ts';
import { runGround, type Tenant } from '../script-runs/run-ground.ts';

const NIGHTLY = { name: 'Nightly', cron: '30 2 * * *', timezone: 'UTC', target: { all: true } };
const PASSWORD = 'hush-hush-4711';

describe('secrets of script schedules', () => {
  let app: TestApp;
  let tenant: Tenant;
  let stranger: Tenant;
  /** A colleague of the person who has set the secrets, with the same rights. */
  let colleague: Person;
  const { call, owner, script } = runGround(
    () => app,
    () => tenant,
  );
  before(async () => {
    // Its own server: what is due runs for all tenants.
    app = await createTestApp();
  });
  after(async () => app.close());
  beforeEach(async () => {
    tenant = await buildTenant(app);
    stranger = await buildTenant(app);
    colleague = await buildPerson(app, { scope: 'partner', partnerId: tenant.partnerId });
  });

  const create = async (more: object = {}, of: Record<string, unknown> = {}) => {
    const scriptId = (await script(of)).id;
    return call('POST', '/script-schedules', { ...NIGHTLY, scriptId, secrets: { PW: PASSWORD }, ...more });
  };
  const made = async (more: object = {}, of: Record<string, unknown> = {}) => {
    const { status, body } = await create(more, of);
    expect(status, JSON.stringify(body)).to.equal(201);
    return body;
  };
  const change = (id: string, patch: object, token?: string) =>
    call('PATCH', `/script-schedules/${id}`, patch, token);
  const read = async (id: string, token?: string) =>
    (await call('GET', `/script-schedules/${id}`, undefined, token)).body;
  const names = ({ secrets }: { secrets: { name: string }[] }) => secrets.map(({ name }) => name);
  const runsOf = async (id: string) => (await call('GET', `/script-runs?scheduleId=${id}`)).body.data;
  const runDue = async (id: string) => {
    await owner(`update script_schedules set next_at = now() - interval '1 minute' where id = $1`, [id]);
    await owner(`update job_schedules set next_at = now() where name = 'script-schedules.run-due'`);
    await app.settle();
  };
  const connected = async (orgId = tenant.orgId) => {
    const device = await buildDevice(app, orgId, { osType: 'linux' });
    return {
      ...device,
      agent: await connectDevice(app, device.token, { capabilities: [...COMMAND_TYPES, SECRETS_CAPABILITY] }),
    };
  };

  it('reach the devices of each run and nobody else, and are shown by no answer, entry or row', async () => {
    const device = await connected();
    const other = await connected();
    const theirs = await connected(stranger.orgId);
    const schedule = await made({ orgId: tenant.orgId, target: { deviceIds: [device.deviceId] } });
    expect(schedule.secrets).to.deep.equal([
      { name: 'PW', setBy: tenant.admin.id, setAt: schedule.secrets[0].setAt },
    ]);
    for (const round of [1, 2]) {
      // oxlint-disable-next-line no-await-in-loop
      await runDue(schedule.id);
      // oxlint-disable-next-line no-await-in-loop
      await owner(`update script_runs set slot_at = slot_at - interval '1 day' where schedule_id = $1`, [
        schedule.id,
      ]);
      // oxlint-disable-next-line no-await-in-loop
      const frame = await device.agent.nextCommand();
      expect(Object.values(frame.secrets ?? {}), `round ${round}`).to.deep.equal([PASSWORD]);
      expect(JSON.stringify(frame.payload)).not.to.include(PASSWORD);
      // oxlint-disable-next-line no-await-in-loop
      await device.agent.succeed(frame, { exitCode: 0, stdout: '', stderr: '', truncated: false });
      // oxlint-disable-next-line no-await-in-loop
      await app.settle();
    }
    expect([other.agent.commands.length, theirs.agent.commands.length]).to.deep.equal([0, 0]);
    const [run] = await runsOf(schedule.id);
    expect(run.secretNames).to.deep.equal(['PW']);
    await change(schedule.id, { secrets: { PW: `${PASSWORD}-2` } });
    await app.server.chainWriter.flush();
    const answers = await Promise.all(
      [
        `/script-schedules/${schedule.id}`,
        '/script-schedules',
        `/script-runs/${run.id}`,
        '/script-runs',
        '/commands',
        '/audit-logs',
      ].map(async (path) => (await call('GET', path)).body),
    );
    expect(JSON.stringify(answers)).not.to.include(PASSWORD);
    const tables = await owner<{ name: string }>(
      `select quote_ident(tablename) as name from pg_tables where schemaname = 'public'`,
    );
    const held = await owner(
      tables
        .map(({ name }) => `select '${name}' as name from ${name} t where t::text like '%${PASSWORD}%'`)
        .join(' union all '),
    );
    expect(held).to.deep.equal([]);
    expect(JSON.stringify(app.log)).not.to.include(PASSWORD);
  });

  it('are set, replaced, kept and removed one by one, each noted by its name', async () => {
    const schedule = await made({ secrets: { PW: 'one', KEY: 'two' } });
    expect(names(schedule)).to.deep.equal(['KEY', 'PW']);
    const replaced = await change(schedule.id, { secrets: { pw: 'three', MORE: 'four' } });
    expect(names(replaced.body)).to.deep.equal(['KEY', 'MORE', 'pw']);
    const removed = await change(schedule.id, { secrets: { KEY: null } });
    expect(names(removed.body)).to.deep.equal(['MORE', 'pw']);
    expect(names((await change(schedule.id, { name: 'Weekly' })).body)).to.deep.equal(['MORE', 'pw']);
    const device = await connected();
    await runDue(schedule.id);
    const frame = await device.agent.nextCommand();
    expect(Object.values(frame.secrets ?? {})).to.have.members(['three', 'four']);
    await app.server.chainWriter.flush();
    const [entry] = await owner(
      `select details from audit_logs where action = 'script.schedule.update'
        and resource_id = $1 order by "timestamp" limit 1`,
      [schedule.id],
    );
    expect(JSON.stringify(entry)).to.include('MORE').and.not.to.include('KEY');
    const none = await change(schedule.id, { secrets: { MORE: null, pw: null } });
    expect([none.body.secrets, none.body.secretsFor]).to.deep.equal([[], null]);
    await change(schedule.id, { secrets: { PW: 'x' } });
    await call('DELETE', `/script-schedules/${schedule.id}`);
    expect(
      await owner('select id from script_schedule_secrets where schedule_id = $1', [schedule.id]),
    ).to.deep.equal([]);
  });

  it('take no nonsense', async () => {
    const schedule = await made({ secrets: { PW: 'a'.repeat(4000) } });
    const refused = async (secrets: unknown, path = 'body.secrets') => {
      const { status, body } = await change(schedule.id, { secrets });
      expect([status, body.details?.[0].path], JSON.stringify(secrets).slice(0, 60)).to.deep.equal([
        400,
        path,
      ]);
    };
    await refused({ 'A B': 'x' }, 'body.secrets.A B');
    await refused({ A: '' }, 'body.secrets.A');
    await refused({ A: 5 }, 'body.secrets.A');
    await refused({ A: 'x\u0000' }, 'body.secrets.A');
    await refused({ A: 'x'.repeat(4001) }, 'body.secrets.A');
    await refused({ A: 'x', a: 'y' });
    await refused({ NONE: null }, 'body.secrets.NONE');
    await refused({ A: 'x'.repeat(4000), B: 'x'.repeat(4000) });
    await refused(Object.fromEntries(Array.from({ length: 30 }, (_, n) => [`S${n}`, 'x'])));
    await refused('PW');
    expect((await change(schedule.id, { secrets: { A: 'x'.repeat(1_000_000) } })).status).to.equal(413);
    expect(names(await read(schedule.id))).to.deep.equal(['PW']);
  });

  it('are asked for if the script requires them, under the right name', async () => {
    const parameters = [
      { name: 'PW', type: 'secret', required: true },
      { name: 'HOST', type: 'text' },
    ];
    const missing = await create({ secrets: { OTHER: 'x' } }, { parameters });
    expect(missing.body.details).to.deep.equal([
      { path: 'body.secrets.PW', message: 'is required by the script' },
    ]);
    const inTheClear = await create({ parameters: { PW: 'x' } }, { parameters });
    expect(inTheClear.body.details[0].path).to.equal('body.parameters.PW');
    const sealed = await create({ secrets: { PW: 'x', HOST: 'y' } }, { parameters });
    expect(sealed.body.details[0].path).to.equal('body.secrets.HOST');
    const schedule = await made({}, { parameters });
    const removed = await change(schedule.id, { secrets: { PW: null } });
    expect(removed.body.details[0]).to.deep.equal({
      path: 'body.secrets.PW',
      message: 'is required by the script',
    });
  });

  it('are out of the reach of other tenants, viewers, and people of an organization', async () => {
    const schedule = await made();
    const viewer = await buildPerson(app, {
      scope: 'partner',
      partnerId: tenant.partnerId,
      role: SYSTEM_ROLES.partnerViewer,
    });
    expect(names(await read(schedule.id, viewer.token))).to.deep.equal(['PW']);
    expect((await change(schedule.id, { secrets: { PW: 'x' } }, viewer.token)).status).to.equal(403);
    for (const token of [stranger.admin.token, tenant.technician.token]) {
      // oxlint-disable-next-line no-await-in-loop
      expect((await change(schedule.id, { secrets: { PW: 'x' } }, token)).status).to.equal(404);
    }
    const device = await buildDevice(app, stranger.orgId);
    expect((await change(schedule.id, { target: { deviceIds: [device.deviceId] } })).status).to.equal(400);
    const asDevice = await call('GET', `/script-schedules/${schedule.id}`, undefined, device.token);
    expect(asDevice.status).to.equal(401);
  });

  it('stay where the person who knows them has put them: others give them again or remove them', async () => {
    const [device, mine] = [await connected(), await connected()];
    const target = { deviceIds: [device.deviceId] };
    const schedule = await made({
      target,
      parameters: { HOST: 'db.example' },
      secrets: { PW: PASSWORD, KEY: 'k' },
    });
    const evil = await script({ content: 'echo "$SECRET_PW"' });
    const current = (await call('GET', `/scripts/${schedule.scriptId}`)).body;
    for (const patch of [
      { scriptId: evil.id },
      { target: { deviceIds: [mine.deviceId] } },
      { target: { all: true } },
      { parameters: { HOST: 'evil.example' } },
      { secrets: { HOST: 'evil.example' } },
      { secrets: { KEY: 'x' } },
      { secrets: { KEY: null } },
      { scriptId: evil.id, secrets: { KEY: 'x' } },
    ]) {
      // oxlint-disable-next-line no-await-in-loop
      const { status, body } = await change(schedule.id, patch, colleague.token);
      expect([status, body.details?.at(-1)?.path], JSON.stringify(patch)).to.deep.equal([
        400,
        'body.secrets.PW',
      ]);
    }
    // What changes nothing about the use of the secrets is theirs to change; it runs by their rights then.
    const renamed = await change(
      schedule.id,
      {
        name: 'Weekly',
        cron: '0 4 * * 1',
        target,
        parameters: { HOST: 'db.example' },
        scriptFingerprint: current.fingerprint,
      },
      colleague.token,
    );
    expect(renamed.body).to.include({ name: 'Weekly', runsAs: colleague.id, paused: null });
    await runDue(schedule.id);
    const frame = await device.agent.nextCommand();
    expect(Object.values(frame.secrets ?? {})).to.have.members([PASSWORD, 'k']);
    // The person who has set them may do all of it.
    const moved = await change(schedule.id, { target: { all: true }, secrets: { KEY: null } });
    expect(moved.status).to.equal(200);
    // So may another person who gives them again, and from then on knows them.
    const taken = await change(
      schedule.id,
      { scriptId: evil.id, secrets: { PW: 'of the colleague' } },
      colleague.token,
    );
    expect(taken.body.secrets[0].setBy).to.equal(colleague.id);
    expect((await change(schedule.id, { parameters: {} })).status).to.equal(400);
    const without = await change(schedule.id, { parameters: {}, secrets: { PW: null } });
    expect([without.status, without.body.secrets]).to.deep.equal([200, []]);
    // Nobody knows those of a person who is gone.
    await change(schedule.id, { secrets: { PW: 'y' } }, colleague.token);
    await owner('delete from users where id = $1', [colleague.id]);
    expect((await change(schedule.id, { target })).body.details[0].path).to.equal('body.secrets.PW');
  });

  it('are given to the script as it was read: one that was changed since waits for who knows them', async () => {
    const device = await connected();
    const schedule = await made();
    const scriptPath = `/scripts/${schedule.scriptId}`;
    const first = (await call('GET', scriptPath)).body;
    expect(schedule.secretsFor).to.equal(first.fingerprint);
    await call('PATCH', scriptPath, { name: 'Other name', description: 'x' });
    expect((await read(schedule.id)).paused).to.equal(null);
    for (const edit of [
      { content: 'echo "$SECRET_PW"' },
      { language: 'python' },
      { timeoutSeconds: 301 },
      { osTypes: ['windows', 'linux'] },
      { parameters: [{ name: 'HOST', defaultValue: 'evil.example' }] },
    ]) {
      // oxlint-disable-next-line no-await-in-loop
      await call('PATCH', scriptPath, edit, colleague.token);
      // oxlint-disable-next-line no-await-in-loop
      const shown = await read(schedule.id);
      expect([shown.paused?.reason, shown.nextRuns], JSON.stringify(edit)).to.deep.equal([
        'script_changed',
        [],
      ]);
      const undo = {
        content: first.content,
        language: first.language,
        timeoutSeconds: first.timeoutSeconds,
        osTypes: first.osTypes,
        parameters: first.parameters,
      };
      // oxlint-disable-next-line no-await-in-loop
      await call('PATCH', scriptPath, undo, colleague.token);
      // oxlint-disable-next-line no-await-in-loop
      expect((await read(schedule.id)).paused).to.equal(null);
    }
    await call('PATCH', scriptPath, { content: 'echo "$SECRET_PW"' }, colleague.token);
    await runDue(schedule.id);
    expect(await runsOf(schedule.id)).to.deep.equal([]);
    const { fingerprint } = (await call('GET', scriptPath)).body;
    // Others may still rename it, and it stays paused.
    const renamed = await change(schedule.id, { name: 'Weekly', enabled: true }, colleague.token);
    expect(renamed.body.paused.reason).to.equal('script_changed');
    expect((await change(schedule.id, { scriptFingerprint: fingerprint }, colleague.token)).status).to.equal(
      400,
    );
    expect((await change(schedule.id, { scriptFingerprint: first.fingerprint })).status).to.equal(409);
    // Nor does who knows the secrets give them to it by the way.
    expect((await change(schedule.id, { name: 'Monthly' })).body.paused.reason).to.equal('script_changed');
    await runDue(schedule.id).catch(() => undefined);
    expect(await runsOf(schedule.id)).to.deep.equal([]);
    const confirmed = await change(schedule.id, { scriptFingerprint: fingerprint });
    expect(confirmed.body).to.deep.include({ paused: null, secretsFor: fingerprint });
    await runDue(schedule.id);
    const frame = await device.agent.nextCommand();
    expect(Object.values(frame.secrets ?? {})).to.deep.equal([PASSWORD]);
    await app.server.chainWriter.flush();
    const trail = await owner(
      `select details ->> 'reason' as reason from audit_logs where action = 'script.schedule.pause' and resource_id = $1`,
      [schedule.id],
    );
    expect(trail).to.deep.equal([{ reason: 'script_changed' }]);
  });

  it('follow what the script declares: a value that has become secret is kept and shown no longer', async () => {
    const device = await connected();
    const schedule = await made({ parameters: { KEY: PASSWORD, DAYS: '3' }, secrets: {} });
    const scriptPath = `/scripts/${schedule.scriptId}`;
    const declare = (parameters: object[]) => call('PATCH', scriptPath, { parameters });
    await declare([{ name: 'key', type: 'secret' }]);
    await runDue(schedule.id);
    const frame = await device.agent.nextCommand();
    expect(frame.payload).to.deep.include({ parameters: { DAYS: '3' } });
    const renamed = await change(schedule.id, { name: 'Weekly' });
    expect(renamed.body.parameters).to.deep.equal({ DAYS: '3' });
    await declare([{ name: 'KEY', type: 'secret', required: true }]);
    await runDue(schedule.id);
    expect((await read(schedule.id)).paused.reason).to.equal('secrets_missing');
    expect(await runsOf(schedule.id)).to.have.length(1);
    const given = await change(schedule.id, { secrets: { KEY: 'k' } });
    expect(given.body).to.deep.include({ paused: null });
    // It has become a plain one: what is sealed is not handed out in the clear, and has to be removed.
    await declare([{ name: 'KEY', type: 'text' }]);
    const { fingerprint } = (await call('GET', scriptPath)).body;
    expect((await read(schedule.id)).paused.reason).to.equal('script_changed');
    const kept = await change(schedule.id, { scriptFingerprint: fingerprint });
    expect(kept.body.details[0].path).to.equal('body.secrets.KEY');
    const moved = await change(schedule.id, { secrets: { KEY: null }, parameters: { KEY: 'plain' } });
    expect(moved.body).to.deep.include({ paused: null, secrets: [], parameters: { KEY: 'plain' } });
  });

  it('that cannot be opened pause the schedule until they are set again', async () => {
    await connected();
    const schedule = await made();
    await owner('update script_schedule_secrets set id = $2 where schedule_id = $1', [schedule.id, newId()]);
    await runDue(schedule.id);
    expect((await read(schedule.id)).paused.reason).to.equal('secrets_unreadable');
    expect((await change(schedule.id, { secrets: { MORE: 'x' } })).status).to.equal(200);
    expect((await change(schedule.id, { secrets: { PW: 'x' } })).body.paused).to.equal(null);
    await runDue(schedule.id);
    expect(await runsOf(schedule.id)).to.have.length(1);
  });

  it('are sealed with the newest key when keys are rotated, and open as before', async () => {
    const device = await connected();
    const schedule = await made();
    const { pool } = app.server.database;
    const former = createEncryptor({ current: 'a former key', old: [TEST_ENCRYPTION_KEY] });
    const newest = createEncryptor({ current: TEST_ENCRYPTION_KEY, old: ['a former key'] });
    const column = SEALED_COLUMNS.find(({ table }) => table === 'script_schedule_secrets')!;
    await resealColumn(pool, former, column);
    const { seen, resealed } = await resealColumn(pool, newest, column);
    expect([seen > 0, resealed]).to.deep.equal([true, seen]);
    await runDue(schedule.id);
    const frame = await device.agent.nextCommand();
    expect(Object.values(frame.secrets ?? {})).to.deep.equal([PASSWORD]);
  });

  it('refuse devices whose agents cannot take secrets', async () => {
    const schedule = await made();
    const device = await buildDevice(app, tenant.orgId);
    await owner(`update devices set capabilities = '{script.run}' where id = $1`, [device.deviceId]);
    await runDue(schedule.id);
    const [run] = await runsOf(schedule.id);
    expect(run.counts.refused).to.equal(1);
  });
});
