import { mkdtemp, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect } from 'chai';
import { z } from 'zod';

import { COMMAND_TYPES, SECRETS_CAPABILITY } from '../../../src/protocol/index.ts';
import { SYSTEM_ROLES } from '../../../src/features/users/index.ts';
import { type CliUser, jsonLines, signInAtCli } from '../../support/cli-user.ts';
import { eventually } from '../../support/eventually.ts';
import { buildDevice, buildPerson, buildTenant, type EnrolledDevice } from '../../support/factories.ts';
import { connectDevice, type FakeDevice } from '../../support/fake-device.ts';
import type { RunningMuster } from '../../support/run-muster.ts';
import { startTcpProxy } from '../../support/tcp-proxy.ts';
import { createTestApp, type TestApp } from '../../support/test-app.ts';
import { asOwner } from '../../support/test-postgres.ts';

const SCOPES = ['devices:read', 'devices:execute', 'scripts:read', 'scripts:execute', 'filters:read'];
const done = (exitCode: number, stdout = '', stderr = '') => ({ exitCode, stdout, stderr, truncated: false });

describe('muster runs scripts and follows them', function () {
  this.timeout(60_000);
  let app: TestApp;
  let tenant: Awaited<ReturnType<typeof buildTenant>>;
  let user: CliUser;
  let devices: EnrolledDevice[];
  let agents: FakeDevice[];

  before(async () => {
    app = await createTestApp();
    tenant = await buildTenant(app);
    user = await signInAtCli(app, tenant.admin, SCOPES);
    devices = [];
    agents = [];
    for (const hostname of ['RUN-A', 'RUN-B']) {
      const device = await buildDevice(app, tenant.orgId, { hostname });
      devices.push(device);
      const agent = await connectDevice(app, device.token, {
        capabilities: [...COMMAND_TYPES, SECRETS_CAPABILITY],
      });
      await agent.heartbeat();
      agents.push(agent);
    }
    const { status } = await app.call('POST', '/scripts', {
      token: tenant.admin.token,
      body: { name: 'Clean up', language: 'bash', content: 'true', orgId: tenant.orgId },
    });
    expect(status).to.equal(201);
    await app.settle();
  });
  after(async () => {
    for (const agent of agents) agent.close();
    await user?.leave();
    await app?.close();
  });

  const [a, b] = [0, 1];
  const agent = (at: number) => agents[at]!;
  const BOTH = ['--on', 'run-a', '--on', 'RUN-B', '--yes'];

  const secretFile = async () => {
    const file = join(await mkdtemp(join(tmpdir(), 'muster-secret-')), 'word');
    await writeFile(file, 'open sesame', { mode: 0o600 });
    return file;
  };

  /** From now on it sees what the device writes. */
  const follows = (run: RunningMuster, hostname: string) =>
    eventually(run.err, (text) => new RegExp(`^${hostname}: [a-z]+$`, 'm').test(text));

  it('prints what each device writes, and succeeds if all have', async () => {
    const run = user.start('scripts', 'run', 'clean up', ...BOTH, '--parameter', 'DAYS=7');
    const frames = [await agent(a).nextCommand(), await agent(b).nextCommand()];
    expect(frames[a]!.payload).to.deep.include({ content: 'true', parameters: { DAYS: '7' } });
    await follows(run, 'RUN-A');
    await agent(a).rows(frames[a]!, [
      { stream: 'stdout', text: 'one \x1b[2J\nha' },
      { stream: 'stderr', text: 'careful\n' },
    ]);
    await eventually(run.out, (text) => text.includes('careful'));
    await agent(a).succeed(frames[a]!, done(0, 'one \x1b[2J\nhalf', 'careful\n'));
    // Nothing was sent while it ran.
    await agent(b).succeed(frames[b]!, done(0, 'two\n'));
    const { code, out, err } = await run.ended;
    expect(out.split('\n').sort()).to.deep.equal([
      '',
      'RUN-A ! careful',
      'RUN-A | half',
      String.raw`RUN-A | one \x1b[2J`,
      'RUN-B | two',
    ]);
    expect(err)
      .to.contain('RUN-A: succeeded')
      .and.match(/2 of 2 devices succeeded\.\n$/);
    expect(code).to.equal(0);
  });

  it('fails if it has failed on one, and says so in JSON', async () => {
    const run = user.start('scripts', 'run', 'Clean up', ...BOTH, '--json');
    const frames = [await agent(a).nextCommand(), await agent(b).nextCommand()];
    await agent(a).succeed(frames[a]!, done(3, '', 'no\n'));
    await agent(b).succeed(frames[b]!, done(0));
    const { code, out } = await run.ended;
    const lines = jsonLines(out);
    expect(lines[0]).to.deep.include({ type: 'started', name: 'Clean up' });
    expect(lines.filter(({ type }) => type === 'output')).to.have.length(1);
    const ends = lines.filter(({ type }) => type === 'end');
    expect(ends.map(({ hostname, ok, exitCode }) => [hostname, ok, exitCode])).to.have.deep.members([
      ['RUN-A', false, 3],
      ['RUN-B', true, 0],
    ]);
    expect(code).to.equal(1);
  });

  it('is left by Ctrl+C, can be looked at again, and cancelled', async () => {
    const run = user.start('scripts', 'run', 'Clean up', '--on', 'RUN-A');
    const frame = await agent(a).nextCommand();
    // A device may write before anybody looks: nothing of it is lost, as the end of the job has all of it.
    await eventually(run.err, (text) => text.includes('started on 1 device'));
    run.interrupt();
    const left = await run.ended;
    expect(left.code).to.equal(130);
    const runId = /muster scripts follow (\S+)/.exec(left.err)?.[1] ?? '';
    expect(left.err).to.contain(`muster scripts cancel ${runId}\n`);
    expect(agent(a).cancelled).not.to.include(frame.id);

    const again = user.start('scripts', 'follow', runId);
    const cancelled = await user.run('scripts', 'cancel', runId);
    expect(cancelled.code, cancelled.err).to.equal(0);
    expect(cancelled.err).to.contain(`${runId}: `).and.contain('asked to stop');
    await eventually(
      () => agent(a).cancelled,
      (ids) => ids.includes(frame.id),
    );
    await agent(a).finish(frame, { status: 'cancelled' });
    expect(await again.ended).to.include({ code: 1 });
    expect(await user.run('scripts', 'cancel', runId)).to.include({ code: 1 });
    // One that has ended is reported at once.
    expect((await user.run('scripts', 'follow', runId)).err).to.contain('RUN-A: cancelled');
  });

  it('lists runs, and repeats one on those devices on which it has failed', async () => {
    const withSecret = ['--secret', `WORD=${await secretFile()}`];
    const run = user.start(
      'scripts',
      'run',
      'Clean up',
      ...BOTH,
      '--parameter',
      'DAYS=9',
      ...withSecret,
      '--json',
    );
    const frames = [await agent(a).nextCommand(), await agent(b).nextCommand()];
    await agent(a).succeed(frames[a]!, done(3, '', 'no\n'));
    await agent(b).succeed(frames[b]!, done(0));
    const [started] = jsonLines((await run.ended).out);
    const [runId = ''] = z.array(z.uuid()).parse(started?.['runIds']);

    const listed = await user.run('scripts', 'runs', '--script', 'Clean up', '--limit', '1');
    expect(listed.out).to.match(new RegExp(`^STARTED .*\n.* Clean up .* completed +1 of 2 +${runId}\n$`));
    expect(
      (await user.run('scripts', 'again', runId, '--failed')).err,
      'nobody can be asked for the secret',
    ).to.contain('--secret WORD=<file>');

    const again = user.start('scripts', 'again', runId, '--failed', ...withSecret);
    const frame = await agent(a).nextCommand();
    expect(frame.payload).to.deep.include({ parameters: { DAYS: '9' } });
    // Devices fetch the value by the reference.
    expect(
      z.object({ secrets: z.record(z.string(), z.unknown()) }).parse(frame.payload).secrets,
    ).to.have.keys('WORD');
    await agent(a).succeed(frame, done(0, 'done\n'));
    const { code, out, err } = await again.ended;
    expect([code, out], err).to.deep.equal([0, 'RUN-A | done\n']);
    expect(err).to.contain('started on 1 device').and.contain('1 of 1 device succeeded');
    expect(agent(b).commands).to.deep.equal([]);
    const [newest] = jsonLines((await user.run('scripts', 'runs', '--limit', '1', '--json')).out);
    const none = await user.run('scripts', 'again', String(newest?.['id']), '--failed', ...withSecret);
    expect(none.code).to.equal(2);
    expect(none.err).to.contain('The script has failed on none of the devices');
  });

  it('leaves a run that it has started, and says which devices were refused', async () => {
    const old = await buildDevice(app, tenant.orgId, { hostname: 'RUN-OLD' });
    const oldAgent = await connectDevice(app, old.token, { capabilities: ['script.run'] });
    await oldAgent.heartbeat();
    await app.settle();
    const words = ['--on', 'RUN-A', '--on', 'RUN-OLD', '--yes', '--secret', `WORD=${await secretFile()}`];
    const left = await user.run('scripts', 'run', 'Clean up', ...words, '--detach');
    const frame = await agent(a).nextCommand();
    expect(left.code).to.equal(1);
    expect(left.err)
      .to.contain('RUN-OLD: not started: The agent on this device does not support secrets.')
      .and.contain('started on 1 device')
      .and.contain('muster scripts follow');
    await agent(a).succeed(frame, done(0));
    oldAgent.close();
  });

  it('goes on after the connection was lost, and shows what was written meanwhile', async () => {
    const proxy = await startTcpProxy({ host: '127.0.0.1', port: Number(new URL(app.url).port) });
    const far = await signInAtCli(app, tenant.admin, SCOPES, `http://127.0.0.1:${proxy.port}`);
    const run = far.start('scripts', 'run', 'Clean up', '--on', 'RUN-A');
    const frame = await agent(a).nextCommand();
    await follows(run, 'RUN-A');
    await agent(a).rows(frame, [{ stream: 'stdout', text: '1\n' }], 0);
    await eventually(run.out, (text) => text.includes('| 1'));
    await proxy.cut();
    await eventually(run.err, (text) => text.includes('Trying again'));
    await agent(a).rows(frame, [{ stream: 'stdout', text: '2\n' }], 1);
    await proxy.mend();
    await eventually(run.err, (text) => text.includes('Connected again'));
    await agent(a).rows(frame, [{ stream: 'stdout', text: '3\n' }], 2);
    await agent(a).succeed(frame, done(0, '1\n2\n3\n'));
    const { code, out } = await run.ended;
    // Whether the last line was seen live depends on when the job is followed again.
    expect(out.split('\n').sort()).to.deep.equal(['', 'RUN-A | 1', 'RUN-A | 2', 'RUN-A | 3']);
    expect(code).to.equal(0);
    await far.leave();
    await proxy.cut();
  });

  it('says how to go on if the key is revoked while it follows', async () => {
    const short = await signInAtCli(app, tenant.admin, SCOPES);
    const run = short.start('scripts', 'run', 'Clean up', '--on', 'RUN-A');
    const frame = await agent(a).nextCommand();
    await eventually(run.err, (text) => text.includes('started on 1 device'));
    await app.call('DELETE', `/api-keys/${short.keyId}`, { token: tenant.admin.token });
    const { code, err } = await run.ended;
    expect(code).to.equal(3);
    expect(err).to.match(/muster scripts follow [-0-9a-f]{36}\n/);
    await agent(a).succeed(frame, done(0));
    await short.leave();
  });

  it('starts on none that a viewer, a stranger or nobody has named, and asks before it starts on several', async () => {
    const asked = await user.run('scripts', 'run', 'Clean up', '--on', 'RUN-A', '--on', 'RUN-B');
    expect([asked.code, asked.out]).to.deep.equal([2, '']);
    expect(asked.err).to.contain('2 devices will be given the script Clean up to run').and.contain('--yes');
    const dry = await user.run('scripts', 'run', 'Clean up', ...BOTH, '--dry-run');
    expect(dry.err).to.contain('Nothing was changed.');
    const viewer = await buildPerson(app, {
      scope: 'organization',
      orgId: tenant.orgId,
      role: SYSTEM_ROLES.organizationViewer,
    });
    const looking = await signInAtCli(app, viewer, ['devices:read', 'scripts:read']);
    expect(await looking.run('scripts', 'run', 'Clean up', '--on', 'RUN-A')).to.include({ code: 4, out: '' });
    const stranger = await signInAtCli(app, (await buildTenant(app)).admin, SCOPES);
    const [theirs] = jsonLines((await user.run('scripts', 'runs', '--limit', '1', '--json')).out);
    for (const act of ['follow', 'cancel', 'again']) {
      const refused = await stranger.run('scripts', act, String(theirs?.['id']));
      expect(refused.err, act).to.contain('not found');
      expect(refused.code, act).to.be.oneOf([1, 2]);
    }
    expect((await stranger.run('scripts', 'runs')).out).to.equal('');
    expect((await user.run('scripts', 'follow', 'nonsense'.repeat(10_000))).code).to.equal(2);
    expect((await stranger.run('scripts', 'run', 'Clean up', '--on', 'RUN-A')).code).to.equal(2);
    for (const words of [['--on', 'nobody'], [], ['--on', 'RUN-A', '--parameter', 'x']]) {
      expect((await user.run('scripts', 'run', 'Clean up', ...words)).code, words.join(' ')).to.equal(2);
    }
    expect((await user.run('scripts', 'run', 'Unknown', '--on', 'RUN-A')).err).to.contain(
      'no script Unknown',
    );
    expect(agents.flatMap(({ commands }) => commands)).to.deep.equal([]);
    expect((await user.run('scripts', 'list')).out).to.match(/^NAME .*\nClean up +bash /);
    await Promise.all([looking.leave(), stranger.leave()]);
  });

  it('follows more devices than a connection may have subscriptions, also those that are away', async () => {
    await asOwner(
      app.database.ownerUrl,
      `insert into devices (id, org_id, site_id, hostname, os_type, os_version, architecture, agent_version, enrolled_at, capabilities)
       select gen_random_uuid(), '${tenant.orgId}', '${devices[a]!.siteId}', 'many-' || n, 'linux', '1', 'x64', '1.0.0', now(), '{script.run}'
       from generate_series(1, 250) n`,
    );
    const run = user.start(
      'scripts',
      'run',
      'Clean up',
      '--where',
      'hostname contains many-',
      '--on',
      'RUN-A',
      '--yes',
    );
    const frame = await agent(a).nextCommand();
    await agent(a).succeed(frame, done(0, 'here\n'));
    await eventually(run.out, (text) => text.includes('RUN-A | here') || text.includes('RUN-A    | here'));
    expect(run.err()).to.contain('many-1: offline.').and.contain('started on 251 devices');
    run.interrupt();
    const { code, err } = await run.ended;
    expect(code).to.equal(130);
    expect(err).to.contain('The script goes on on 250 devices.');
  });
});
