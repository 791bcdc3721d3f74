import { expect } from 'chai';
import { buildPerson, buildTenant, giveSecondFactor } from '../../../support/factories.ts';
import {
  createReleaseBench,
  LINUX,
  query,
  type ReleaseBench,
  upload,
} from '../../../support/releases/release-support.ts';

const WINDOWS = 'component=agent&os=windows&architecture=x64';

describe('promotion', function () {
  this.timeout(120_000);
  let bench: ReleaseBench;
  beforeEach(async () => {
    bench = await createReleaseBench({ env: { AGENT_AUTO_PROMOTE: 'false' } });
  });
  afterEach(() => bench.close());

  const publish = async (version: string, platform?: string) =>
    (await upload(bench, { version, ...(platform === undefined ? {} : { platform }) })).body;
  const promote = (body: object, token = bench.admin.token) =>
    bench.app.call('POST', '/agent-versions/promote', { token, body });
  const latest = async (platform = LINUX) => {
    const { status, body } = await bench.app.call('GET', `/agent-versions/latest?${platform}`);
    return status === 200 ? body.version : status;
  };
  const at = (version: string, platform = 'agent/linux/x64') => {
    const [component, os, architecture] = platform.split('/');
    return { component, os, architecture, version };
  };

  it('makes a version the latest on every platform that it has, and names what it takes the place of', async () => {
    await publish('1.0.0');
    await publish('1.0.0', 'agent/windows/x64');
    await publish('1.0.0', 'watchdog/linux/x64');
    expect(await latest()).to.equal(404);
    const first = await promote({ version: '1.0.0' });
    expect([first.status, first.body.demoted]).to.deep.equal([200, []]);
    expect(first.body.promoted).to.have.deep.members([
      at('1.0.0'),
      at('1.0.0', 'agent/windows/x64'),
      at('1.0.0', 'watchdog/linux/x64'),
    ]);

    await publish('1.1.0');
    await publish('1.1.0', 'watchdog/linux/x64');
    const { body } = await promote({ version: '1.1.0', component: 'agent' });
    expect(body).to.deep.equal({ promoted: [at('1.1.0')], demoted: [at('1.0.0')] });
    expect([await latest(), await latest(WINDOWS)]).to.deep.equal(['1.1.0', '1.0.0']);
    expect(await latest('component=watchdog&os=linux&architecture=x64')).to.equal('1.0.0');

    const back = await promote({ version: '1.0.0' });
    expect(back.body.demoted).to.deep.equal([at('1.1.0')]);
    expect(await latest()).to.equal('1.0.0');
    const again = await promote({ version: '1.0.0' });
    expect([again.status, again.body.demoted]).to.deep.equal([200, []]);
  });

  it('is audited, with what was promoted and demoted', async () => {
    await publish('1.0.0');
    await publish('1.1.0-rc.1');
    await promote({ version: '1.0.0' });
    await promote({ version: '1.1.0-rc.1' });
    await bench.app.server.chainWriter.flush();
    const entries = await query(
      bench.app,
      `select actor_email, resource_name, details from audit_logs where action = 'agent_version.promote' order by id desc limit 1`,
    );
    expect(entries).to.deep.equal([
      {
        actor_email: bench.admin.email,
        resource_name: '1.1.0-rc.1',
        details: {
          promoted: [at('1.1.0-rc.1')],
          demoted: [at('1.0.0')],
          before: { promoted: [at('1.0.0')] },
          after: { promoted: [at('1.1.0-rc.1')] },
        },
      },
    ]);
  });

  it('is refused whole if one signature does not hold', async () => {
    await publish('1.0.0');
    await promote({ version: '1.0.0' });
    await publish('1.1.0');
    await publish('1.1.0', 'agent/windows/x64');
    const faults = [
      `update agent_releases set sha256 = repeat('a', 64) where version = '1.1.0' and os = 'windows'`,
      `update agent_releases set size = size + 1 where version = '1.1.0' and os = 'windows'`,
      `update agent_releases set signature = (select signature from agent_releases where version = '1.0.0') where version = '1.1.0' and os = 'windows'`,
      `update agent_releases set signature = '' where version = '1.1.0' and os = 'windows'`,
      // A public key that somebody put there, whose private half this installation has not sealed.
      `update release_signing_keys set sealed_private_key = 'v1.x.y.z'`,
    ];
    for (const fault of faults) {
      const before = await query(bench.app, 'select * from agent_releases');
      const keys = await query<{ id: string; sealed_private_key: string }>(
        bench.app,
        'select * from release_signing_keys',
      );
      await query(bench.app, fault);
      const { status, body } = await promote({ version: '1.1.0' });
      expect([status, body.code], fault).to.deep.equal([409, 'RELEASE_UNTRUSTED']);
      expect(body.details.untrusted).to.deep.include(at('1.1.0', 'agent/windows/x64'));
      expect(await latest()).to.equal('1.0.0');
      expect(await latest(WINDOWS)).to.equal(404);
      for (const row of before as { id: string; sha256: string; size: number; signature: string }[]) {
        await query(bench.app, 'update agent_releases set sha256 = ?, size = ?, signature = ? where id = ?', [
          row.sha256,
          String(row.size),
          row.signature,
          row.id,
        ]);
      }
      await query(bench.app, 'update release_signing_keys set sealed_private_key = ? where id = ?', [
        keys[0]!.sealed_private_key,
        keys[0]!.id,
      ]);
    }
    expect((await promote({ version: '1.1.0' })).status).to.equal(200);
  });

  it('answers 404 to an unknown version, and 400 to what is none', async () => {
    await publish('1.0.0');
    for (const body of [{ version: '9.9.9' }, { version: '1.0.0', component: 'helper' }]) {
      expect((await promote(body)).status, JSON.stringify(body)).to.equal(404);
    }
    for (const body of [
      {},
      { version: 'latest' },
      { version: 'v1.0.0' },
      { version: '1.0.0', component: 'x' },
      { version: '1.0.0', os: 'linux' },
    ]) {
      expect((await promote(body)).status, JSON.stringify(body)).to.equal(400);
    }
  });

  it('is for system administrators with a second factor', async () => {
    await publish('1.0.0');
    const { admin } = await buildTenant(bench.app);
    await giveSecondFactor(bench.app, admin);
    const plain = await buildPerson(bench.app, { scope: 'system' });
    const refusals = [
      await promote({ version: '1.0.0' }, admin.token),
      await promote({ version: '1.0.0' }, plain.token),
    ];
    expect(refusals.map(({ status, body }) => [status, body.code])).to.deep.equal([
      [403, 'FORBIDDEN'],
      [403, 'MFA_REQUIRED'],
    ]);
    expect(await latest()).to.equal(404);
  });

  it('leaves one promoted release when promoting, publishing and deleting happen at once', async () => {
    const versions = ['1.0.0', '1.1.0', '1.2.0', '1.3.0'];
    const ids = new Map<string, string>();
    for (const version of versions) {
      ids.set(version, (await publish(version)).id);
      await publish(version, 'agent/windows/x64');
    }
    const [deleted, published, ...promotions] = await Promise.all([
      bench.app.call('DELETE', `/agent-versions/${ids.get('1.0.0')}`, { token: bench.admin.token }),
      upload(bench, { version: '2.0.0' }),
      ...versions.flatMap((version) => [promote({ version }), promote({ version })]),
    ]);
    // Each takes its turn, so none fails because of another.
    expect(promotions.map(({ status }) => status)).to.deep.equal(promotions.map(() => 200));
    expect(published.status).to.equal(201);
    expect(deleted.status).to.be.oneOf([200, 409]);
    const promoted = await query<{ os: string; version: string }>(
      bench.app,
      'select os, version from agent_releases where promoted',
    );
    expect(promoted.map(({ os }) => os).sort()).to.deep.equal(['linux', 'windows']);
    expect(bench.app.log.filter(({ level }) => level === 'error')).to.deep.equal([]);
  });
});

