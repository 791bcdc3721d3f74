import { existsSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { expect } from 'chai';
import { agentCommand, startAgent, type AgentProgram } from '../../support/agent-program.ts';
import { eventually } from '../../support/eventually.ts';
import { buildEnrollmentKey, buildTenant } from '../../support/factories.ts';
import { createTestApp, type TestApp } from '../../support/test-app.ts';

/** A machine that has just started is given three minutes to start its services. */
const REPORTED_MS = 210_000;

describe('the services that the agent program reports', function () {
  this.timeout(REPORTED_MS + 30_000);
  let app: TestApp;
  let dataDir: string;
  let agent: AgentProgram | undefined;

  before(async () => {
    app = await createTestApp();
    dataDir = await mkdtemp(path.join(tmpdir(), 'muster-agent-'));
  });
  after(async () => {
    agent?.child.kill('SIGKILL');
    await agent?.ended;
    await rm(dataDir, { recursive: true, force: true });
    await app.close();
  });

  it('are those of this machine, or none if systemd does not run on it', async () => {
    const tenant = await buildTenant(app);
    const key = await buildEnrollmentKey(app, tenant.orgId);
    const enroll = ['enroll', '--server', app.url, '--key', key, '--data-dir', dataDir];
    const { output } = await agentCommand([...enroll, '--machine-id', path.basename(dataDir)]);
    const deviceId = /device ([0-9a-f-]{36})/.exec(output)![1]!;
    agent = startAgent(['run', '--json', '--data-dir', dataDir]);
    const { body } = await eventually(
      () => app.call('GET', `/devices/${deviceId}/services`, { token: tenant.admin.token }),
      (answer) => answer.body.manager !== null,
      REPORTED_MS,
    );
    const hasSystemd = existsSync('/run/systemd/system');
    expect(body.manager).to.equal(hasSystemd ? 'systemd' : 'none');
    expect(body.data.length > 0).to.equal(hasSystemd);
  });
});
