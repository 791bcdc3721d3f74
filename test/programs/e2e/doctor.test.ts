import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { expect } from 'chai';
import { clockFinding } from '../../../src/agent/cli/doctor.ts';
import { agentCommand } from '../../support/agent-program.ts';
import { buildEnrollmentKey, buildTenant } from '../../support/factories.ts';
import { createTestApp, type TestApp } from '../../support/test-app.ts';

describe('muster-agent doctor', function () {
  this.timeout(120_000);
  let app: TestApp;
  let folder: string;

  before(async () => {
    app = await createTestApp();
  });
  after(async () => app.close());
  beforeEach(async () => {
    folder = await mkdtemp(path.join(tmpdir(), 'muster-doctor-'));
  });
  afterEach(async () => rm(folder, { recursive: true, force: true }));

  const places = () => ['--data-dir', path.join(folder, 'data'), '--programs', path.join(folder, 'programs')];
  // No service manager is there, whatever runs on the machine of the test.
  const doctor = (...more: string[]) =>
    agentCommand(['doctor', ...places(), ...more], { MUSTER_PREFIX: folder });
  const enroll = async () => {
    const { orgId } = await buildTenant(app);
    const key = await buildEnrollmentKey(app, orgId);
    const data = path.join(folder, 'data');
    await agentCommand(['enroll', '--server', app.url, '--data-dir', data], { MUSTER_ENROLLMENT_KEY: key });
  };
  const failed = async () => {
    const { code, output } = await doctor('--json');
    const { ok, findings } = JSON.parse(output) as {
      ok: boolean;
      findings: { check: string; ok: boolean }[];
    };
    expect(code).to.equal(ok ? 0 : 1);
    return findings.filter((finding) => !finding.ok).map(({ check }) => check);
  };

  it('says what to do on a machine that is not enrolled', async () => {
    const { code, output } = await doctor();
    expect(code).to.equal(1);
    expect(output)
      .to.contain('✖ enrollment: This machine is not enrolled.')
      .and.to.contain('enroll --server');
  });

  it('finds nothing on a machine in order, and a release that does not hold', async () => {
    await enroll();
    expect(await failed()).to.deep.equal([]);
    const { output } = await doctor();
    for (const check of [
      'enrollment',
      'DNS',
      'server',
      'clock',
      'event logs',
      'disk',
      'log',
      'restic',
      'service',
      'releases',
    ]) {
      expect(output).to.contain(`✔ ${check}: `);
    }
    expect(output).not.to.contain('magt_');
    await mkdir(path.join(folder, 'programs/agent/1.0.0'), { recursive: true });
    await writeFile(path.join(folder, 'programs/agent/1.0.0/muster-agent.cjs'), 'process.exit()');
    expect(await failed()).to.deep.equal(['release 1.0.0']);
  });

  it('finds a server that is not reached, and credentials that are none', async () => {
    await enroll();
    await writeFile(path.join(folder, 'data/network.json'), JSON.stringify({ proxy: 'http://127.0.0.1:9' }), {
      mode: 0o600,
    });
    expect(await failed()).to.deep.equal(['server']);
    await writeFile(path.join(folder, 'data/credentials.json'), '{"token":"x"}', { mode: 0o600 });
    expect(await failed()).to.deep.equal(['enrollment']);
  });

  it('finds a clock that is wrong', () => {
    expect(clockFinding(4 * 60_000)).to.include({ ok: true, message: '240 s ahead of the server' });
    expect(clockFinding(-3_600_000)).to.include({ ok: false, message: '3600 s behind the server' });
  });
});
