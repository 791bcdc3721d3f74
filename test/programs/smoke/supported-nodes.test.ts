import { execFileSync } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { expect } from 'chai';
import { eventually } from '../../support/eventually.ts';
import { killProgram, type Program, runProgram } from '../../support/program.ts';
import { startServerProcess, type StartedServer } from '../../support/started-server.ts';
import { call } from '../../support/test-app.ts';

/**
 * The whole product on each version of Node that is supported, on the embedded Postgres: the server starts, a person
 * signs in, an agent connects, and everything stops in order. The gate names the versions beside its own, which runs all
 * other tests, in MUSTER_TEST_NODES: paths of their programs with commas between them.
 */
const named = (process.env['MUSTER_TEST_NODES'] ?? '').split(',').filter((file) => file !== '');
const programs = named.length > 0 ? named : [process.execPath];
const ADMIN = { email: 'admin@example.com', password: 'a-password-for-the-smoke-test' };

for (const node of programs) {
  const version = execFileSync(node, ['--version'], { encoding: 'utf8' }).trim();

  describe(`Muster on Node ${version}`, function () {
    this.timeout(120_000);
    let folder: string;
    let server: StartedServer | undefined;
    let agent: Program | undefined;

    before(async () => {
      folder = await mkdtemp(path.join(tmpdir(), 'muster-node-'));
    });
    after(async () => {
      if (agent !== undefined) await killProgram(agent);
      if (server !== undefined) await killProgram(server);
      await rm(folder, { recursive: true, force: true });
    });

    it('starts, signs a person in, hears an agent and stops in order', async () => {
      server = await startServerProcess(
        {
          DATA_DIR: path.join(folder, 'server'),
          AGENT_HEARTBEAT_SECONDS: '1',
          SVC_ADMIN_EMAIL: ADMIN.email,
          SVC_ADMIN_PASSWORD: ADMIN.password,
        },
        { node, asBuilt: true },
      );
      const { url } = server;
      const api = async (method: string, where: string, body?: unknown, token?: string) => {
        const answer = await call(`${url}/api/v1${where}`, method, { body, token });
        expect(answer.status, JSON.stringify(answer.body)).to.be.within(200, 299);
        return answer.body;
      };
      const { tokens } = await api('POST', '/auth/login', ADMIN);
      const asAdmin = (method: string, where: string, body?: unknown) =>
        api(method, where, body, tokens.accessToken);

      const partner = await asAdmin('POST', '/orgs/partners', { name: 'Partner', slug: 'partner' });
      const organization = await asAdmin('POST', '/orgs/organizations', {
        partnerId: partner.id,
        name: 'Organization',
        slug: 'organization',
      });
      await asAdmin('POST', '/orgs/sites', { orgId: organization.id, name: 'Site' });
      const { key } = await asAdmin('POST', '/enrollment-keys', { orgId: organization.id, name: 'Key' });

      const agentFolder = path.join(folder, 'agent');
      const env = { PATH: process.env['PATH'], HOME: folder };
      const runAgent = (...words: string[]) =>
        runProgram('src/agent/main.ts', [...words, '--data-dir', agentFolder], { env, node, asBuilt: true });
      const enrolling = runAgent('enroll', '--server', url, '--key', key);
      expect(await enrolling.ended, enrolling.output()).to.equal(0);
      agent = runAgent('run');
      const { data: devices } = await eventually(
        () => asAdmin('GET', '/devices'),
        ({ data }) => data[0]?.status === 'online' && data[0].lastSeenAt !== null,
      );
      expect(devices).to.have.length(1);
      await eventually(
        () => asAdmin('GET', `/devices/${devices[0].id}`),
        ({ metrics }) => metrics !== null,
      );

      agent.child.kill('SIGTERM');
      expect(await agent.ended, agent.output()).to.equal(0);
      server.child.kill('SIGTERM');
      expect(await server.ended, server.output()).to.equal(0);
      expect(server.log().map(({ event }) => event)).to.include.members(['server.closing', 'server.closed']);
      expect(server.log().filter(({ level }) => level === 'error' || level === 'fatal')).to.deep.equal([]);
    });
  });
}
