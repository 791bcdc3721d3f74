import { expect } from 'chai';
import { chmod, mkdtemp, readFile, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import fc from 'fast-check';
import { visible, visibleJson, visibleLines } from '../../../src/cli/remote/output.ts';
import { eventually } from '../../support/eventually.ts';
import { buildDevice, buildTenant, type EnrolledDevice, type Person } from '../../support/factories.ts';
import { connectDevice, type FakeDevice } from '../../support/fake-device.ts';
import { startMuster } from '../../support/run-muster.ts';
import { startTcpProxy, type TcpProxy } from '../../support/tcp-proxy.ts';
import { createTestApp, type TestApp } from '../../support/test-app.ts';
import { asOwner } from '../../support/test-postgres.ts';

/** Retitles the window, fills the clipboard, moves up, the same in one byte, reverses what follows, begins another line. */
const HOSTILE = 'a\x1b]0;owned\x07b\x1b]52;c;cm0gLXJm\x07c\x1b[2Ad\u009b31me\u202ef\ng\x7f';
// oxlint-disable-next-line no-control-regex -- what must not be written is what this test is about
const UNSAFE = /[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]/;

const entry = (recordId: number, message: string) => ({
  recordId,
  timeCreated: '2026-11-20T10:00:00.000Z',
  level: 'error',
  source: 'disk',
  eventId: 7,
  message,
  category: 'System',
  user: null,
  computer: 'PC-1',
});

describe('muster, far from the server', function () {
  this.timeout(120_000);
  let app: TestApp;
  let proxy: TcpProxy;
  let tenant: Awaited<ReturnType<typeof buildTenant>>;
  let device: EnrolledDevice;
  let offline: EnrolledDevice;
  let agent: FakeDevice;
  let home: string;
  let key: string;

  before(async () => {
    app = await createTestApp();
    // Between the command line and the server, the network can fail.
    proxy = await startTcpProxy({ host: '127.0.0.1', port: Number(new URL(app.url).port) });
    tenant = await buildTenant(app);
    [device, offline] = [
      await buildDevice(app, tenant.orgId, { hostname: 'HOST-ON' }),
      await buildDevice(app, tenant.orgId, { hostname: 'HOST-OFF' }),
    ];
    agent = await connectDevice(app, device.token);
    await agent.heartbeat();
    await app.settle();
    home = await mkdtemp(path.join(tmpdir(), 'muster-remote-'));
    key = await newKey(tenant.admin, ['devices:read', 'filters:read']);
    const signedIn = await muster(['login', '--server', app.url, '--key-stdin'], { input: `${key}\n` }).ended;
    expect(signedIn).to.include({ code: 0 });
  });
  after(async () => {
    agent?.close();
    await proxy?.cut();
    await app?.close();
    await rm(home, { recursive: true, force: true });
  });

  const newKey = async (person: Person, scopes: string[]): Promise<string> => {
    const { body } = await app.call('POST', '/api-keys', {
      token: person.token,
      body: { name: 'Terminal', scopes },
    });
    return body.key;
  };
  const muster = (args: string[], { input = '' } = {}) =>
    startMuster(args, { env: { XDG_CONFIG_HOME: home }, stdin: input });
  const run = (...args: string[]) => muster(args).ended;
  /** A job that stays open, as its device is away, or that the agent of the other one does. */
  const order = async ({ deviceId }: EnrolledDevice): Promise<string> => {
    await asOwner(
      app.database.ownerUrl,
      `update devices set capabilities = '{script.run}' where id = '${deviceId}'`,
    );
    const { body } = await app.call('POST', `/devices/${deviceId}/commands`, {
      token: tenant.admin.token,
      body: { type: 'script.run', payload: { language: 'bash', content: 'true', timeoutSeconds: 60 } },
    });
    return body.id;
  };
  const jsonLines = (text: string) =>
    text
      .split('\n')
      .filter(Boolean)
      .map((line) => JSON.parse(line) as Record<string, unknown>);
  const file = () => path.join(home, 'muster/profiles.json');

  it('stores a key for its user only, and never a key that the server does not take', async () => {
    expect((await stat(file())).mode & 0o777).to.equal(0o600);
    expect((await stat(path.dirname(file()))).mode & 0o777).to.equal(0o700);
    const before = await readFile(file(), 'utf8');
    expect(before).to.contain(key);

    const unknown = `mstr_${'a'.repeat(46)}`;
    const refused = await muster(['login', '--server', app.url, '--key-stdin'], { input: unknown }).ended;
    expect(refused.code).to.equal(3);
    expect(refused.out + refused.err).not.to.contain(unknown);
    expect(
      (await muster(['login', '--server', app.url, '--key-stdin'], { input: 'hello' }).ended).code,
    ).to.equal(3);
    const plain = await run('login', '--server', 'http://rmm.example.com', '--key-stdin');
    expect(plain.err).to.contain('everybody on the way could read the key');
    expect(plain.code).to.equal(2);
    expect(await readFile(file(), 'utf8')).to.equal(before);

    await chmod(file(), 0o644);
    const open = await run('devices');
    await chmod(file(), 0o600);
    expect([open.code, open.out]).to.deep.equal([2, '']);
    expect(open.err).to.contain('can be read by other users');
  });

  it('says which right is missing, and forgets a profile', async () => {
    const weak = await newKey(tenant.admin, ['scripts:read']);
    const args = ['login', '--server', app.url, '--profile', 'weak', '--key-stdin', '--json'];
    const signedIn = await muster(args, { input: weak }).ended;
    expect(jsonLines(signedIn.out)[0]).to.deep.include({ profile: 'weak', permissions: ['scripts:read'] });
    const [devices, query, profiles] = await Promise.all([
      run('devices'),
      run('query', '--where', 'osType equals linux', '--log', 'System'),
      run('profiles', '--json'),
    ]);
    expect([devices.code, devices.out]).to.deep.equal([4, '']);
    expect(devices.err).to.contain('devices:read');
    expect(query.code).to.equal(4);
    expect(jsonLines(profiles.out).map(({ name, current }) => [name, current])).to.deep.equal([
      ['default', false],
      ['weak', true],
    ]);
    expect((await run('logout')).out).to.contain('stays valid');
    expect((await run('devices', '--profile', 'weak')).code).to.equal(3);
    expect(await readFile(file(), 'utf8')).not.to.contain(weak);
  });

  it('lists devices as a table or as lines of JSON, also by conditions', async () => {
    const [text, json, found, wrong] = await Promise.all([
      run('devices', '--columns', 'hostname,status', '--sort', 'hostname', '--order', 'desc'),
      run('devices', '--json', '--limit', '1'),
      run('devices', '--json', '--where', 'status equals online'),
      run('devices', '--where', 'nonsense equals 1'),
    ]);
    expect(text).to.deep.equal({
      code: 0,
      out: 'HOSTNAME  STATUS\nHOST-ON   online\nHOST-OFF  offline\n',
      err: '2 devices\n',
    });
    expect(jsonLines(json.out).map(({ hostname, siteId }) => [hostname, siteId])).to.deep.equal([
      ['HOST-OFF', offline.siteId],
    ]);
    expect(jsonLines(found.out).map(({ id }) => id)).to.deep.equal([device.deviceId]);
    expect(wrong.code).to.equal(2);
    expect(wrong.err).to.contain('nonsense');
  });

  it('reads logs live, shows what is hostile in them as text, and says which device did not answer', async () => {
    const asked = muster([
      'query',
      '--where',
      'osType equals linux',
      '--log',
      'System',
      '--since',
      '2h',
      '--limit',
      '2',
    ]);
    const frame = await agent.nextCommand();
    expect(frame).to.deep.include({ type: 'eventlogs.query' });
    // One more than is shown, which tells whether there are more.
    expect(frame.payload).to.include({ name: 'System', limit: 3 });
    await agent.rows(frame, [entry(1, HOSTILE), entry(2, 'Plain'), entry(3, 'Beyond')]);
    await agent.succeed(frame, { scanned: 9, truncated: false });
    const { code, out, err } = await asked.ended;
    expect(out.split('\n')).to.have.length(3);
    expect(out).to.contain(
      String.raw`a\x1b]0;owned\x07b\x1b]52;c;cm0gLXJm\x07c\x1b[2Ad\x9b31me\u{202e}f\ng\x7f`,
    );
    expect(out + err).not.to.match(UNSAFE);
    expect(err).to.contain('HOST-ON: only the newest 2 entries are shown, and there are more. --limit 500');
    expect(err).to.match(/^HOST-OFF: offline\n.*\n2 devices: 1 offline, 1 answered\. 2 entries\.\n$/);
    expect(code).to.equal(1);
  });

  it('lists and ends processes and controls services, with what the device says if it refuses', async () => {
    const acting = await newKey(tenant.admin, ['devices:read', 'devices:execute']);
    const as = (words: string[], input = '') =>
      startMuster(words, { env: { XDG_CONFIG_HOME: path.join(home, 'acting') }, stdin: input }).ended;
    await as(['login', '--server', app.url, '--key-stdin'], `${acting}\n`);
    const onDevice = (words: string[]) => as([...words, '--device', 'HOST-ON']);
    const startedAt = '2026-11-20T10:00:00.000Z';
    const listing = onDevice(['processes', 'list', '--search', 'JOB']);
    const asked = await agent.nextCommand();
    await agent.rows(asked, [
      { pid: 7, name: 'other' },
      { pid: 4711, name: 'python3', commandLine: `job ${HOSTILE}`, startedAt, cpuPercent: 12.5 },
    ]);
    await agent.succeed(asked, { total: 4200 });
    const listed = await listing;
    expect(listed).to.include({ code: 0 });
    expect(listed.out)
      .to.match(/4711 +12\.5 % .*python3/)
      .and.not.match(UNSAFE);
    expect(listed.err).to.include('1 of 4200 processes');

    const ending = onDevice(['processes', 'end', '--pid', '4711', '--started-at', startedAt, '--json']);
    const order = await agent.nextCommand();
    expect(order.payload).to.deep.equal({ pid: 4711, startedAt });
    await agent.succeed(order, { outcome: 'still_running', name: 'python3', graceSeconds: 5 });
    const ended = await ending;
    expect(ended.code).to.equal(1);
    expect(JSON.parse(ended.out)).to.deep.include({ pid: 4711, outcome: 'still_running' });

    const stopping = onDevice(['services', 'stop', '--name', '; rm -rf /']);
    const refused = await agent.nextCommand();
    expect(refused.payload).to.deep.equal({ name: '; rm -rf /', action: 'stop' });
    await agent.fail(refused, 'SERVICE_NOT_FOUND', 'There is no such service.');
    const stopped = await stopping;
    expect(stopped.code).to.equal(2);
    expect(stopped.err).to.include('There is no such service.');
    const away = await as(['services', 'list', '--device', 'HOST-OFF']);
    expect(away).to.include({ code: 1 });
    // The first key may read only.
    const reading = await muster([
      'processes',
      'end',
      '--device',
      'HOST-ON',
      '--pid',
      '7',
      '--started-at',
      startedAt,
    ]).ended;
    expect(reading).to.include({ code: 4 });
  });

  it('gives the same as JSON that a terminal cannot be harmed with, and follows a log until Ctrl+C', async () => {
    const asked = muster(['query', '--device', 'host-on', '--log', 'System', '--follow', '--json']);
    const frame = await agent.nextCommand();
    expect(frame.type).to.equal('eventlogs.tail');
    await agent.rows(frame, [entry(1, HOSTILE)]);
    await eventually(asked.out, (text) => text.includes('\n'));
    asked.interrupt();
    await eventually(
      () => agent.cancelled,
      (ids) => ids.includes(frame.id),
    );
    await agent.finish(frame, { status: 'cancelled' });
    const { code, out } = await asked.ended;
    const [row, outcome] = jsonLines(out);
    expect(row).to.deep.include({ type: 'entry', hostname: 'HOST-ON', entry: entry(1, HOSTILE) });
    expect(outcome).to.include({ type: 'outcome', outcome: 'cancelled', rows: 1 });
    expect(out).not.to.match(UNSAFE);
    expect(code).to.equal(130);
  });

  it('keeps what it has when the server goes away in the middle, and says so', async () => {
    const args = ['login', '--server', `http://127.0.0.1:${proxy.port}`, '--profile', 'far', '--key-stdin'];
    expect((await muster(args, { input: key }).ended).code).to.equal(0);
    const job = await order(offline);
    const asked = muster(['query', '--device', device.deviceId, '--log', 'System']);
    const [impatient, patient] = ['1', '600'].map((seconds) =>
      muster(['jobs', 'watch', '--reconnect', seconds]),
    );
    for (const watch of [impatient, patient]) await eventually(watch!.out, (text) => text.includes(job));
    const frame = await agent.nextCommand();
    await agent.rows(frame, [entry(1, 'Before the end')]);
    await eventually(asked.out, (text) => text.includes('Before the end'));
    await proxy.cut();
    const { code, err } = await asked.ended;
    expect(err).to.contain('The connection to the server was lost.');
    expect(code).to.equal(5);
    // The device is not left reading for nobody.
    await eventually(
      () => agent.cancelled,
      (ids) => ids.includes(frame.id),
    );
    expect((await impatient!.ended).code).to.equal(5);
    expect((await run('devices')).code).to.equal(5);
    await proxy.mend();
    await eventually(patient!.err, (text) => text.endsWith('Connected again.\n'));
    await eventually(patient!.out, (text) => text.split(job).length === 3);
    patient!.interrupt();
    expect((await patient!.ended).code).to.equal(130);
    expect((await run('logout')).code).to.equal(0);
  });

  it('watches one job with its output until it ends', async () => {
    const id = await order(device);
    const frame = await agent.nextCommand();
    const [watched, once] = [
      muster(['jobs', 'watch', '--job', id]),
      run('jobs', 'watch', '--once', '--json'),
    ];
    expect(jsonLines((await once).out).map((job) => job['id'])).to.include(id);
    await eventually(watched.out, (text) => text.includes(id));
    await agent.rows(frame, [
      { stream: 'stdout', text: 'first\x1b[2K\nsec' },
      { stream: 'stdout', text: 'ond\n' },
    ]);
    await eventually(watched.out, (text) => text.includes('second'));
    await agent.finish(frame, {
      status: 'failed',
      error: { code: 'E', message: 'No' },
    });
    const { code, out } = await watched.ended;
    expect(code).to.equal(1);
    expect(out).to.contain('first\\x1b[2K\nsecond\n');
    expect(out.trim().split('\n').at(-1)).to.contain('failed');
  });

  it('watches a script that was run and has failed: its exit code says so', async () => {
    const id = await order(device);
    const frame = await agent.nextCommand();
    const watched = muster(['jobs', 'watch', '--job', id]);
    await eventually(watched.out, (text) => text.includes(id));
    await agent.succeed(frame, { exitCode: 3, stdout: '', stderr: '', truncated: false });
    const { code, out } = await watched.ended;
    expect(code).to.equal(1);
    expect(out.trim().split('\n').at(-1)).to.match(/succeeded.*Exit code 3$/);
  });

  it('lists and queries more devices than fit into a page, a message or a query', async () => {
    await asOwner(
      app.database.ownerUrl,
      `insert into devices (id, org_id, site_id, hostname, os_type, os_version, architecture, agent_version, enrolled_at)
       select gen_random_uuid(), '${device.orgId}', '${device.siteId}', 'bulk-' || n, 'linux', '1', 'x64', '1.0.0', now()
       from generate_series(1, 1100) n`,
    );
    const [listed, matching, asked] = await Promise.all([
      run('devices', '--search', 'bulk-', '--json'),
      run('devices', '--where', 'hostname contains bulk-', '--json'),
      run('query', '--where', 'hostname contains bulk-', '--log', 'System', '--json'),
    ]);
    for (const { out } of [listed, matching, asked]) {
      expect(new Set(jsonLines(out).map(({ id, deviceId }) => id ?? deviceId))).to.have.property(
        'size',
        1100,
      );
    }
    expect(asked.err).to.equal('1100 devices: 1100 offline. 0 entries.\n');
    expect(asked.code).to.equal(1);
  });
});

describe('foreign text on a terminal', () => {
  it('has no character left that a terminal obeys, and JSON stays the same value', () => {
    const characters = fc.string({ unit: 'binary', maxLength: 50 });
    fc.assert(
      fc.property(characters, (text) => {
        expect(visible(text)).not.to.match(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/u);
        expect(visibleLines(text)).not.to.match(/[^\P{Cc}\n\t]|[\p{Cf}\p{Zl}\p{Zp}]/u);
        expect(visibleJson({ text })).not.to.match(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/u);
        expect(JSON.parse(visibleJson({ text }))).to.deep.equal({ text });
      }),
    );
  });
});
