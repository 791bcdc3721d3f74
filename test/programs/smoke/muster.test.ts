import { expect } from 'chai';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { programArguments } from '../../support/bundled-programs.ts';
import { eventually } from '../../support/eventually.ts';
import { buildDevice, buildTenant } from '../../support/factories.ts';
import { connectDevice, type FakeDevice } from '../../support/fake-device.ts';
import { startOperatorProgram, startProcess } from '../../support/muster-program.ts';
import { environmentOf, runMuster } from '../../support/run-muster.ts';
import { createTestApp, type TestApp } from '../../support/test-app.ts';

/** What only a process of its own can show; the commands themselves are tested in the process of their tests. */
describe('the program muster', function () {
  this.timeout(120_000);
  let app: TestApp;
  let agent: FakeDevice;
  let home: string;
  let env: Record<string, string>;

  before(async () => {
    app = await createTestApp();
    home = await mkdtemp(path.join(tmpdir(), 'muster-program-'));
    env = { ...environmentOf(app.database, home), XDG_CONFIG_HOME: home };
    const tenant = await buildTenant(app);
    const { token } = await buildDevice(app, tenant.orgId, { hostname: 'HOST-ON' });
    agent = await connectDevice(app, token);
    await agent.heartbeat();
    const { body } = await app.call('POST', '/api-keys', {
      token: tenant.admin.token,
      body: { name: 'Terminal', scopes: ['devices:read', 'filters:read'] },
    });
    const signedIn = await runMuster(['login', '--server', app.url, '--key-stdin'], {
      env,
      stdin: body.key,
    });
    expect(signedIn, signedIn.err).to.include({ code: 0 });
  });
  after(async () => {
    agent?.close();
    await app?.close();
    await rm(home, { recursive: true, force: true });
  });

  const muster = (...args: string[]) => startOperatorProgram('src/cli/muster.ts', args, { env });
  const row = (recordId: number, message: string) => ({
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

  it('reads its environment, arguments and standard input, and exits with the code of the command', async () => {
    const args = ['admin', 'create', '--email', 'program@example.com', '--password-stdin'];
    const created = await startOperatorProgram('src/cli/muster.ts', args, { env, stdin: 'Correct-Horse-9\n' })
      .ended;
    expect(created).to.deep.equal({
      code: 0,
      out: 'program@example.com is a system administrator.\n',
      err: '',
    });
    const refused = await startOperatorProgram('src/cli/muster.ts', args, { env, stdin: 'short' }).ended;
    expect([refused.code, refused.out]).to.deep.equal([2, '']);
    expect(refused.err).to.contain('at least 8 characters');
    const wrong = await muster('devices', '--wrong').ended;
    expect([wrong.code, wrong.out]).to.deep.equal([2, '']);
    expect(wrong.err).to.contain("unknown option '--wrong'");
  });

  it('ends a query in order at Ctrl+C, and at once at the second one', async () => {
    const asked = muster('query', '--device', 'host-on', '--log', 'System', '--follow', '--json');
    const frame = await agent.nextCommand();
    await agent.rows(frame, [row(1, 'First')]);
    await eventually(asked.out, (text) => text.includes('\n'));
    asked.child.kill('SIGINT');
    await eventually(
      () => agent.cancelled,
      (ids) => ids.includes(frame.id),
    );
    await agent.finish(frame, { status: 'cancelled' });
    expect((await asked.ended).code).to.equal(130);

    const stuck = muster('query', '--device', 'host-on', '--log', 'System', '--follow', '--json');
    const never = await agent.nextCommand();
    await agent.rows(never, [row(2, 'Second')]);
    await eventually(stuck.out, (text) => text.includes('\n'));
    stuck.child.kill('SIGINT');
    await eventually(
      () => agent.cancelled,
      (ids) => ids.includes(never.id),
    );
    // The device never says that it has ended.
    stuck.child.kill('SIGINT');
    await stuck.ended;
    expect(stuck.child.signalCode).to.equal('SIGINT');
  });

  it('ends quietly when nobody reads on', async () => {
    const words = [process.execPath, ...programArguments('src/cli/muster.ts')]
      .map((word) => `'${word}'`)
      .join(' ');
    const line = `set -o pipefail; ${words} query --device HOST-ON --log System --limit 500 --json | head -n 1`;
    const asked = startProcess('bash', ['-c', line], { env });
    const frame = await agent.nextCommand();
    // More than a pipe holds.
    for (let seq = 0; seq < 5; seq++) {
      const rows = Array.from({ length: 100 }, (_none, at) => row(seq * 100 + at, 'x'.repeat(500)));
      await agent.rows(frame, rows, seq);
    }
    await agent.succeed(frame, { scanned: 500, truncated: false });
    const { code, out, err } = await asked.ended;
    expect([code, err, out.trim().split('\n').length]).to.deep.equal([0, '', 1]);
  });

  it('completes commands and options in a shell', async () => {
    const script = (await runMuster(['completion', 'bash'])).out;
    const complete = `t() { COMP_WORDS=(muster "$@"); COMP_CWORD=$#; _muster; echo "\${COMPREPLY[*]}"; }
      t j; t jobs w; t devices --status of; t query --fo; t completion z; t audit verify --bundle /etc/hos`;
    const { out } = await startProcess('bash', ['-c', `${script}\n${complete}`]).ended;
    const lines = out.split('\n');
    expect(lines.slice(0, 5)).to.deep.equal(['jobs', 'watch', 'offline', '--follow', 'zsh']);
    expect(lines[5]).to.contain('/etc/hosts');
  });
});
