import { expect } from 'chai';
import { chmod, chown, cp, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { readFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { parseEnv } from 'node:util';
import { builtAgent } from '../../../support/built-agent.ts';
import { eventually } from '../../../support/eventually.ts';
import { skipWithout } from '../../../support/skip-without.ts';
import { type Answer, type CallOptions, call } from '../../../support/test-app.ts';
import { type Compose, readCompose } from '../../deployment/compose-file.ts';
import { stagesOf } from '../../deployment/dockerfile.ts';
import { type Container, needsContainers, startContainer } from '../services/support/container.ts';
import { statusOf } from '../services/support/install-bench.ts';
import { provideBaseImages } from './support/base-images.ts';
import { type ComposeSet, createComposeSet } from './support/compose-set.ts';
import { buildLaterImage, buildMusterImage, imageSize } from './support/muster-image.ts';
import { needsPodman, podman } from './support/podman.ts';

/**
 * The image and the compose file of this checkout, as an operator meets them: built, started by one command, filled, with
 * a machine whose agent stays connected, upgraded, rolled back, backed up, and restored on an empty machine.
 * `MUSTER_IMAGE` names an image that is there already.
 */

const ROOT = path.join(import.meta.dirname, '../../../..');
/** Where the compose file shows the server on this machine. */
const SERVER = 'http://localhost:3000';
const ABOVE_BASE_MAX = 250 * 1024 * 1024;
const LATER = {
  name: '9000_of_a_later_release.sql',
  sql: 'alter table devices add column of_a_later_release text;\n',
};
const RECONNECT_MS = 120_000;

describe('Muster in containers', function () {
  this.timeout(1_800_000);
  const bases = stagesOf(readFileSync(path.join(ROOT, 'Dockerfile'), 'utf8')).map(({ image }) => image);
  const baseOf = (image: string) => `docker.io/library/${image}`;
  const seconds = new Map<string, number>();
  let compose: Compose;
  let set: ComposeSet;
  let machine: Container;
  let image: string;
  let later: string;
  let password: string;
  let connectedSince: string | undefined;

  before(async function () {
    needsPodman(this);
    needsContainers(this);
    const { found, missing } = readCompose();
    skipWithout(this, found !== undefined, `python3-yaml (${missing})`);
    if (found === undefined) return;
    compose = found;
    const others = Object.values(compose.services).map((service) => service.image);
    await provideBaseImages([...new Set([...bases, ...others.filter((name) => name.includes(':'))])]);
    image =
      process.env['MUSTER_IMAGE'] ??
      (await measured('building the image', () => buildMusterImage('muster-test:this')));
    machine = await startContainer('systemd');
    // Installers of Debian write it, and debootstrap does not.
    await machine.ok(`echo '127.0.0.1 localhost' > /etc/hosts`);
    set = await createComposeSet({ name: 'muster-test', compose, env: {} });
  });
  after(async () => {
    await machine?.close();
    await set?.remove();
    // oxlint-disable-next-line no-console -- what a long run has measured
    if (seconds.size > 0) console.info('      seconds', Object.fromEntries(seconds));
  });

  async function measured<T>(what: string, work: () => Promise<T>): Promise<T> {
    const from = performance.now();
    const result = await work();
    seconds.set(what, Math.round((performance.now() - from) / 100) / 10);
    return result;
  }

  const ask = (method: string, route: string, options: CallOptions = {}): Promise<Answer> =>
    call(`${SERVER}/api/v1${route}`, method, options);
  async function signIn(): Promise<string> {
    const body = { email: 'admin@example.com', password };
    const answer = await ask('POST', '/auth/login', { body });
    expect(answer.status, JSON.stringify(answer.body)).to.equal(200);
    return answer.body.tokens.accessToken;
  }
  const devices = async () => (await ask('GET', '/devices', { token: await signIn() })).body.data;

  /** Resolves when the agent of the machine is connected, and not by the connection that it had before. */
  async function agentConnects(): Promise<void> {
    const { since } = await eventually(
      async () => (await statusOf(machine))?.running?.connection ?? { state: 'unknown', since: undefined },
      (connection) => connection.state === 'connected' && connection.since !== connectedSince,
      RECONNECT_MS,
    );
    connectedSince = since;
    const [device] = await eventually(devices, ([first]) => first?.status === 'online', RECONNECT_MS);
    expect(device.hostname).to.be.a('string');
  }
  const lastMigration = async () => {
    const sql = 'select name from knex_migrations order by id desc limit 1';
    const file = '$(cat /run/muster/postgres-password)';
    const words = ['sh', '-c', `PGPASSWORD=${file} psql -h 127.0.0.1 -U postgres -d muster -Atc "${sql}"`];
    return set.ok('postgres', words);
  };

  it('is at most 250 MiB larger than the image that it begins with', async () => {
    const above = (await imageSize(image)) - (await imageSize(baseOf(bases[0] ?? '')));
    seconds.set('MiB above the base (no seconds)', Math.round(above / 1024 / 1024));
    expect(above).to.be.lessThan(ABOVE_BASE_MAX);
  });

  it('starts by one command, with secrets that it makes itself', async () => {
    await measured('from nothing to healthy', () => set.up(image));
    password = await set.ok('server', ['cat', '/run/muster/admin-password']);
    const token = await signIn();
    const { status, body } = await ask('GET', '/devices', { token });
    expect([status, body.data], JSON.stringify(body)).to.deep.equal([200, []]);
    expect((await fetch(`${SERVER}/`)).status).to.equal(200);
    const doctor = await set.exec('server', ['muster', 'doctor']);
    expect(doctor.output).not.to.contain('✖');
    expect(doctor.output).to.contain('✔ redis').and.to.contain('✔ engine').and.to.contain('✔ websocket');
  });

  it('has no rights, writes to its folder of data only, and reads no secret but its own', async () => {
    const status = await set.ok('server', ['cat', '/proc/1/status']);
    expect(status).to.match(/^Uid:\s+1000\s+1000/m);
    expect(status)
      .to.match(/^CapEff:\s+0+$/m)
      .and.to.match(/^CapBnd:\s+0+$/m)
      .and.to.match(/^NoNewPrivs:\s+1$/m);
    expect(await set.ok('server', ['cat', '/proc/sys/net/core/somaxconn'])).to.equal('16384');
    for (const line of ['touch /app/x', 'touch /usr/local/bin/x', 'cat /run/muster/postgres-password']) {
      const refused = await set.exec('server', ['sh', '-c', line]);
      expect(refused.code, line).to.not.equal(0);
      expect(refused.output, line).to.match(/Read-only file system|Permission denied/);
    }
    expect((await set.exec('redis', ['cat', '/run/muster/jwt-secret'])).code).to.not.equal(0);
    const published = await podman(['port', '--all']);
    expect(published.split('\n').map((line) => line.split(' -> ')[1])).to.deep.equal(['127.0.0.1:3000']);
  });

  it('takes its first provider, release and machine', async () => {
    const names = ['--provider', 'Calm IT', '--organization', 'Bright Smile', '--site', 'Main street'];
    const made = JSON.parse(await set.ok('server', ['muster', 'init', ...names, '--key', 'First', '--json']));
    const spoken = await set.ok('server', ['muster', 'init', ...names]);
    expect(spoken).to.contain('Bright Smile, there already').and.to.contain('muster releases add');
    const agent = await builtAgent();
    const folder = await mkdtemp(path.join(tmpdir(), 'muster-agent-for-image-'));
    for (const file of [agent.program, agent.script]) await cp(file, path.join(folder, path.basename(file)));
    await set.copy(folder, 'server:/data/agent');
    await rm(folder, { recursive: true });
    await set.ok('server', ['muster', 'releases', 'add', '/data/agent', '--version', '0.1.0']);
    const line = made.installLine.replace('sudo sh', 'sh');
    await measured('from the install line to connected', async () => {
      expect(await machine.ok(line)).to.contain(`This machine is connected to ${SERVER}.`);
      await agentConnects();
    });
  });

  it('says that it is not healthy while the database is away, and recovers by itself', async () => {
    await set.stop('postgres');
    await eventually(
      () => set.isHealthy('server'),
      (healthy) => !healthy,
    );
    expect((await fetch(`${SERVER}/health/live`)).status).to.equal(200);
    await set.start('postgres');
    await eventually(
      () => set.isHealthy('server'),
      (healthy) => healthy,
    );
    expect(await devices()).to.have.length(1);
  });

  it('is upgraded to another build, and rolled back, with its data and its agents', async () => {
    const before = await lastMigration();
    later = await buildLaterImage('muster-test:later', image, LATER);
    await measured('from one build to the next, until the agent is connected', async () => {
      await set.up(later);
      await agentConnects();
    });
    expect([before, await lastMigration()]).to.satisfy(
      ([first, last]: string[]) => first !== last && last === LATER.name,
    );
    await measured('back to the former build, until the agent is connected', async () => {
      await set.up(image);
      await agentConnects();
    });
    expect(await devices()).to.have.length(1);
    expect((await set.exec('server', ['muster', 'audit', 'verify'])).code).to.equal(0);
  });

  it('is backed up, and restored on an empty machine, where its agents find it', async () => {
    const folder = await mkdtemp(path.join(tmpdir(), 'muster-container-backup-'));
    try {
      await chmod(folder, 0o755);
      await chown(folder, 1000, 1000);
      const passphrase = path.join(folder, 'passphrase');
      await writeFile(passphrase, 'four words and a number 5\n');
      const file = path.join(folder, 'muster.tar');
      const words = [file, '--passphrase-file', passphrase];
      const backup = await set.run('server', ['muster', 'backup', ...words], folder);
      expect(backup.code, backup.output).to.equal(0);
      expect((await set.stop('server')).code).to.equal(0);
      await set.remove();

      // The keys of the installation are given to the first start, as the values of `.env`.
      const environment = path.join(folder, 'environment');
      set = await createComposeSet({ name: 'muster-test', compose, env: {} });
      await set.up(image, ['secrets', 'postgres', 'redis']);
      const written = await set.run(
        'server',
        ['muster', 'restore', ...words, '--environment-to', environment],
        folder,
      );
      expect(written.code, written.output).to.equal(0);
      await set.remove();
      const values = parseEnv(await readFile(environment, 'utf8'));
      const keys = Object.fromEntries(
        ['JWT_SECRET', 'SECRET_ENCRYPTION_KEY'].map((name) => [name, values[name] ?? '']),
      );
      expect(Object.values(keys)).to.not.include('');

      set = await createComposeSet({ name: 'muster-test', compose, env: keys });
      await set.up(image, ['secrets', 'postgres', 'redis']);
      const refused = await set.run('server', ['muster', 'restore', ...words], folder);
      expect(refused.code).to.equal(2);
      expect(refused.output).to.contain(`the migration ${LATER.name}`);
      // The schema is that of the later build, although the former one has written the backup.
      await set.up(later, ['secrets', 'postgres', 'redis']);
      const restored = await set.run('server', ['muster', 'restore', ...words], folder);
      expect(restored, restored.output).to.deep.include({ code: 0 });
      expect(restored.output).to.contain('Restored. Start the server.');
      await set.up(image);
      await agentConnects();
    } finally {
      await rm(folder, { recursive: true });
    }
  });

  it('ends in order when it is told to', async () => {
    await measured('to its end', async () => expect((await set.stop('server')).code).to.equal(0));
    expect(await podman(['inspect', '--format', '{{.State.ExitCode}}', 'muster-test-server'])).to.equal('0');
  });
});
