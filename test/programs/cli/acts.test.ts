import { expect } from 'chai';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { SYSTEM_ROLES } from '../../../src/features/users/index.ts';
import { type CliUser, signInAtCli } from '../../support/cli-user.ts';
import {
  buildDevice,
  buildOrganization,
  buildPerson,
  buildSite,
  buildTenant,
  type EnrolledDevice,
} from '../../support/factories.ts';
import { connectDevice, type FakeDevice } from '../../support/fake-device.ts';
import { eventually } from '../../support/eventually.ts';
import { type RunningMuster, startMuster } from '../../support/run-muster.ts';
import { createTestApp, type TestApp } from '../../support/test-app.ts';
import { asOwner } from '../../support/test-postgres.ts';

// oxlint-disable-next-line no-control-regex -- what must not be written is what this test is about
const UNSAFE = /[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e]/;
const ALL = ['devices:read', 'devices:write', 'devices:execute', 'filters:read', 'sites:read', 'users:read'];

describe('muster acts on devices and searches', function () {
  this.timeout(60_000);
  let app: TestApp;
  let tenant: Awaited<ReturnType<typeof buildTenant>>;
  let user: CliUser;
  let one: EnrolledDevice;
  let two: EnrolledDevice;
  let agent: FakeDevice;

  before(async () => {
    app = await createTestApp();
    tenant = await buildTenant(app);
    user = await signInAtCli(app, tenant.admin, ALL);
    one = await buildDevice(app, tenant.orgId, { hostname: 'ACT-ONE' });
    two = await buildDevice(app, tenant.orgId, { hostname: 'ACT-TWO' });
    agent = await connectDevice(app, one.token);
    await agent.heartbeat();
    await asOwner(app.database.ownerUrl, `update devices set capabilities = '{agent.reboot}'`);
    await app.settle();
  });
  after(async () => {
    agent?.close();
    await user?.leave();
    await app?.close();
  });

  const device = async (id: string) =>
    (await app.call('GET', `/devices/${id}`, { token: tenant.admin.token })).body;
  const create = async (route: string, body: object) => {
    const made = await app.call('POST', route, { token: tenant.admin.token, body });
    expect(made.status, JSON.stringify(made.body)).to.equal(201);
    return made.body.id as string;
  };
  const hostIs = (value: string) => ({
    operator: 'AND',
    conditions: [{ field: 'hostname', operator: 'equals', value }],
  });

  it('restarts one device without a question, and says which waits for it', async () => {
    const ran = await user.run('devices', 'restart', 'act-one', '--delay', '5');
    expect(ran).to.deep.equal({
      code: 0,
      out: 'HOSTNAME  RESULT\nACT-ONE   It was told to restart.\n',
      err: '1 device\n',
    });
    const frame = await agent.nextCommand();
    expect(frame).to.deep.include({ type: 'agent.reboot', payload: { delaySeconds: 5 } });
    await agent.succeed(frame, {});
    const away = await user.json('devices', 'restart', two.deviceId);
    expect(away.lines[0]).to.include({ deviceId: two.deviceId, ok: true });
    expect(away.lines[0]?.['message']).to.match(/^Offline: it restarts when it is back, until \d{4}-/);
    expect(away.lines[0]?.['commandId']).to.be.a('string');
  });

  it('changes several only with --yes or an answer, and none in a dry run', async () => {
    const names = ['ACT-ONE', 'ACT-TWO'];
    const asked = await user.run('devices', 'restart', ...names);
    expect([asked.code, asked.out]).to.deep.equal([2, '']);
    expect(asked.err).to.contain('2 devices will be restarted').and.contain('Give --yes');
    const dry = await user.run('devices', 'tag', ...names, '--add', 'x', '--dry-run');
    expect(dry.out).to.match(/^HOSTNAME +STATUS +ID\nACT-ONE .*\nACT-TWO .*\n$/);
    expect(dry.err).to.equal('2 devices would be given other tags. Nothing was changed.\n');
    expect((await device(one.deviceId)).tags).to.deep.equal([]);
    expect(agent.commands).to.deep.equal([]);

    const tagged = await user.run('devices', 'tag', ...names, '--add', 'front, till', '--yes');
    expect(tagged).to.include({ code: 0, err: '2 devices\n' });
    expect((await device(two.deviceId)).tags).to.deep.equal(['front', 'till']);
    expect((await user.run('devices', 'tag', 'ACT-TWO', '--remove', 'front')).code).to.equal(0);
    expect((await device(two.deviceId)).tags).to.deep.equal(['till']);
    expect((await user.run('devices', 'tag', 'ACT-TWO')).err).to.contain('--add or --remove');
  });

  it('asks at a terminal, and takes only yes for an answer', async () => {
    const words = ['devices', 'tag', 'ACT-ONE', 'ACT-TWO', '--add', 'asked'];
    const asked = async (act: (run: RunningMuster) => void) => {
      const run = startMuster(words, { env: user.env, terminal: { columns: 80, rows: 24 } });
      await eventually(run.err, (text) => text.includes('Go on? [y/N] '));
      act(run);
      return (await run.ended).code;
    };
    expect(await asked((run) => run.type('n\r'))).to.equal(2);
    expect(await asked((run) => run.type('\r'))).to.equal(2);
    expect(await asked((run) => run.type('\x03'))).to.equal(130);
    expect(await asked((run) => run.hangUp())).to.equal(2);
    expect((await device(one.deviceId)).tags).not.to.include('asked');
    expect(await asked((run) => run.type('yes\r'))).to.equal(0);
    expect((await device(one.deviceId)).tags).to.include('asked');
  });

  it('takes devices by group, filter and conditions, each once', async () => {
    const { orgId } = tenant;
    await create('/groups', { orgId, name: 'Counter', deviceIds: [one.deviceId, two.deviceId] });
    await create('/filters', { orgId, name: 'Only two', conditions: hostIs('ACT-TWO') });
    await create('/groups', { orgId, name: 'Both', deviceIds: [one.deviceId] });
    await create('/filters', { orgId, name: 'Both', conditions: hostIs('ACT-TWO') });
    const named = async (...words: string[]) => {
      const { lines, err, code } = await user.json('devices', 'approve', '--dry-run', ...words);
      return code === 0 ? lines.map(({ hostname }) => hostname) : err;
    };
    expect(await named('counter')).to.deep.equal(['ACT-ONE', 'ACT-TWO']);
    expect(await named('Only two', 'ACT-TWO', two.deviceId)).to.deep.equal(['ACT-TWO']);
    expect(await named('group:Both')).to.deep.equal(['ACT-ONE']);
    expect(await named('filter:Both')).to.deep.equal(['ACT-TWO']);
    expect(await named('--where', 'hostname equals ACT-ONE')).to.deep.equal(['ACT-ONE']);
    expect(await named('Both')).to.contain('Write group:Both or filter:Both');
    expect(await named('nowhere')).to.contain('There is no device, group or filter nowhere');
    expect(await named('--where', 'hostname equals NO-ONE')).to.contain('No device matches');
    expect(await named()).to.contain('Name devices');
  });

  it('begins and ends maintenance, and names each device that refuses', async () => {
    const begun = await user.run('devices', 'maintenance', 'on', 'ACT-TWO', '--until', '2h');
    expect(begun.out).to.match(/In maintenance until \d{4}-\d\d-\d\d \d\d:\d\d /);
    expect((await device(two.deviceId)).status).to.equal('maintenance');
    expect((await user.run('devices', 'maintenance', 'off', 'ACT-TWO')).code).to.equal(0);
    expect((await device(two.deviceId)).status).not.to.equal('maintenance');
    const wrong = await user.run('devices', 'maintenance', 'off', 'ACT-TWO', '--until', '2h');
    expect(wrong.err).to.contain('--until is for maintenance that begins');
    expect((await user.run('devices', 'approve', 'ACT-ONE')).code).to.equal(1);
  });

  it('moves to a site, and asks before an organization is left', async () => {
    await buildSite(app, tenant.orgId, { name: 'Branch' });
    const moved = await user.run('devices', 'move', 'ACT-TWO', '--to', 'branch');
    expect(moved.out).to.contain('At the site Branch.');
    const otherOrg = await buildOrganization(app, tenant.partnerId);
    await buildSite(app, otherOrg, { name: 'Far away' });
    const refused = await user.run('devices', 'move', 'ACT-TWO', '--to', 'Far away');
    expect([refused.code, refused.out]).to.deep.equal([2, '']);
    const far = await user.run('devices', 'move', 'ACT-TWO', '--to', 'Far away', '--yes');
    expect(far.out).to.contain('of another organization. It has left Counter.');
    expect((await device(two.deviceId)).orgId).to.equal(otherOrg);
  });

  it('finds what the palette finds, with what has matched', async () => {
    await asOwner(
      app.database.ownerUrl,
      `update devices set hardware = '{"serialNumber":"5CG-CLI-7"}' where id = '${one.deviceId}'`,
    );
    await app.settle();
    const people = await user.run('search', tenant.admin.email);
    expect(people.out).to.match(/^KIND +NAME +ID +MATCHED\nperson /);
    const { lines } = await user.json('search', 'act-');
    expect(lines.map(({ type, title }) => [type, title])).to.deep.include(['devices', 'ACT-ONE']);
    const kinds = await user.json('search', 'Both');
    expect(kinds.lines.map(({ type }) => type)).to.include.members(['groups', 'filters']);
    expect((await user.run('search', 'nothing is called this')).err).to.equal('0 results\n');
  });

  it('shows host names that a terminal would obey as text', async () => {
    const hostile = await buildDevice(app, tenant.orgId, { hostname: 'HOSTILE' });
    await asOwner(
      app.database.ownerUrl,
      `update devices set hostname = E'a\\x1b]0;x\\x07\\u202eb' where id = '${hostile.deviceId}'`,
    );
    const ran = await Promise.all([
      user.run('devices', '--search', 'b'),
      user.run('search', ']0;x'),
      user.run('devices', 'tag', hostile.deviceId, '--add', 'x', '--dry-run'),
      user.run('devices', 'restart', hostile.deviceId, 'ACT-ONE'),
    ]);
    for (const { out, err } of ran) expect(out + err).not.to.match(UNSAFE);
    expect(ran[2].out).to.contain(String.raw`a\x1b]0;x\x07\u{202e}b`);
  });

  it('refuses a viewer and a key that may only read, and finds nothing of another tenant', async () => {
    const viewer = await buildPerson(app, {
      scope: 'organization',
      orgId: tenant.orgId,
      role: SYSTEM_ROLES.organizationViewer,
    });
    const looking = await signInAtCli(app, viewer, ['devices:read']);
    const stranger = await signInAtCli(app, (await buildTenant(app)).admin, ALL);
    for (const words of [
      ['restart', 'ACT-ONE'],
      ['tag', 'ACT-ONE', '--add', 'x'],
      ['maintenance', 'on', 'ACT-ONE'],
      ['approve', 'ACT-ONE'],
    ]) {
      expect(await looking.run('devices', ...words), words.join(' ')).to.include({ code: 4, out: '' });
      const strange = await stranger.run('devices', ...words);
      expect([strange.code, strange.err], words.join(' ')).to.deep.equal([
        2,
        'There is no device, group or filter ACT-ONE that you may see.\n',
      ]);
    }
    expect((await stranger.run('devices', 'restart', one.deviceId)).code).to.equal(2);
    await Promise.all([looking.leave(), stranger.leave()]);
  });
});

