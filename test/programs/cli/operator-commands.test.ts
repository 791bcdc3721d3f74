import { expect } from 'chai';
import { mkdir, mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { type AddressInfo, createServer, type Server } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { parseEnv } from 'node:util';
import { runCheck, type CheckResult } from '../../../src/cli/doctor/check.ts';
import { verificationCheck } from '../../../src/cli/doctor/database-checks.ts';
import { redisCheck } from '../../../src/cli/doctor/local-checks.ts';
import { judgeAddresses } from '../../../src/cli/doctor/outside-checks.ts';
import { nodeVersion } from '../../../src/cli/run-upgrade-check.ts';
import { readConfig } from '../../../src/config.ts';
import { withSystem } from '../../../src/platform/db/transaction.ts';
import { noteOf } from '../../../src/platform/db/migrations.ts';
import { SELF_CHECK_PURPOSE, selfCheckToken } from '../../../src/platform/http/operations.ts';
import { createMac } from '../../../src/platform/secrets/tokens.ts';
import { buildPerson, buildTenant, giveSecondFactor, PASSWORD } from '../../support/factories.ts';
import { startRedis } from '../../support/redis.ts';
import { environmentOf, runMuster } from '../../support/run-muster.ts';
import { createTestApp, TEST_ENCRYPTION_KEY, type TestApp } from '../../support/test-app.ts';
import { asOwner } from '../../support/test-postgres.ts';

interface Report {
  ok: boolean;
  checks: CheckResult[];
}

describe('the commands of the operator', function () {
  this.timeout(120_000);
  let app: TestApp;
  let folder: string;
  let env: Record<string, string>;

  before(async () => {
    folder = await mkdtemp(path.join(tmpdir(), 'muster-operator-'));
    app = await createTestApp({ env: { DATA_DIR: folder } });
    env = { ...environmentOf(app.database, folder), PUBLIC_URL: app.url };
  });
  after(async () => {
    await app.close();
    await rm(folder, { recursive: true, force: true });
  });

  const report = async (args: string[], given: Record<string, string>) => {
    const { code, out, err } = await runMuster([...args, '--json'], { env: given });
    expect(err).to.equal('');
    const { ok, checks } = JSON.parse(out) as Report;
    expect(code).to.equal(ok ? 0 : 1);
    const states = Object.fromEntries(checks.map(({ check, state }) => [check, state]));
    return { ok, out, states, of: (name: string) => checks.find(({ check }) => check === name) };
  };

  describe('doctor', () => {
    const closedPort = async () => {
      const server: Server = createServer();
      await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
      const { port } = server.address() as AddressInfo;
      await new Promise((resolve) => server.close(resolve));
      return port;
    };

    it('finds a running installation sound, and sees how its server sees it', async () => {
      const mailServer = createServer((socket) => {
        socket.on('error', () => undefined);
        socket.write('220 mail.test ESMTP\r\n');
        socket.on('data', (text) =>
          socket.write(/^QUIT/i.test(String(text)) ? '221 bye\r\n' : '250 mail.test\r\n'),
        );
      });
      await new Promise<void>((resolve) => mailServer.listen(0, '127.0.0.1', resolve));
      const { port } = mailServer.address() as AddressInfo;
      const { ok, states, of } = await report(['doctor'], { ...env, SMTP_URL: `smtp://127.0.0.1:${port}` });
      mailServer.close();
      expect(ok).to.equal(true);
      for (const name of [
        'configuration',
        'database',
        'isolation',
        'migrations',
        'clock',
        'keys',
        'jobs',
        'audit trail',
        'public address',
        'websocket',
        'client addresses',
        'mail',
      ]) {
        expect(states[name], `${name}: ${JSON.stringify(of(name))}`).to.equal('ok');
      }
    });

    it('names everything that is wrong at once, with what to do, and shows no secret', async () => {
      const port = await closedPort();
      const password = 'mail-password-that-nobody-sees';
      const { ok, out, states, of } = await report(['doctor'], {
        ...env,
        SECRET_ENCRYPTION_KEY: 'another-key-of-another-installation',
        REDIS_URL: `redis://:${password}@127.0.0.1:${port}`,
        SMTP_URL: `smtp://user:${password}@127.0.0.1:${port}`,
        PUBLIC_URL: `https://127.0.0.1:${port}`,
        DATA_DIR: path.join(folder, 'absent'),
        BACKUP_ENGINE_PATH: folder,
      });
      expect(ok).to.equal(false);
      for (const name of ['keys', 'redis', 'mail', 'public address', 'certificate', 'websocket', 'disk']) {
        expect(states[name], name).to.equal('failed');
        expect(of(name)?.fix, name).to.be.a('string');
      }
      expect(states).to.include({
        database: 'ok',
        isolation: 'ok',
        engine: 'warning',
        'client addresses': 'failed',
      });
      for (const secret of [password, TEST_ENCRYPTION_KEY, app.jwtSecret]) expect(out).not.to.contain(secret);
    });

    it('lists every fault of a configuration, and goes on without a database', async () => {
      const wrong = await report(['doctor'], {
        ...env,
        PORT: 'x',
        REDIS_URL: 'x',
        TRUST_PROXY_HEADERS: 'true',
      });
      expect(wrong.of('configuration')?.details).to.have.length(3);
      const port = await closedPort();
      const url = `postgres://svc_app:x@127.0.0.1:${port}/muster`;
      const away = await report(['doctor', '--no-outside'], {
        ...env,
        DATABASE_URL: url,
        DATABASE_URL_APP: url,
      });
      expect(away.states).to.include({
        configuration: 'ok',
        database: 'failed',
        jobs: 'skipped',
        disk: 'ok',
      });
    });

    it('finds an unsafe role, a migration that is missing, and a chain whose end was changed', async () => {
      await app.server.chainWriter.flush();
      const asSuperuser = await report(['doctor', '--no-outside'], {
        ...env,
        DATABASE_URL_APP: app.database.ownerUrl,
      });
      expect(asSuperuser.of('isolation')?.details?.join()).to.contain('is a superuser');
      const [last] = await asOwner<{ name: string; sha256: string }>(
        app.database.ownerUrl,
        'delete from muster_migration_checksums where name = (select max(name) from muster_migration_checksums) returning *',
      );
      const tenant = await buildTenant(app);
      await app.call('PATCH', `/orgs/sites/${tenant.siteId}`, {
        token: tenant.admin.token,
        body: { name: 'Here' },
      });
      await app.server.chainWriter.flush();
      await asOwner(
        app.database.ownerUrl,
        'alter table audit_chain_heads disable trigger user; update audit_chain_heads set seq = seq + 1; alter table audit_chain_heads enable trigger user',
      );
      const found = await report(['doctor', '--no-outside'], env);
      await asOwner(
        app.database.ownerUrl,
        'alter table audit_chain_heads disable trigger user; update audit_chain_heads set seq = seq - 1; alter table audit_chain_heads enable trigger user',
      );
      expect(found.states).to.include({ migrations: 'warning', 'audit trail': 'failed' });
      const pending = await report(['upgrade', 'check'], env);
      expect(pending.of('migrations')?.details?.join()).to.contain(last?.name);
      await asOwner(
        app.database.ownerUrl,
        'insert into muster_migration_checksums (name, sha256) values ($1, $2)',
        [last?.name, last?.sha256],
      );
    });

    it('knows when the chains were last verified, and what was found', async () => {
      const state = () => verificationCheck(app.server.database.pool).run();
      const verify = (...args: string[]) => runMuster(['audit', 'verify', ...args], { env });
      const { orgId, siteId, admin } = await buildTenant(app);
      const patched = { token: admin.token, body: { name: 'Here' } };
      await app.call('PATCH', `/orgs/sites/${siteId}`, patched);
      await app.server.chainWriter.flush();
      expect(await state()).to.include({
        state: 'warning',
        message: 'All chains together were never verified.',
      });
      await verify('--org', orgId);
      expect(await state(), 'one chain is not all of them').to.include({ state: 'warning' });
      await verify();
      const good = await state();
      expect(good.state, good.message).to.equal('ok');
      expect(good.message).to.match(/^All \d+ chains were intact when they were verified at 20/);

      const alter = (sql: string) =>
        asOwner(
          app.database.ownerUrl,
          `alter table audit_logs disable trigger user; update audit_logs set resource_name = ${sql}
            where org_id = '${orgId}' and seq = 1; alter table audit_logs enable trigger user`,
        );
      await alter(`resource_name || '!'`);
      const { body } = await app.call('POST', '/audit-logs/verify', { token: admin.token, body: { orgId } });
      expect(body.fault).to.include({ seq: 1 });
      const found = await state();
      expect(found).to.include({ state: 'failed' });
      expect(found.details?.join()).to.contain(`chain ${orgId}, entry 1: `);
      expect(found.fix).to.contain('muster audit verify');
      await alter(`rtrim(resource_name, '!')`);
      await verify();
      expect(await state()).to.include({ state: 'ok' });
    }).timeout(240_000);

    it('ends a check that takes too long, and judges Redis by what it would do when it is full', async () => {
      const late = await runCheck({ name: 'late', run: () => new Promise(() => {}) }, 10);
      expect(late.state).to.equal('failed');
      const redis = await startRedis();
      try {
        const check = redisCheck({ redisUrl: redis.url });
        expect(await check.run()).to.include({ state: 'ok' });
        await redis.ask('CONFIG', 'SET', 'maxmemory', '200mb');
        await redis.ask('CONFIG', 'SET', 'maxmemory-policy', 'allkeys-lru');
        expect(await check.run()).to.include({ state: 'warning' });
        await redis.ask('CONFIG', 'SET', 'maxmemory', '1kb');
        expect(await check.run()).to.include({ state: 'failed' });
      } finally {
        await redis.remove();
      }
    });

    it('answers the self-check to nobody who does not have the keys', async () => {
      const mac = createMac({ current: TEST_ENCRYPTION_KEY, old: [] }, SELF_CHECK_PURPOSE);
      const other = createMac({ current: 'another-key', old: [] }, SELF_CHECK_PURPOSE);
      const ask = async (token: string | undefined) => {
        const headers = token === undefined ? {} : { authorization: `Bearer ${token}` };
        return (await fetch(`${app.url}/health/self-check`, { headers })).status;
      };
      expect(await ask(selfCheckToken(mac))).to.equal(200);
      const tooOld = selfCheckToken(mac, Date.now() - 3_600_000);
      for (const token of [
        undefined,
        '',
        'x',
        '1.2',
        selfCheckToken(other),
        tooOld,
        `NaN.${mac.sign('NaN')}`,
      ]) {
        expect(await ask(token), String(token)).to.equal(404);
      }
    });

    it('distinguishes a proxy that is not trusted from one that lets clients forge their address', () => {
      const seen = {
        peer: '10.0.0.1',
        peerIsProxy: true,
        client: '198.51.100.7',
        unreadable: null as { header: string; value: string } | null,
        forwardedFor: '203.0.113.77, 198.51.100.7',
        forwardedProto: 'https',
        via: null,
        host: 'rmm.test',
      };
      const judged = (change: Partial<typeof seen>, trustedProxies = ['10.0.0.0/8']) =>
        judgeAddresses({ ...seen, ...change }, { host: 'rmm.test', trustedProxies }).state;
      expect(judged({})).to.equal('ok');
      expect(judged({ peerIsProxy: false, client: '10.0.0.1' }, [])).to.equal('failed');
      expect(judged({ client: '203.0.113.77', forwardedFor: '203.0.113.77' })).to.equal('failed');
      expect(judged({ client: '203.0.113.77', forwardedFor: '203.0.113.77, 10.0.0.9' })).to.equal('warning');
      expect(judged({ unreadable: { header: 'x-forwarded-for', value: 'unknown' } })).to.equal('failed');
      const direct = { peerIsProxy: false, client: '10.0.0.1', forwardedFor: '203.0.113.77' };
      const plain = { ...direct, forwardedProto: null as unknown as string };
      expect(judged(plain, [])).to.equal('ok');
      expect(judged(plain)).to.equal('warning');
      expect(judged({ ...plain, host: 'upstream' }, [])).to.equal('failed');
    });
  });

  describe('init', () => {
    it('writes a private file that the configuration accepts, asks nothing, and is never written over', async () => {
      const file = path.join(folder, 'environment');
      const password = 'p$ss "word`\\';
      await writeFile(path.join(folder, 'owner'), `${password}\n`);
      const args = ['init', file, '--public-url', 'https://rmm.test', '--admin-email', 'ops@example.com'];
      args.push(
        '--database-url',
        'postgres://owner@db.test/muster',
        '--database-password-file',
        path.join(folder, 'owner'),
      );
      const { code, out, err } = await runMuster([...args, '--json']);
      expect([code, err]).to.deep.equal([0, '']);
      const text = await readFile(file, 'utf8');
      const values = parseEnv(text) as Record<string, string>;
      expect((await stat(file)).mode & 0o777).to.equal(0o600);
      expect(new URL(values['DATABASE_URL'] ?? '').password).to.equal(encodeURIComponent(password));
      const config = readConfig({ environment: values });
      expect(config.encryptionKey).to.have.length.greaterThan(40);
      expect(config.firstAdmin?.email).to.equal('ops@example.com');
      expect(JSON.parse(out).generated).to.include.members(['JWT_SECRET', 'SECRET_ENCRYPTION_KEY']);
      for (const name of JSON.parse(out).generated) expect(out).not.to.contain(values[name]);
      const again = await runMuster([...args, '--json']);
      expect(again.code).to.equal(2);
      expect(await readFile(file, 'utf8')).to.equal(text);
      const spoken = await runMuster([
        'init',
        path.join(folder, 'other'),
        '--database-url',
        'postgres://o:geheim@db.test/x',
      ]);
      expect(spoken.code).to.equal(2);
      expect(spoken.err).not.to.contain('geheim');
      const nowhere = await runMuster(['init', path.join(folder, 'missing', 'environment'), '--json']);
      expect(nowhere.code).to.equal(2);
      expect(nowhere.err).to.contain('missing/environment cannot be written (ENOENT)');
    });
  });

  describe('init with names', () => {
    const names = ['--provider', 'Calm IT', '--organization', 'Bright Smile', '--site', 'Main street'];

    it('creates the administrator, the tenant and a key that enrolls, once, and says what comes next', async () => {
      const first = ['init', '--admin-email', 'first@example.com', ...names, '--key', 'Notebooks'];
      const { code, out, err } = await runMuster([...first, '--json'], { env });
      expect([code, err]).to.deep.equal([0, '']);
      const made = JSON.parse(out);
      expect(made).to.deep.include({ ok: true, file: null, set: [], hasRelease: false });
      // The key is not shown again, so its line is there before there is something to install.
      expect(made.installLine).to.contain(`/install.sh?key=${made.key.value}'`);
      expect(made.administrator).to.deep.include({ email: 'first@example.com', isNew: true });
      const { email, password } = made.administrator;
      expect((await app.call('POST', '/auth/login', { body: { email, password } })).status).to.equal(200);

      const machine = { hostname: 'FIRST-ONE', osType: 'linux', osVersion: '12', architecture: 'x64' };
      const enrolled = await app.call('POST', '/agents/enroll', {
        body: { ...machine, agentVersion: '1.0.0', enrollmentKey: made.key.value },
      });
      expect(enrolled.status, JSON.stringify(enrolled.body)).to.equal(201);
      expect(enrolled.body).to.include({ orgId: made.organization.id, siteId: made.site.id });

      const again = await runMuster([...first.slice(0, -2), '--json'], { env });
      const known = JSON.parse(again.out);
      expect(known.administrator).to.deep.equal({ email, isNew: false });
      for (const part of ['provider', 'organization', 'site']) {
        expect(known[part], part).to.deep.equal({ ...made[part], isNew: false });
      }
      const spoken = await runMuster(first, { env });
      expect(spoken.out).to.contain('Bright Smile, there already');
      const next = spoken.out.slice(spoken.out.indexOf('Next:'));
      const order = ['build:agent', 'releases add dist/agent', 'npm start', 'on a machine: curl -fsSL'];
      const places = order.map((step) => next.indexOf(step));
      expect(places, next).to.not.include(-1);
      expect(places).to.deep.equal(places.toSorted((a, b) => a - b));
    });

    it('says of an install line that it is for the machine of the server only, if others cannot reach it', async () => {
      const lineAt = async (more: Record<string, string>) => {
        const { PUBLIC_URL: _publicUrl, ...own } = env;
        const { code, out, err } = await runMuster(
          ['init', '--admin-email', 'first@example.com', ...names, '--key', 'Here'],
          {
            env: { ...own, ...more },
          },
        );
        expect(code, err).to.equal(0);
        const [, server] = /curl -fsSL '([^']*)\/install\.sh/.exec(out) ?? [];
        return { server, isNoted: out.includes('This line is for the machine of the server itself.') };
      };
      for (const [more, server, isNoted] of [
        [{}, 'http://127.0.0.1:3000', true],
        [{ HOST: '::1', PORT: '3001' }, 'http://[::1]:3001', true],
        // Everywhere: by which of its addresses others reach the machine, nothing here knows.
        [{ HOST: '0.0.0.0' }, 'http://localhost:3000', true],
        [{ HOST: '::' }, 'http://localhost:3000', true],
        [{ HOST: '192.0.2.7' }, 'http://192.0.2.7:3000', false],
        [{ PUBLIC_URL: 'https://rmm.example.com/' }, 'https://rmm.example.com', false],
        [{ PUBLIC_URL: 'http://localhost:8080' }, 'http://localhost:8080', true],
      ] as const) {
        expect(await lineAt(more), JSON.stringify(more)).to.deep.equal({ server, isNoted });
      }
    });

    it('creates all or nothing, and says which name is missing', async () => {
      const wanting = await runMuster(
        ['init', '--organization', 'Nowhere', '--provider', 'New one', '--site', ' '],
        {
          env,
        },
      );
      expect(wanting.code).to.equal(2);
      await runMuster(['init', '--provider', 'A second'], { env });
      const unclear = await runMuster(['init', '--organization', 'Nowhere'], { env });
      expect(unclear).to.include({ code: 2, out: '' });
      expect(unclear.err).to.contain('--provider');
      const { rows } = await withSystem(app.server.database.pool, 'test', (tx) =>
        tx.raw(
          "select name from partners where name = 'New one' union select name from organizations where name = 'Nowhere'",
        ),
      );
      expect(rows).to.deep.equal([]);
    });

    it('writes the file first if there is none, and reads it if there is', async () => {
      const dataDir = path.join(folder, 'fresh');
      const file = path.join(folder, 'fresh.env');
      const { DATABASE_URL = '', ...rest } = env;
      const text = Object.entries({ ...rest, DATABASE_URL, DATA_DIR: dataDir })
        .map(([name, value]) => `${name}='${value}'`)
        .join('\n');
      await writeFile(file, text);
      const read = await runMuster(['init', file, '--provider', 'Calm IT', '--json'], {});
      expect(read.code, read.err).to.equal(0);
      expect(JSON.parse(read.out)).to.deep.include({ file, set: [] });
      expect(await readFile(file, 'utf8')).to.equal(text);
    });
  });

  describe('releases', () => {
    it('are added by the folder that the build writes, with names that say what they are', async () => {
      const built = path.join(folder, 'built');
      await mkdir(built);
      for (const name of ['muster-agent-linux-x64.cjs', 'muster-watchdog-linux-x64', 'SHA256SUMS']) {
        await writeFile(path.join(built, name), `content of ${name}`);
      }
      const added = await runMuster(['releases', 'add', built, '--version', '7.1.0', '--json'], { env });
      expect(added.code, added.err).to.equal(0);
      const components = added.out
        .trim()
        .split('\n')
        .map((line) => JSON.parse(line).release.component);
      expect(components).to.deep.equal(['agent', 'watchdog']);
      const listed = JSON.parse((await runMuster(['releases', 'list', '--json'], { env })).out);
      expect(listed.releases.map(({ promoted }: { promoted: boolean }) => promoted)).to.deep.equal([
        true,
        true,
      ]);
      const key = await runMuster(['init', '--provider', 'Calm IT', '--key', 'More', '--json'], { env });
      expect(JSON.parse(key.out).installLine).to.match(
        /^curl -fsSL '.*\/install\.sh\?key=menr_.*' \| sudo sh$/,
      );
      const unnamed = await runMuster(
        ['releases', 'add', path.join(built, 'SHA256SUMS'), '--version', '7.2.0'],
        { env },
      );
      expect(unnamed.code).to.equal(2);
      expect(unnamed.err).to.contain('--component');
    });
  });

  describe('api-keys', () => {
    const create = (person: string, ...args: string[]) =>
      runMuster(['api-keys', 'create', '--person', person, ...args], { env });
    const devices = (token: string) => app.call('GET', '/devices', { token }).then(({ status }) => status);

    it('creates a key that acts for a person, prints it once, and ends it', async () => {
      const tenant = await buildTenant(app);
      const wanted = ['--name', 'Inventory', '--permission', 'devices:read', 'filters:read'];
      const made = await create(tenant.admin.email, ...wanted, '--json');
      expect(made, made.err).to.include({ code: 0, err: '' });
      const { key, ...shown } = JSON.parse(made.out).apiKey;
      expect(shown).to.include({ name: 'Inventory', rateLimit: 1000, revokedAt: null });
      expect(shown.scopes).to.deep.equal(['devices:read', 'filters:read']);
      expect(await devices(key)).to.equal(200);
      expect((await app.call('GET', '/scripts', { token: key })).status).to.equal(403);

      const listed = await runMuster(['api-keys', 'list', '--json'], { env });
      expect(listed.out).not.to.contain(key);
      const [found] = JSON.parse(listed.out).apiKeys.filter(({ id }: { id: string }) => id === shown.id);
      expect(found).to.deep.equal({ ...shown, person: tenant.admin.email });

      const ended = await runMuster(['api-keys', 'revoke', shown.id], { env });
      expect(ended).to.include({ code: 0, out: 'The key "Inventory" opens nothing any more.\n' });
      expect(await devices(key)).to.equal(401);
      const again = await runMuster(['api-keys', 'revoke', shown.id], { env });
      expect(again.out).to.contain('was revoked before');
      await app.server.chainWriter.flush();
      const entries = await asOwner(
        app.database.ownerUrl,
        `select action, actor_type, details ->> 'by' as by from audit_logs where resource_id = $1 order by seq`,
        [shown.id],
      );
      expect(entries).to.deep.equal(
        ['api_key.create', 'api_key.revoke'].map((action) => ({
          action,
          actor_type: 'system',
          by: 'operator',
        })),
      );
    });

    it('prints the key alone, so that a program can take it', async () => {
      const tenant = await buildTenant(app);
      const { out, err } = await create(
        tenant.admin.email,
        '--name',
        'Pipe',
        '--permission',
        'devices:read',
        '--expires-at',
        '2099-01-01',
      );
      expect(await devices(out.trim())).to.equal(200);
      expect(err).to.contain(`acts for ${tenant.admin.email}`);
    });

    it('is for one organization if the person may go everywhere', async () => {
      const tenant = await buildTenant(app);
      const admin = await buildPerson(app, { scope: 'system' });
      const wanted = ['--name', 'Nightly', '--permission', 'devices:read'];
      const everywhere = await create(admin.email, ...wanted);
      expect(everywhere).to.include({ code: 2, out: '' });
      expect(everywhere.err).to.contain('API keys cannot have system scope');
      const made = await create(admin.email, ...wanted, '--organization', tenant.orgId, '--json');
      expect(JSON.parse(made.out).apiKey).to.include({ orgId: tenant.orgId });
    });

    it('refuses what the person may not do, unknown people and organizations, and wrong options', async () => {
      const tenant = await buildTenant(app);
      const { email } = tenant.admin;
      const wanted = ['--name', 'Too much', '--permission'];
      for (const [run, message] of [
        [await create(email, ...wanted, 'system:write'), '--permission'],
        [await create('nobody@example.com', ...wanted, 'devices:read'), 'No user with the address'],
        [
          await create(email, ...wanted, 'devices:read', '--organization', 'None'),
          'There is no organization',
        ],
        [await create(email, ...wanted, 'devices:read', '--expires-at', '2001-01-01'), '--expires-at'],
        [await create(email, ...wanted, 'devices:read', '--rate-limit', 'many'), '--rate-limit'],
        [await runMuster(['api-keys', 'revoke', 'all'], { env }), 'is no id of an API key'],
        [await runMuster(['api-keys', 'revoke', tenant.orgId], { env }), 'not found'],
      ] as const) {
        expect([run.code, run.out], run.err).to.deep.equal([2, '']);
        expect(run.err).to.contain(message);
      }
    });
  });

  describe('admin', () => {
    const states = (email: string) =>
      app.call('POST', '/auth/login', { body: { email, password: PASSWORD } }).then(({ status }) => status);

    it('creates an administrator who signs in, and refuses weak passwords and known addresses', async () => {
      const args = ['admin', 'create', '--email', 'operator@example.com', '--password-stdin'];
      const unasked = await runMuster(args.slice(0, -1), { env });
      expect([unasked.code, unasked.out]).to.deep.equal([2, '']);
      expect(unasked.err).to.contain('There is no terminal to ask on');
      expect((await runMuster(args, { env, stdin: 'short' })).err).to.contain('at least 8 characters');
      const made = await runMuster([...args, '--json'], { env, stdin: `${PASSWORD}\n` });
      expect(made, made.err).to.include({ code: 0, err: '' });
      expect(await states('operator@example.com')).to.equal(200);
      const again = await runMuster(args, { env, stdin: PASSWORD });
      expect(again).to.include({ code: 2, err: 'There is a user operator@example.com already.\n' });
      const listed = await runMuster(['admin', 'list', '--json'], { env });
      expect(JSON.parse(listed.out).admins.map(({ email }: { email: string }) => email)).to.include(
        'operator@example.com',
      );
    });

    it('resets a password and removes a second factor, ends what was open, and is audited', async () => {
      const person = await giveSecondFactor(app, await buildPerson(app, { scope: 'system' }));
      const tenant = await buildTenant(app);
      const me = (token: string) => app.call('GET', '/auth/me', { token }).then(({ status }) => status);
      expect(await me(person.token)).to.equal(200);
      const reset = await runMuster(
        ['admin', 'reset-password', '--email', person.email, '--password-stdin'],
        {
          env,
          stdin: 'Another-Horse-9',
        },
      );
      expect(reset, reset.err).to.include({ code: 0, err: '' });
      expect(await me(person.token)).to.equal(401);
      expect(await states(person.email)).to.equal(401);
      const freed = await runMuster(['admin', 'disable-mfa', '--email', person.email], { env });
      expect(freed.out).to.contain('signs in with the password alone');
      const signedIn = await app.call('POST', '/auth/login', {
        body: { email: person.email, password: 'Another-Horse-9' },
      });
      expect(signedIn.body.tokens).to.be.an('object');
      const other = await runMuster(['admin', 'disable-mfa', '--email', tenant.admin.email], { env });
      expect(other).to.include({ code: 2, err: `System administrator ${tenant.admin.email} not found\n` });
      await app.server.chainWriter.flush();
      const entries = await asOwner(
        app.database.ownerUrl,
        `select action, actor_type, org_id, partner_id, details from audit_logs
        where resource_id = $1 and actor_type = 'system' order by seq`,
        [person.id],
      );
      const entry = { actor_type: 'system', org_id: null, partner_id: null, details: { by: 'operator' } };
      expect(entries).to.deep.equal([
        { action: 'user.password.change', ...entry },
        { action: 'user.mfa_disable', ...entry },
      ]);
    });
  });

  describe('upgrade check', () => {
    it('describes what migrations lock, and which ones end the way back', () => {
      expect(noteOf('-- online\ncreate index concurrently if not exists a on devices (id);')).to.deep.equal({
        isOnline: true,
        locks: [],
        contracts: false,
      });
      const sql = `create table made (id uuid); create index made_by_id on made (id);
        alter table devices add column x text; update "sites" set name = name;
        create function f() returns void language sql as $$ drop table users; $$; alter table commands drop column y;`;
      expect(noteOf(sql)).to.deep.equal({
        isOnline: false,
        locks: ['commands', 'devices', 'sites'],
        contracts: true,
      });
      expect([
        nodeVersion('20.18.0').state,
        nodeVersion('20.19.1').state,
        nodeVersion('24.1.0').state,
      ]).to.deep.equal(['failed', 'warning', 'ok']);
    });

    it('is ready if nothing is to be done, and names variables by older names', async () => {
      const { SECRET_ENCRYPTION_KEY = '', ...rest } = env;
      const { ok, states, of } = await report(['upgrade', 'check'], {
        ...rest,
        APP_ENCRYPTION_KEY: SECRET_ENCRYPTION_KEY,
      });
      expect(ok).to.equal(true);
      expect(states).to.include({ migrations: 'ok', 'rolling back': 'ok', configuration: 'warning' });
      expect(of('configuration')?.details).to.deep.equal(['APP_ENCRYPTION_KEY is SECRET_ENCRYPTION_KEY now']);
    });
  });
});
