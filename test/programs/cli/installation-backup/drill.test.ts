import { expect } from 'chai';
import { randomBytes } from 'node:crypto';
import { mkdir, mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { readConfig } from '../../../../src/config.ts';
import { withSystem } from '../../../../src/platform/db/transaction.ts';
import { newId } from '../../../../src/platform/ids.ts';
import { createEncryptor, sealContext } from '../../../../src/platform/secrets/sealed.ts';
import { type RunningServer, runServer } from '../../../../src/run-server.ts';
import { buildDevice, buildPerson, buildTenant, PASSWORD } from '../../../support/factories.ts';
import { connectDevice } from '../../../support/fake-device.ts';
import { quietLog } from '../../../support/quiet-log.ts';
import { environmentOf, runMuster } from '../../../support/run-muster.ts';
import { call, createTestApp, TEST_ENCRYPTION_KEY, type TestApp } from '../../../support/test-app.ts';
import { asOwner } from '../../../support/test-postgres.ts';

const PASSPHRASE = 'correct horse battery staple';

/** From a running installation to an empty machine. */
describe('the drill: a backup of Muster, restored on an empty machine', function () {
  this.timeout(180_000);
  let app: TestApp;
  let folder: string;
  let dataDir: string;
  let backup: string;
  let restored: RunningServer | undefined;
  const passphrase = () => ['--passphrase-file', path.join(folder, 'passphrase')];
  const secret = randomBytes(20).toString('hex');
  const release = randomBytes(50_000);
  let tenants: Awaited<ReturnType<typeof buildTenant>>[];
  let agents: Awaited<ReturnType<typeof buildDevice>>[];
  let apiKey: string;
  let mfaUser: string;

  before(async () => {
    folder = await mkdtemp(path.join(tmpdir(), 'muster-drill-'));
    dataDir = path.join(folder, 'source');
    await mkdir(dataDir);
    backup = path.join(folder, 'muster.backup');
    await writeFile(path.join(folder, 'passphrase'), `${PASSPHRASE}\n`);
    app = await createTestApp({ env: { DATA_DIR: dataDir } });
    tenants = [await buildTenant(app), await buildTenant(app)];
    agents = await Promise.all(tenants.map(({ orgId }) => buildDevice(app, orgId)));
    for (const { token } of agents) (await connectDevice(app, token)).close();
    const [one] = tenants;
    const key = await app.call('POST', '/api-keys', {
      token: one?.admin.token,
      body: { name: 'Reports', scopes: ['devices:read'], orgId: one?.orgId },
    });
    apiKey = key.body.key;
    expect(apiKey).to.be.a('string');
    mfaUser = (await buildPerson(app, { scope: 'system' })).id;
    const encryptor = createEncryptor({ current: TEST_ENCRYPTION_KEY, old: [] });
    await withSystem(app.server.database.pool, 'test', (tx) =>
      tx('user_mfa').insert({
        user_id: mfaUser,
        secret: encryptor.seal(secret, sealContext('user_mfa', 'secret', mfaUser)),
        recovery_salt: randomBytes(16).toString('base64url'),
      }),
    );
    await writeFile(path.join(folder, 'agent'), release);
    const added = await runMuster(
      `releases add ${path.join(folder, 'agent')} --version 1.4.0 --component agent --os linux --architecture x64`.split(
        ' ',
      ),
      { env: environmentOf(app.database, dataDir) },
    );
    expect(added.code, added.err).to.equal(0);
    await app.server.chainWriter.flush();
  });
  after(async () => {
    await restored?.close();
    await app?.close();
    await rm(folder, { recursive: true, force: true });
  });

  it('is written while the server goes on, is verified, and is never written over', async () => {
    const writing = new AbortController();
    const [one] = tenants;
    // Each of these is one transaction with its audit entry: the backup has both or neither.
    const busy = (async () => {
      for (let i = 0; !writing.signal.aborted; i++) {
        const body = { name: `Renamed ${i}` };
        await app.call('PATCH', `/orgs/sites/${one?.siteId}`, { token: one?.admin.token, body });
      }
    })();
    const env = environmentOf(app.database, dataDir);
    const written = await runMuster(['backup', backup, ...passphrase(), '--json'], { env });
    writing.abort();
    await busy;
    expect(written, written.err).to.include({ code: 0, err: '' });
    const result = JSON.parse(written.out);
    expect(result).to.deep.include({ ok: true, keys: true, releases: { place: 'folder', files: 1 } });
    expect((await stat(backup)).mode & 0o777).to.equal(0o600);
    expect((await readdir(folder)).filter((name) => name.endsWith('.part'))).to.deep.equal([]);
    const text = await readFile(backup, 'latin1');
    for (const hidden of [TEST_ENCRYPTION_KEY, app.jwtSecret, secret]) expect(text).not.to.contain(hidden);

    const verified = await runMuster(['backup', '--verify', backup, '--passphrase-stdin'], {
      stdin: PASSPHRASE,
    });
    expect(verified, verified.err).to.include({ code: 0, err: '' });
    expect(verified.out)
      .to.match(/^OK {2}The backup /)
      .and.to.contain('The passphrase opens its keys');
    const again = await runMuster(['backup', backup, ...passphrase()], { env });
    expect(again.code).to.equal(2);
    expect(again.err).to.contain('exists, and is not overwritten');
    const entries = await asOwner(
      app.database.ownerUrl,
      `select resource_id from audit_outbox where action = 'installation.backup'
      union all select resource_id from audit_logs where action = 'installation.backup'`,
    );
    expect(entries).to.deep.equal([{ resource_id: result.id }]);
  });

  it('comes back on an empty machine with nothing but the file and the passphrase', async () => {
    const empty = path.join(folder, 'restored');
    const ran = await runMuster(['restore', backup, ...passphrase()], { env: { DATA_DIR: empty } });
    expect(ran.code, ran.out + ran.err).to.equal(0);
    expect(ran.out).to.match(/! agents +2 of 2 devices are behind the promoted release/);
    expect(ran.out).to.match(/✔ keys +SECRET_ENCRYPTION_KEY opens the secrets/);
    expect(ran.out)
      .to.match(/✔ isolation /)
      .and.to.match(/✔ migrations /);
    expect(ran.out)
      .to.match(/^OK .* entries/m)
      .and.to.contain('Restored. Start the server.');
    expect((await stat(path.join(empty, 'secret-encryption-key'))).mode & 0o777).to.equal(0o600);

    restored = await runServer({
      config: readConfig({ environment: { DATA_DIR: empty, PORT: '0' } }),
      log: quietLog,
    });
    const { url } = restored;
    const at = (method: string, route: string, options = {}) =>
      call(`${url}/api/v1${route}`, method, options);

    for (const [i, { admin, orgId }] of tenants.entries()) {
      // Who was signed in is not any more: the session may have been ended after the backup.
      expect((await at('GET', '/auth/me', { token: admin.token })).status).to.equal(401);
      const signedIn = await at('POST', '/auth/login', { body: { email: admin.email, password: PASSWORD } });
      expect(signedIn.status).to.equal(200);
      admin.token = signedIn.body.tokens.accessToken;
      // Each tenant sees its own.
      const own = await at('GET', '/orgs/organizations', { token: admin.token });
      expect(own.body.data.map(({ id }: { id: string }) => id)).to.deep.equal([orgId]);
      const device = await connectDevice({ url }, agents[i]?.token ?? '');
      expect(await device.heartbeat()).to.be.an('object');
      device.close();
    }
    const devices = await at('GET', '/devices', { token: apiKey });
    expect(devices.body.data).to.have.length(1);
    const file = await fetch(
      `${url}/api/v1/agent-versions/1.4.0/download?component=agent&os=linux&architecture=x64`,
    );
    expect(Buffer.from(await file.arrayBuffer()).equals(release)).to.equal(true);
    const [factor] = await withSystem(restored.database.pool, 'test', (tx) =>
      tx('user_mfa').where({ user_id: mfaUser }),
    );
    const { text } = restored.secrets.open(factor.secret, sealContext('user_mfa', 'secret', mfaUser));
    expect(text).to.equal(secret);
  });

  it('has the same rows in every table, and the trail goes on from them', async () => {
    const server = restored;
    if (server === undefined) throw new Error('nothing was restored');
    await server.chainWriter.flush();
    const verified = await runMuster(['audit', 'verify', '--json'], {
      env: { DATA_DIR: path.join(folder, 'restored') },
    });
    expect(JSON.parse(verified.out)).to.include({ ok: true });
    const [mark] = await asOwner<{ count: number }>(
      server.embedded?.ownerUrl ?? '',
      `select count(*)::int from audit_logs where action = 'installation.restore'`,
    );
    expect(mark?.count).to.equal(1);
    // One moment: as many renamings are in the trail as have reached the site.
    const [one] = tenants;
    const [site] = await asOwner<{ name: string; renamings: number }>(
      server.embedded?.ownerUrl ?? '',
      `select name, (select count(*)::int from audit_logs l where l.resource_id = s.id and l.action = 'site.update') as renamings
      from sites s where id = $1`,
      [one?.siteId],
    );
    expect(site?.renamings).to.equal(Number(/^Renamed (\d+)$/.exec(site?.name ?? '')?.[1] ?? -1) + 1);
    // Where a sequence did not go on, this would meet a number that is taken.
    const answer = await call(`${server.url}/api/v1/orgs/sites`, 'POST', {
      token: one?.admin.token ?? '',
      body: { orgId: one?.orgId, name: `Site ${newId()}` },
    });
    expect(answer.status, JSON.stringify(answer.body)).to.equal(201);
    await server.chainWriter.flush();
  });

  it('gives the environment of the installation to a file, and never in its output', async () => {
    const file = path.join(folder, 'environment');
    const ran = await runMuster(['restore', backup, ...passphrase(), '--environment-to', file]);
    expect(ran, ran.err).to.include({ code: 0, err: '' });
    expect(ran.out).not.to.contain(TEST_ENCRYPTION_KEY);
    expect((await stat(file)).mode & 0o777).to.equal(0o600);
    const text = await readFile(file, 'utf8');
    expect(text).to.contain(`\nSECRET_ENCRYPTION_KEY=${TEST_ENCRYPTION_KEY}\n`);
    expect(text).to.contain(`\nDATA_DIR=${dataDir}\n`);
  });
});
