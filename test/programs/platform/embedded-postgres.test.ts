import { expect } from 'chai';
import { once } from 'node:events';
import {
  chmodSync,
  cpSync,
  existsSync,
  lstatSync,
  readFileSync,
  readdirSync,
  rmSync,
  statSync,
  unlinkSync,
  writeFileSync,
} from 'node:fs';
import { type AddressInfo, connect, createServer } from 'node:net';
import { networkInterfaces } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { namingDataDir, freePort } from '../../../src/platform/db/embedded/installation.ts';
import { clusterLocation, removeCluster } from '../../../src/platform/db/embedded/index.ts';
import {
  Stage,
  ask,
  failure,
  installedNative,
  isRoot,
  nobody,
  postmasterPid,
  processFacts,
} from './embedded-postgres-stage.ts';

describe('embedded Postgres', function () {
  const stage = new Stage();
  after(() => stage.clear());

  describe('one data folder through its life', () => {
    const dataDir = stage.path('life');
    const clusterDir = join(dataDir, 'postgres');

    it('starts on an empty folder, with a database, and stops without a trace', async () => {
      const started = await stage.start(dataDir);
      expect(started).to.include({ adopted: false, clusterDir, host: '127.0.0.1', database: 'muster' });
      await ask(started.ownerUrl, 'create table kept (name text)');
      await ask(started.ownerUrl, `insert into kept values ('É')`);
      const pid = postmasterPid(clusterDir);
      await Promise.all([started.stop(), started.stop()]);
      expect(existsSync(`/proc/${pid}`)).to.equal(false);
      expect(readdirSync(dataDir).sort()).to.deep.equal(['postgres', 'postgres.password']);
    });

    it('keeps the data, and treats letters and time the same on every system', async () => {
      const started = await stage.start(dataDir);
      const [row] = await ask(
        started.ownerUrl,
        `select name ilike 'é' as found, lower(name) as lower, current_setting('TimeZone') as zone from kept`,
      );
      expect(row).to.deep.equal({ found: true, lower: 'é', zone: 'UTC' });
    });

    it('lets in by SCRAM and a password that only we can read, on 127.0.0.1 and nowhere else', async () => {
      const started = await stage.start(stage.dir('private'));
      const rules = await ask<{ auth_method: string }>(
        started.ownerUrl,
        'select auth_method from pg_hba_file_rules',
      );
      expect(new Set(rules.map((rule) => rule.auth_method))).to.deep.equal(new Set(['scram-sha-256']));
      const file = statSync(join(stage.base, 'private', 'postgres.password'));
      expect(file.mode & 0o777).to.equal(0o600);
      expect(file.uid).to.equal(process.getuid?.());
      expect(started.password).to.have.length.greaterThan(30);
      const [shown] = await ask(
        started.ownerUrl,
        `select current_setting('unix_socket_directories') as sockets`,
      );
      expect(shown).to.deep.equal({ sockets: '' });
      const others = Object.values(networkInterfaces()).flatMap((list) => list ?? []);
      for (const { address } of others.filter((entry) => entry.family === 'IPv4' && !entry.internal)) {
        const socket = connect(started.port, address);
        const [refused] = (await once(socket, 'error')) as [NodeJS.ErrnoException];
        expect(refused.code).to.equal('ECONNREFUSED');
      }
      await started.stop();
    });

    it('refuses a second server in this process or another, and does not touch the first', async () => {
      const pid = postmasterPid(clusterDir);
      const error = await failure(stage.start(dataDir));
      expect(error.code).to.equal('in_use');
      expect(error.message).to.include(dataDir).and.not.include('\n');
      const other = await stage.child(dataDir);
      expect(await other.answer).to.include({ code: 'in_use' });
      expect((await failure(removeCluster({ dataDir, log: stage.log }))).code).to.equal('in_use');
      expect(postmasterPid(clusterDir)).to.equal(pid);
    });

    it('logs the loss of its lock and takes it again', async () => {
      const started = await failure(stage.start(dataDir)).then(() =>
        readFileSync(join(dataDir, 'postgres.password')),
      );
      const port = readFileSync(join(clusterDir, 'postmaster.pid'), 'utf8').split('\n')[3];
      const url = `postgres://muster:${started.toString().trim()}@127.0.0.1:${port}/muster`;
      const owners = `from pg_stat_activity where application_name = 'muster owner'`;
      await ask(url, `select pg_terminate_backend(pid) ${owners}`);
      while (!stage.events.some((event) => event.msg === 'postgres owner lock regained')) await delay(50);
      const lost = stage.events.find((event) => event.msg === 'postgres owner lock lost');
      expect(lost?.level).to.equal(50);
      expect((await failure(stage.start(dataDir))).code).to.equal('in_use');
    });

    it('runs in a session of its own, so that Ctrl+C in a terminal does not reach it', () => {
      const pid = postmasterPid(clusterDir);
      expect(processFacts(pid).session).to.equal(pid);
    });
  });

  describe('ports', () => {
    const dataDir = stage.path('ports');

    it('tries another port if the first was taken in between, and says why if all are', async () => {
      const blocker = createServer().listen(0, '127.0.0.1');
      await once(blocker, 'listening');
      const taken = (blocker.address() as AddressInfo).port;
      const ports = [taken, taken];
      const started = await stage.start(dataDir, { pickPort: async () => ports.pop() ?? freePort() });
      expect(started.port).to.not.equal(taken);
      await started.stop();
      const error = await failure(stage.start(dataDir, { pickPort: async () => taken }));
      expect(error.code).to.equal('start_failed');
      expect(error.message)
        .to.include('Address already in use')
        .and.include(dataDir)
        .and.not.include('undefined');
      blocker.close();
    });
  });

  describe('data folders that can not be used', () => {
    it('names the folder if a file is in its place', async () => {
      const file = join(stage.base, 'file');
      writeFileSync(file, '');
      for (const path of [file, join(file, 'below')]) {
        const error = await failure(stage.start(path));
        expect(error.code).to.equal('data_dir_unwritable');
        expect(error.message).to.include(path).and.include('DATA_DIR').and.not.include('\n');
      }
    });

    it('names the folder if the file system is read-only', async () => {
      const fault = Object.assign(new Error('EROFS: read-only file system'), { code: 'EROFS' });
      const error = await failure(namingDataDir('/mnt/data', () => Promise.reject(fault)));
      expect(error.code).to.equal('data_dir_unwritable');
      expect(error.message).to.include('/mnt/data');
    });

    it('refuses a cluster of another major version and names both', async () => {
      const dataDir = stage.dir('major');
      await (await stage.start(dataDir)).stop();
      writeFileSync(join(dataDir, 'postgres', 'PG_VERSION'), '17\n');
      const error = await failure(stage.start(dataDir));
      expect(error.code).to.equal('major_mismatch');
      expect(error.message).to.include('Postgres 17').and.include('Postgres 18').and.include(dataDir);
    });

    it('says clearly that there is no build for musl, arm Windows and others', async () => {
      for (const changes of [{ musl: true }, { os: 'windows', arch: 'arm64' }, { os: 'freebsd' }]) {
        const error = await failure(stage.start(stage.dir('none'), changes));
        expect(error.code).to.equal('unsupported_platform');
        expect(error.message).to.include('DATABASE_URL');
      }
    });

    it('pins the binaries exactly', () => {
      const manifest = JSON.parse(
        readFileSync(new URL('../../../package.json', import.meta.url), 'utf8'),
      ) as {
        optionalDependencies: Record<string, string>;
      };
      const pinned = Object.entries(manifest.optionalDependencies).filter(([name]) =>
        name.startsWith('@embedded-'),
      );
      expect(new Set(pinned.map(([, version]) => version)).size).to.equal(1);
      for (const [, version] of pinned) expect(version).to.match(/^\d/);
    });
  });

  describe('binaries', () => {
    const install = stage.path('install');
    const nativeDir = join(install, 'native');
    const link = join(nativeDir, 'lib', 'libicui18n.so.60');
    before(() => {
      stage.dir('install');
      cpSync(installedNative(), nativeDir, { recursive: true, verbatimSymlinks: true });
      cpSync(join(installedNative(), '..', 'package.json'), join(install, 'package.json'));
      const list = readFileSync(join(nativeDir, 'pg-symlinks.json'), 'utf8');
      const links = JSON.parse(list) as { target: string }[];
      for (const { target } of links) rmSync(join(install, target), { force: true });
    });

    it('makes the links that npm leaves out', async () => {
      expect(existsSync(link)).to.equal(false);
      const started = await stage.start(stage.dir('linked'), { nativeDir });
      expect(lstatSync(link).isSymbolicLink()).to.equal(true);
      await started.stop();
    });

    if (isRoot) {
      it('as root, are copied once to if the other user reaches them, also by starts at the same time', async () => {
        chmodSync(install, 0o700);
        unlinkSync(link);
        const started = await Promise.all(
          ['first', 'second'].map((name) => stage.start(stage.dir(name), { nativeDir })),
        );
        const copies = readdirSync(join(stage.base, 'var-cache'));
        expect(copies).to.have.length(1);
        expect(copies[0]).to.match(/^postgres-18\.4\.0-beta\.17-/);
        for (const { clusterDir } of started) {
          const command = readFileSync(`/proc/${postmasterPid(clusterDir)}/cmdline`, 'utf8');
          expect(command).to.include(join(stage.base, 'var-cache'));
        }
        await Promise.all(started.map((server) => server.stop()));
      });
    }
  });

  it('as an ordinary user, runs as that user and names a folder that is not its own', async () => {
    const uid = isRoot ? nobody : undefined;
    const dataDir = stage.dir('ordinary', 0o777);
    const child = await stage.child(dataDir, uid);
    const answer = await child.answer;
    expect(answer).to.include({ adopted: false, clusterDir: join(dataDir, 'postgres') });
    expect(processFacts(postmasterPid(answer.clusterDir)).uid).to.equal(uid ?? process.getuid?.());
    child.process.stdin?.write('stop\n');
    await once(child.process, 'exit');
    expect(existsSync(join(answer.clusterDir, 'postmaster.pid'))).to.equal(false);
    const refused = await (await stage.child(stage.dir('closed', isRoot ? 0o700 : 0o500), uid)).answer;
    expect(refused.code).to.equal('data_dir_unwritable');
    expect(refused.message).to.include(join(stage.base, 'closed'));
  });

  if (isRoot) {
    it('as root, gives Postgres the cluster folder and nothing else', async () => {
      const dataDir = stage.dir('root');
      const started = await stage.start(dataDir);
      expect(processFacts(postmasterPid(started.clusterDir)).uid).to.be.greaterThan(0);
      expect(statSync(started.clusterDir).uid).to.be.greaterThan(0);
      expect(statSync(dataDir).uid).to.equal(0);
      expect(statSync(join(dataDir, 'postgres.password')).uid).to.equal(0);
      await started.stop();
    });

    it('as root with a data folder in a closed home, keeps the cluster elsewhere and says if', async () => {
      const home = stage.dir('home', 0o700);
      const dataDir = stage.dir('home/data');
      const homes = { clustersHome: join(stage.base, 'var-lib') };
      const started = await stage.start(dataDir);
      expect(started.clusterDir).to.match(/var-lib\/[0-9a-f]{12}\/postgres$/);
      expect(readFileSync(join(dataDir, 'postgres.location'), 'utf8').trim()).to.equal(started.clusterDir);
      expect(readFileSync(join(started.clusterDir, '..', 'origin'), 'utf8').trim()).to.equal(dataDir);
      expect(statSync(home).mode & 0o777).to.equal(0o700);
      expect(await clusterLocation(dataDir, homes)).to.equal(started.clusterDir);
      await started.stop();
      await removeCluster({ dataDir, log: stage.log }, homes);
      expect(readdirSync(join(stage.base, 'var-lib'))).to.deep.equal([]);
      expect(readdirSync(dataDir)).to.deep.equal([]);
    });
  }
});