describe('AGENT_AUTO_PROMOTE', () => {
  let bench: ReleaseBench;
  before(async () => {
    bench = await createReleaseBench();
  });
  after(() => bench.close());

  it('promotes a stable release that is the highest of its platform, and no other', async () => {
    const latest = async () => (await bench.app.call('GET', `/agent-versions/latest?${LINUX}`)).body.version;
    const after: string[] = [];
    for (const version of ['1.0.0', '1.1.0-rc.1', '1.1.0', '1.0.5', '1.2.0-rc.1', '1.10.0', '1.9.0']) {
      const { body } = await upload(bench, { version });
      const now = await latest();
      expect(body.promoted, version).to.equal(now === version);
      after.push(now);
    }
    expect(after).to.deep.equal(['1.0.0', '1.0.0', '1.1.0', '1.1.0', '1.1.0', '1.10.0', '1.10.0']);
  });
});

describe('the list of releases', () => {
  let bench: ReleaseBench;
  before(async () => {
    bench = await createReleaseBench();
    for (const [version, platform] of [
      ['1.0.0', 'agent/linux/x64'],
      ['1.2.0', 'agent/linux/x64'],
      ['1.10.0-rc.1', 'agent/windows/x64'],
      ['1.2.0', 'agent/windows/x64'],
      ['0.3.0', 'watchdog/linux/arm64'],
      ['0.18.0', 'backup/linux/x64'],
    ] as const) {
      await upload(bench, { version, platform });
    }
  });
  after(() => bench.close());

  it('shows everyone who is signed in the same, newest first, by filter and page', async () => {
    const { admin, technician } = await buildTenant(bench.app);
    const read = async (search: string, token = technician.token) =>
      (await bench.app.call('GET', `/agent-versions${search}`, { token })).body;
    const all = await read('');
    expect(all.pagination).to.deep.equal({ page: 1, limit: 50, total: 6 });
    expect(all.data.map(({ version }: { version: string }) => version)).to.deep.equal([
      '0.18.0',
      '0.3.0',
      '1.2.0',
      '1.10.0-rc.1',
      '1.2.0',
      '1.0.0',
    ]);
    for (const token of [admin.token, bench.admin.token]) expect(await read('', token)).to.deep.equal(all);
    expect((await read('?component=agent&os=windows')).pagination.total).to.equal(2);
    expect((await read('?architecture=arm64')).data[0]).to.include({ component: 'watchdog', promoted: true });
    expect(
      (await read('?limit=2&page=3')).data.map(({ version }: { version: string }) => version),
    ).to.deep.equal(['1.2.0', '1.0.0']);
    expect((await read('?component=nonsense')).code).to.equal('VALIDATION_FAILED');
  });

  it('cannot be written by a tenant, whatever a query says', async () => {
    const { orgId } = await buildTenant(bench.app);
    const { withTenant } = await import('../../../../src/platform/db/transaction.ts');
    const tenant = {
      scope: 'organization',
      userId: null,
      partnerId: null,
      orgAccess: 'listed',
      orgIds: [orgId],
    } as const;
    const run = (sql: string) =>
      withTenant(bench.app.server.database.pool, tenant, (tx) => tx.raw(sql)).then(
        (result) => result.rows as unknown[],
        (error: { code: string }) => error.code,
      );
    expect(await run('select 1 from agent_releases')).to.have.lengthOf(6);
    for (const sql of [
      'update agent_releases set promoted = true',
      'delete from agent_releases',
      'insert into agent_releases select * from agent_releases',
      'select * from release_signing_keys',
    ]) {
      expect(await run(sql), sql).to.equal('42501');
    }
  });

  it('gives the versions that can be pinned, highest first', async () => {
    const { technician } = await buildTenant(bench.app);
    const { body } = await bench.app.call('GET', '/agent-versions/pinnable', { token: technician.token });
    expect(body).to.deep.equal({
      components: {
        agent: { versions: ['1.10.0-rc.1', '1.2.0', '1.0.0'], promoted: '1.2.0' },
        watchdog: { versions: ['0.3.0'], promoted: '0.3.0' },
      },
    });
  });
});