describe('muster and a server that answers nonsense', function () {
  this.timeout(60_000);
  let server: Server;
  let answer: (url: string) => { status: number; body: string | Buffer };

  before(async () => {
    server = createServer((request, response) => {
      const { status, body } = answer(request.url ?? '');
      response.writeHead(status, { 'content-type': 'application/json' }).end(body);
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  });
  after(() => server.close());

  it('says so in a sentence, whatever it is', async () => {
    const home = await mkdtemp(path.join(tmpdir(), 'muster-nonsense-'));
    const { port } = server.address() as AddressInfo;
    const user = { env: { XDG_CONFIG_HOME: home } };
    await mkdir(path.join(home, 'muster'), { mode: 0o700 });
    const profile = { server: `http://127.0.0.1:${port}`, key: `mstr_${'a'.repeat(46)}` };
    await writeFile(
      path.join(home, 'muster/profiles.json'),
      JSON.stringify({ current: 'x', profiles: { x: profile } }),
      { mode: 0o600 },
    );
    const cases: [() => { status: number; body: string | Buffer }, RegExp][] = [
      [() => ({ status: 200, body: '<html>' }), /not as a Muster server does/],
      [() => ({ status: 200, body: '{"data":7}' }), /is not understood/],
      [() => ({ status: 200, body: Buffer.alloc(51_000_000, 32) }), /no answer of a Muster server/],
      [
        () => ({
          status: 500,
          body: JSON.stringify({ error: `\u001b[2J${'x'.repeat(1_000_000)}`, code: 'X' }),
        }),
        /^\\x1b\[2Jx{1,2000}\n$/,
      ],
      [() => ({ status: 200, body: '['.repeat(100_000) }), /not as a Muster server does/],
    ];
    for (const [given, said] of cases) {
      answer = given;
      for (const words of [['devices'], ['search', 'x'], ['devices', 'restart', 'x', '--yes']]) {
        const { out, err, code } = await startMuster(words, user).ended;
        expect(out, words.join(' ')).to.equal('');
        expect(err, words.join(' ')).to.match(said);
        expect(err.length).to.be.lessThan(3000);
        expect(code).to.be.oneOf([2, 5]);
      }
    }
    await rm(home, { recursive: true });
  });
});
