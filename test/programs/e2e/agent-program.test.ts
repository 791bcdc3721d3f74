import { execFile } from 'node:child_process';
import { mkdir, readdir, writeFile } from 'node:fs/promises';
import { cpus, hostname, totalmem } from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import { expect } from 'chai';
import type { LogEntry } from '../../../src/protocol/index.ts';
import { agentCommand, type AgentProgram } from '../../support/agent-program.ts';
import { useAgentPrograms } from '../../support/agent-programs.ts';
import { eventually } from '../../support/eventually.ts';
import { buildEnrollmentKey, buildTenant } from '../../support/factories.ts';

/** The real agent, as processes, against a real server. */
describe('the agent program in other situations', () => {
  const agents = useAgentPrograms();

  it('sends the software of this machine, and its changes on request', async () => {
    // A package manager that this machine may not have, beside those that it has.
    const programs = path.join(agents.dataDir, 'programs');
    await mkdir(programs);
    const list = async (...apps: string[]) =>
      writeFile(path.join(programs, 'list'), apps.map((app) => `${app}\tthis-test\n`).join(''));
    await list('Planner\t1.0', 'Sketch\t7');
    await writeFile(
      path.join(programs, 'flatpak'),
      `#!/bin/sh\nexec cat '${path.join(programs, 'list')}'\n`,
      { mode: 0o755 },
    );
    await agents.enroll(await buildEnrollmentKey(agents.app, agents.tenant.orgId));
    agents.start(['run', '--data-dir', agents.dataDir], { PATH: `${programs}:${process.env['PATH'] ?? ''}` });
    const { deviceId } = await agents.connectedStatus();
    // The device may be known, with what an earlier test has left: it is the same machine.
    const { data: found } = await eventually(
      () => agents.get(`/devices/${deviceId}/software?search=planner`),
      ({ data }) => data.length > 0,
      30_000,
    );
    const inventory = await agents.get(`/devices/${deviceId}/inventory`);
    expect(inventory.hardware).to.deep.include({
      cpuCores: cpus().length,
      ramTotalMb: Math.round(totalmem() / 2 ** 20),
    });
    expect(inventory.interfaces.filter(({ isPrimary }: { isPrimary: boolean }) => isPrimary)).to.have.length(
      1,
    );
    expect((await agents.get(`/devices/${deviceId}`)).hostname).to.equal(hostname());
    const [{ firstSeenAt, ...planner }] = found;
    expect(planner).to.deep.equal({
      name: 'Planner',
      version: '1.0',
      publisher: 'this-test',
      installedAt: null,
    });
    expect(Date.now() - Date.parse(firstSeenAt)).to.be.within(0, 600_000);
    expect(found).to.have.length(1);
    // What dpkg itself says of a package that each Debian has.
    const { stdout } = await promisify(execFile)('dpkg-query', ['-W', '-f', '${Version}', 'dpkg']).catch(
      () => ({
        stdout: '',
      }),
    );
    if (stdout !== '') {
      const { data } = await agents.get(`/devices/${deviceId}/software?search=dpkg`);
      expect(data.find(({ name }: { name: string }) => name === 'dpkg').version).to.equal(stdout);
    }

    await list('Planner\t1.1', 'Notes\t0');
    const asked = await agents.app.call('POST', `/devices/${deviceId}/commands`, {
      token: agents.tenant.admin.token,
      body: { type: 'agent.refresh-inventory' },
    });
    await eventually(
      () => agents.get(`/commands/${asked.body.id}`),
      (body) => body.status === 'succeeded',
    );
    const { data: changes } = await agents.get(`/devices/${deviceId}/software/changes?limit=3`);
    expect(
      changes.map(({ change, name, version, previousVersion }: Record<string, string | null>) =>
        [change, name, previousVersion, version].join(' '),
      ),
    ).to.deep.equal(['removed Sketch 7 ', 'updated Planner 1.0 1.1', 'installed Notes  0']);
  });

  it('reports by its exit code why an enrollment failed', async () => {
    const spent = await buildEnrollmentKey(agents.app, agents.tenant.orgId, { max_usage: 1, usage_count: 1 });
    const unknown = await agents.enroll('nonsense');
    expect([unknown.code, unknown.output.includes('not known')]).to.deep.equal([2, true]);
    const used = await agents.enroll(spent);
    expect([used.code, used.output.includes('usage limit')]).to.deep.equal([2, true]);
    const nowhere = await agentCommand([
      'enroll',
      '--server',
      'http://127.0.0.1:1',
      '--key',
      'x',
      '--data-dir',
      agents.dataDir,
    ]);
    expect([nowhere.code, nowhere.output.includes('could not be reached')]).to.deep.equal([3, true]);
    const capped = await buildTenant(agents.app);
    const key = await buildEnrollmentKey(agents.app, capped.orgId);
    await agents.app.server.database.pool.transaction(async (trx) => {
      await trx.raw('set local role svc_system');
      await trx('organizations').where({ id: capped.orgId }).update({ max_devices: 0 });
    });
    expect((await agents.enroll(key)).code).to.equal(4);
    expect(await readdir(agents.dataDir)).to.deep.equal([]);
  });

  it('reconnects after a restart of the server, and shows its state meanwhile', async () => {
    await agents.enroll(await buildEnrollmentKey(agents.app, agents.tenant.orgId));
    const agent = agents.start(['run', '--json', '--data-dir', agents.dataDir]);
    const { deviceId } = await agents.connectedStatus();
    await agents.stopServer();
    await agents.statusIn('waiting', ({ running }) => running?.connection.state === 'waiting');
    await agents.startServer();
    await eventually(
      () => agents.get(`/devices/${deviceId}`),
      (body) => body.status === 'online',
    );
    expect(agent.output()).to.contain('The server ended the connection (draining).');
    agent.child.kill('SIGINT');
    expect(await agent.ended).to.equal(0);
  });

  it('ignores the status file of a killed agent', async () => {
    await agents.enroll(await buildEnrollmentKey(agents.app, agents.tenant.orgId));
    const agent = agents.start(['run', '--data-dir', agents.dataDir]);
    await agents.connectedStatus();
    agent.child.kill('SIGKILL');
    await agent.ended;
    expect(await readdir(agents.dataDir)).to.include('status.json');
    expect(await agents.status()).to.include({ code: 1, running: null });
  });

  it('simulates a fleet that enrolls, responds, and is the same after a restart', async () => {
    const keysFile = path.join(agents.dataDir, 'keys.json');
    await writeFile(
      keysFile,
      JSON.stringify([{ key: await buildEnrollmentKey(agents.app, agents.tenant.orgId), share: 1 }]),
    );
    const simulate = (devices: number) =>
      agents.start([
        'simulate',
        '--server',
        agents.app.url,
        '--keys-file',
        keysFile,
        '--devices',
        String(devices),
        '--data-dir',
        path.join(agents.dataDir, 'fleet'),
      ]);
    const connected = (fleet: AgentProgram) =>
      eventually(
        () => fleet.output(),
        (text) => text.includes('"fleet.connected"'),
      );
    const online = async () =>
      (await agents.get(`/devices?orgId=${agents.tenant.orgId}&status=online&limit=100`)).data as {
        id: string;
        osType: string;
      }[];

    const first = simulate(30);
    await connected(first);
    const devices = await eventually(online, (list) => list.length === 30);
    const windows = devices.find(({ osType }) => osType === 'windows')!;

    const base = `/devices/${windows.id}/eventlogs/System/events`;
    const two = await agents.get(`${base}?level=error,critical&limit=2&page=2`);
    const four = await agents.get(`${base}?level=error,critical&limit=4`);
    expect(two.data).to.deep.equal(four.data.slice(2));
    expect(new Set(four.data.map(({ level }: LogEntry) => level))).to.satisfy((levels: Set<string>) =>
      [...levels].every((level) => ['error', 'critical'].includes(level)),
    );
    const [entry] = four.data as LogEntry[];
    expect((await agents.get(`${base}/${entry!.recordId}`)).data).to.deep.equal(entry);

    first.child.kill('SIGTERM');
    expect(await first.ended).to.equal(0);
    const second = simulate(30);
    await connected(second);
    const again = await eventually(online, (list) => list.length === 30);
    expect(again.map(({ id }) => id)).to.have.members(devices.map(({ id }) => id));
  });
});
