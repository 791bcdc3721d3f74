import { readdir, readFile, stat } from 'node:fs/promises';
import path from 'node:path';
import { expect } from 'chai';
import type { LogEntry, LogMetadata } from '../../../src/protocol/index.ts';
import { agentCommand } from '../../support/agent-program.ts';
import { useAgentPrograms } from '../../support/agent-programs.ts';
import { eventually } from '../../support/eventually.ts';
import { buildEnrollmentKey } from '../../support/factories.ts';

/** The real agent, as processes, against a real server. */
describe('the agent program', () => {
  const agents = useAgentPrograms();

  it('enrolls, connects, reads the real logs of this machine, and shuts down in order', async () => {
    expect((await agentCommand(['status', '--data-dir', agents.dataDir])).code).to.equal(2);
    expect((await agentCommand(['run', '--data-dir', agents.dataDir])).code).to.equal(2);

    const key = await buildEnrollmentKey(agents.app, agents.tenant.orgId);
    const enrolled = await agents.enroll(key, ['--hostname', 'THIS-ONE']);
    expect(enrolled.code, enrolled.output).to.equal(0);
    expect(enrolled.output).not.to.contain(key);
    const file = path.join(agents.dataDir, 'credentials.json');
    expect((await stat(file)).mode & 0o777).to.equal(0o600);
    expect(await readFile(file, 'utf8')).not.to.contain(key);
    expect(await agents.status()).to.include({ code: 1, running: null });

    const agent = agents.start(['run', '--data-dir', agents.dataDir]);
    const { deviceId } = await agents.connectedStatus();
    const device = await eventually(
      () => agents.get(`/devices/${deviceId}`),
      (body) => body.status === 'online' && body.metrics !== null,
    );
    expect(device.hostname).to.equal('THIS-ONE');
    expect(device.metrics.diskPercent).to.be.within(0.1, 100);
    expect(device.capabilities).to.include('eventlogs.query');
    expect((await agentCommand(['run', '--data-dir', agents.dataDir])).output).to.contain('already running');

    const { data: logs } = (await agents.get(`/system-tools/devices/${deviceId}/eventlogs`)) as {
      data: LogMetadata[];
    };
    const log = logs.find(({ recordCount }) => recordCount > 0);
    expect(log, 'this machine has a log with something in it').not.to.equal(undefined);
    const base = `/system-tools/devices/${deviceId}/eventlogs/${encodeURIComponent(log!.name.toUpperCase())}`;
    const page = await agents.get(`${base}/events?limit=3`);
    expect(page.data.length).to.be.within(1, 3);
    const [entry] = page.data as LogEntry[];
    expect((await agents.get(`${base}/events/${entry!.recordId}`)).data).to.deep.equal(entry);
    expect((await agents.get(`${base}/events/1`)).code).to.equal('NOT_FOUND');
    expect(
      (await agents.get(`/system-tools/devices/${deviceId}/eventlogs/..%2F..%2Fetc%2Fpasswd/events`)).code,
    ).to.equal('NOT_FOUND');

    agent.child.kill('SIGTERM');
    expect(await agent.ended).to.equal(0);
    expect(await readdir(agents.dataDir)).not.to.include('status.json');
    await eventually(
      () => agents.get(`/devices/${deviceId}`),
      (body) => body.status === 'offline',
    );
  });
});
