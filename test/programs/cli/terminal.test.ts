import { expect } from 'chai';
import { spawn } from 'node:child_process';
import { enableSecondFactor, forgetLastCode } from '../../support/auth/second-factor-support.ts';
import { programArguments } from '../../support/bundled-programs.ts';
import { type CliUser, signInAtCli } from '../../support/cli-user.ts';
import { eventually } from '../../support/eventually.ts';
import { buildDevice, buildTenant, giveSecondFactor, PASSWORD } from '../../support/factories.ts';
import { type FakeDevice, connectDevice } from '../../support/fake-device.ts';
import { type RunningMuster, startMuster } from '../../support/run-muster.ts';
import { startTcpProxy } from '../../support/tcp-proxy.ts';
import { createTestApp, type TestApp } from '../../support/test-app.ts';
import type { CommandFrame, TerminalControl } from '../../../src/protocol/index.ts';

const SIZE = { columns: 90, rows: 30 };

describe('muster terminal', function () {
  this.timeout(60_000);
  let app: TestApp;
  let tenant: Awaited<ReturnType<typeof buildTenant>>;
  let factor: Awaited<ReturnType<typeof enableSecondFactor>>;
  let user: CliUser;
  let agent: FakeDevice;
  let controls: TerminalControl[];

  before(async () => {
    app = await createTestApp();
    tenant = await buildTenant(app);
    factor = await enableSecondFactor(app, tenant.admin);
    const { token } = await giveSecondFactor(app, tenant.admin);
    await allow(token, true);
    user = await signInAtCli(app, tenant.admin, ['devices:read']);
    const device = await buildDevice(app, tenant.orgId, { hostname: 'SHELL-1' });
    agent = await connectDevice(app, device.token);
    controls = [];
    agent.socket.on('terminal:control', (control: TerminalControl, ack: (answer: unknown) => void) => {
      controls.push(control);
      ack({ ok: true });
    });
    await agent.heartbeat();
    await app.settle();
  });
  after(async () => {
    agent?.close();
    await user?.leave();
    await app?.close();
  });
  beforeEach(async () => {
    controls.length = 0;
    await forgetLastCode(app, tenant.admin);
  });

  async function allow(token: string, enabled: boolean) {
    const route = `/orgs/organizations/${tenant.orgId}/terminals`;
    expect((await app.call('PUT', route, { token, body: { enabled } })).status).to.equal(200);
  }

  const start = (...words: string[]) =>
    startMuster(['terminal', 'shell-1', ...words], { env: user.env, terminal: SIZE });
  const says = (run: RunningMuster, text: string) => eventually(run.err, (said) => said.includes(text));
  const typed = (text: string) =>
    eventually(
      () => controls.map(({ input = '' }) => input).join(''),
      (all) => all.includes(text),
    );
  async function signIn(run: RunningMuster) {
    await says(run, 'Password of');
    run.type(`${PASSWORD}\r`);
    await says(run, 'Code of your authenticator app');
    run.type(`${factor.code()}\r`);
  }
  async function attached(run: RunningMuster, offset = 0): Promise<CommandFrame> {
    const frame = await agent.nextCommand();
    await agent.rows(frame, [
      { kind: 'attached', mode: 'pty', shell: '/bin/bash', notice: 'nobody', offset },
    ]);
    await eventually(run.isRaw, (isRaw) => isRaw);
    return frame;
  }
  const show = (frame: CommandFrame, offset: number, data: string, seq = 1) =>
    agent.rows(frame, [{ kind: 'output', offset, data, received: 0 }], seq);
  const exit = (frame: CommandFrame, exitCode: number) =>
    agent.succeed(frame, { reason: 'exited', exitCode });
  const openSessions = async () => {
    const { body } = await app.call('GET', '/auth/sessions', { token: tenant.admin.token });
    return body.pagination.total as number;
  };

  it('shows what the device shows as it is, sends what is typed, and ends with the code of the shell', async () => {
    const before = await openSessions();
    const run = start();
    await signIn(run);
    const frame = await attached(run);
    expect(frame.payload).to.include({ cols: 90, rows: 30, isNew: true });
    expect(run.err()).to.contain('[/bin/bash on SHELL-1. What it shows is recorded.');
    expect(run.err() + run.out()).not.to.contain(PASSWORD);
    await show(frame, 0, '\x1b[31mred\x1b[0m $ ');
    await eventually(run.out, (text) => text === '\x1b[31mred\x1b[0m $ ');
    run.type('echo ü\r');
    run.type('\x03');
    await typed('echo ü\r\x03');
    run.resize({ columns: 120, rows: 40 });
    await eventually(() => controls.some(({ size }) => size?.cols === 120 && size.rows === 40), Boolean);
    await show(frame, 15, '\x1b[?1049h\x1b[?25l', 2);
    await eventually(run.out, (text) => text.endsWith('\x1b[?25l'));
    await exit(frame, 3);
    const { code, out, err } = await run.ended;
    expect(code).to.equal(3);
    // The program could not leave the other screen.
    expect(out.endsWith('\x1b[?1049l\x1b[?25h')).to.equal(true);
    expect(err).to.match(/The shell has ended with 3\.\n$/);
    expect(run.isRaw()).to.equal(false);
    expect(await openSessions()).to.equal(before);
  });

  it('is left with ~., which ends it on the device', async () => {
    const run = start();
    await signIn(run);
    const frame = await attached(run);
    run.type('ls\r~.ignored');
    await eventually(() => controls.some(({ end }) => end === true), Boolean);
    expect(controls.map(({ input = '' }) => input).join('')).to.equal('ls\r');
    await agent.succeed(frame, { reason: 'closed', exitCode: null });
    expect(await run.ended).to.include({ code: 0 });
    expect(run.isRaw()).to.equal(false);
  });

  it('is continued after a lost connection without another code, and drops what was typed meanwhile', async () => {
    const proxy = await startTcpProxy({ host: '127.0.0.1', port: Number(new URL(app.url).port) });
    const far = await signInAtCli(app, tenant.admin, ['devices:read'], `http://127.0.0.1:${proxy.port}`);
    const run = startMuster(['terminal', 'SHELL-1'], { env: far.env, terminal: SIZE });
    await signIn(run);
    const frame = await attached(run);
    await show(frame, 0, 'one');
    await eventually(run.out, (text) => text === 'one');
    await proxy.cut();
    await says(run, 'The terminal goes on, and is continued.');
    run.type('rm -rf /\r');
    await proxy.mend();
    const again = await agent.nextCommand();
    expect(again.payload).to.include({ isNew: false });
    await agent.rows(again, [
      { kind: 'attached', mode: 'pty', shell: '/bin/bash', notice: 'nobody', offset: 0 },
      { kind: 'output', offset: 0, data: 'onetwo', received: 0 },
    ]);
    await says(run, 'Connected again');
    await eventually(run.out, (text) => text === 'onetwo');
    run.type('ok');
    await typed('ok');
    expect(controls.map(({ input = '' }) => input).join('')).to.equal('ok');
    // Lost again, and left without waiting for the server.
    await proxy.cut();
    await eventually(run.err, (text) => text.split('The terminal goes on').length === 3);
    run.type('\r~.');
    expect(await run.ended).to.include({ code: 0 });
    expect(run.isRaw()).to.equal(false);
    await far.leave();
    await agent.succeed(again, { reason: 'closed', exitCode: null });
  });

  it('is refused without a terminal here, with a wrong code, and where it is forbidden', async () => {
    const piped = await user.run('terminal', 'SHELL-1');
    expect([piped.code, piped.out]).to.deep.equal([2, '']);
    expect(piped.err).to.contain('must not be redirected');

    const wrong = start();
    await says(wrong, 'Password of');
    wrong.type('not-the-password\r');
    await eventually(wrong.err, (text) => text.split('Password of').length === 3);
    wrong.type('\x03');
    expect((await wrong.ended).code).to.equal(130);

    await allow(tenant.admin.token, false);
    const forbidden = start();
    await signIn(forbidden);
    const refused = await forbidden.ended;
    expect(refused.code).to.equal(4);
    expect(refused.err).to.contain('does not allow terminals');
    await allow(tenant.admin.token, true);

    // The second person has no second factor.
    const bare = await signInAtCli(app, tenant.technician, ['devices:read']);
    const open = startMuster(['terminal', 'SHELL-1'], { env: bare.env, terminal: SIZE });
    await says(open, 'Password of');
    open.type(`${PASSWORD}\r`);
    const unfit = await open.ended;
    expect(unfit.code).to.equal(4);
    expect(unfit.err).to.contain('second factor');
    for (const run of [wrong, forbidden, open]) expect(run.isRaw()).to.equal(false);
    expect((await user.run('terminal', 'nobody')).code).to.equal(2);
    await bare.leave();
  });

  it('ends when the window is closed, the program is told to, or the server ends it', async () => {
    const ways: ((run: RunningMuster) => unknown)[] = [
      (run) => run.hangUp(),
      (run) => run.interrupt(),
      () => allow(tenant.admin.token, false),
    ];
    for (const way of ways) {
      await forgetLastCode(app, tenant.admin);
      controls.length = 0;
      const run = start();
      await signIn(run);
      const frame = await attached(run);
      await way(run);
      await eventually(() => controls.some(({ end }) => end === true), Boolean, 20_000);
      await agent.succeed(frame, { reason: 'closed', exitCode: null });
      const { code } = await run.ended;
      expect(code).to.be.oneOf([0, 1, 130]);
      expect(run.isRaw()).to.equal(false);
      await allow(tenant.admin.token, true);
    }
  });

  it('leaves a real terminal as it was', async () => {
    const words = [process.execPath, ...programArguments('src/cli/muster.ts'), 'terminal', 'SHELL-1'];
    const quoted = words.map((word) => `'${word}'`).join(' ');
    const child = spawn('script', ['-qec', `stty -g; ${quoted}; echo code=$?; stty -g`, '/dev/null'], {
      env: { PATH: process.env['PATH'] ?? '', TERM: 'xterm', ...user.env },
    });
    let screen = '';
    child.stdout.setEncoding('utf8').on('data', (text: string) => (screen += text));
    const ended = new Promise((resolve) => child.once('close', resolve));
    const sees = (text: string) =>
      eventually(
        () => screen,
        (all) => all.includes(text),
        20_000,
      );
    await sees('Password of');
    child.stdin.write(`${PASSWORD}\r`);
    await sees('Code of');
    child.stdin.write(`${factor.code()}\r`);
    const frame = await agent.nextCommand();
    await agent.rows(frame, [
      { kind: 'attached', mode: 'pty', shell: '/bin/sh', notice: 'nobody', offset: 0 },
      { kind: 'output', offset: 0, data: 'prompt$ ', received: 0 },
    ]);
    await sees('prompt$ ');
    // In raw mode, Ctrl+C and Ctrl+Z are for the device.
    child.stdin.write('\x03\x1a');
    await typed('\x03\x1a');
    child.stdin.write('\r~.');
    await eventually(() => controls.some(({ end }) => end === true), Boolean);
    await agent.succeed(frame, { reason: 'closed', exitCode: null });
    await ended;
    const lines = screen.split(/\r?\n/).filter((line) => line !== '');
    expect(screen).to.contain('code=0');
    expect(lines.at(-1))
      .to.equal(lines[0])
      .and.match(/^[0-9a-f:]+$/);
    expect(screen).not.to.contain(PASSWORD);
  });
});
