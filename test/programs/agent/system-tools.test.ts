import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { expect } from 'chai';
import type { MachineProcess } from '../../../src/protocol/index.ts';
import { agentCommand, startAgent, type AgentProgram } from '../../support/agent-program.ts';
import { eventually } from '../../support/eventually.ts';
import { buildEnrollmentKey, buildTenant } from '../../support/factories.ts';
import { createTestApp, type TestApp } from '../../support/test-app.ts';

/** Ends by itself after a minute, in case that a test does not end it. */
const WAIT = 'for second in $(seq 60); do sleep 1; done';

describe('the agent program and the processes of this machine', function () {
  this.timeout(180_000);
  let app: TestApp;
  let tenant: Awaited<ReturnType<typeof buildTenant>>;
  let dataDir: string;
  let deviceId: string;
  let agent: AgentProgram;
  const children: ChildProcess[] = [];

  before(async () => {
    app = await createTestApp();
    tenant = await buildTenant(app);
    dataDir = await mkdtemp(path.join(tmpdir(), 'muster-agent-'));
    const key = await buildEnrollmentKey(app, tenant.orgId);
    const enroll = ['enroll', '--server', app.url, '--key', key, '--data-dir', dataDir];
    const { output } = await agentCommand([...enroll, '--machine-id', path.basename(dataDir)]);
    deviceId = /device ([0-9a-f-]{36})/.exec(output)![1]!;
    agent = startAgent(['run', '--json', '--data-dir', dataDir]);
    await eventually(
      () => app.server.hub.live(deviceId)?.isConnected,
      (isConnected) => isConnected === true,
    );
  });
  after(async () => {
    for (const child of children) child.kill('SIGKILL');
    agent.child.kill('SIGKILL');
    await agent.ended;
    await rm(dataDir, { recursive: true, force: true });
    await app.close();
  });

  const call = (method: string, asked: string, body?: unknown) =>
    app.call(method, `/system-tools/devices/${deviceId}${asked}`, { token: tenant.technician.token, body });
  const list = async (): Promise<MachineProcess[]> => {
    const { status, body } = await call('GET', '/processes');
    expect(status, JSON.stringify(body)).to.equal(200);
    expect(body.meta.total).to.be.at.least(body.data.length);
    return body.data;
  };
  const listed = async (pid: number): Promise<MachineProcess> => {
    const found = (await list()).find((one) => one.pid === pid);
    expect(found, `process ${pid}`).to.be.an('object');
    return found!;
  };
  const end = ({ pid, startedAt }: Pick<MachineProcess, 'pid' | 'startedAt'>) =>
    call('POST', `/processes/${pid}/end`, { startedAt });
  /** A shell that has begun to wait. */
  async function start(script = ''): Promise<{ pid: number; ended: Promise<unknown[]> }> {
    const child = spawn('bash', ['-c', `${script}echo ready; ${WAIT}`], {
      stdio: ['ignore', 'pipe', 'ignore'],
    });
    children.push(child);
    await once(child.stdout, 'data');
    return { pid: child.pid!, ended: once(child, 'exit') };
  }

  it('lists them with what is known of each', async () => {
    const { pid } = await start();
    const own = await listed(pid);
    expect(own).to.deep.include({ name: 'bash', parentPid: process.pid });
    expect(own.commandLine).to.include('seq 60');
    expect(own.memoryBytes).to.be.above(100_000);
    expect(own.user).to.be.a('string');
    expect(Math.abs(Date.now() - Date.parse(own.startedAt ?? ''))).to.be.below(120_000);
    expect(own.isProtected).to.equal(undefined);
    const all = await list();
    const agentItself = all.find((one) => one.pid === agent.child.pid);
    expect(agentItself?.isProtected).to.equal(true);
    expect(all.every(({ cpuPercent = 0 }) => cpuPercent >= 0 && cpuPercent <= 100)).to.equal(true);
  });

  it('ends one that is asked, and one that does not listen', async () => {
    const polite = await start();
    const asked = await end(await listed(polite.pid));
    expect(asked.body).to.deep.include({ outcome: 'ended', name: 'bash', graceSeconds: 5 });
    expect((await polite.ended)[1]).to.equal('SIGTERM');

    const stubborn = await start("trap '' TERM; ");
    const forced = await end(await listed(stubborn.pid));
    expect(forced.body).to.deep.include({ outcome: 'killed', name: 'bash', graceSeconds: 5 });
    expect((await stubborn.ended)[1]).to.equal('SIGKILL');
    expect((await end({ pid: stubborn.pid, startedAt: new Date().toISOString() })).status).to.equal(404);
  });

  it('lists and ends one whose name is made to mislead', async () => {
    const { pid, ended } = await start(String.raw`printf 'x) R 1 (\xff\n' > /proc/$$/comm; `);
    const odd = await listed(pid);
    expect(odd.name).to.match(/^x\) R 1 \(\uFFFD/);
    expect(odd.parentPid).to.equal(process.pid);
    expect((await end(odd)).body.outcome).to.equal('ended');
    await ended;
  });

  it('ends neither itself, nor the first process, nor another one with the same number', async () => {
    for (const pid of [agent.child.pid!, 1]) {
      const { status, body } = await end(await listed(pid));
      expect([status, body.details.code], String(pid)).to.deep.equal([409, 'PROCESS_PROTECTED']);
    }
    const { pid } = await start();
    const { startedAt } = await listed(pid);
    const earlier = new Date(Date.parse(startedAt!) - 3_600_000).toISOString();
    const { status, body } = await end({ pid, startedAt: earlier });
    expect([status, body.details.code]).to.deep.equal([409, 'PROCESS_REPLACED']);
    expect(body.details.message).to.include('bash');
    expect((await listed(pid)).startedAt).to.equal(startedAt);
  });

  it('answers about services, also where there is no service manager', async () => {
    const { status, body } = await call('GET', '/services');
    expect(status).to.equal(200);
    const hasSystemd = existsSync('/run/systemd/system');
    expect(body.meta.manager).to.equal(hasSystemd ? 'systemd' : 'none');
    for (const name of ['; rm -rf /', '--force', '*']) {
      const answer = await call('POST', `/services/${encodeURIComponent(name)}/stop`);
      expect([answer.status, answer.body.code], name).to.deep.equal([404, 'NOT_FOUND']);
    }
  });
});
