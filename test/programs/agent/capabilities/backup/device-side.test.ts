import { createHash, randomBytes, randomUUID } from 'node:crypto';
import { chmod, mkdir, readdir, readFile, readlink, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { expect } from 'chai';
import { LocalEngine } from '../../../../../src/agent/repository/local-engine.ts';
import { openNetwork } from '../../../../../src/agent/os/network/network.ts';
import { writeFiles } from '../../../engine/engine-support.ts';
import { eventually } from '../../../../support/eventually.ts';
import { startForwardProxy } from '../../../../support/forward-proxy.ts';
import { startHttpsServer, TEST_AUTHORITY } from '../../../../support/https-server.ts';
import { type BackupBench, openBackupBench } from './backup-bench.ts';

/** restic as a process of the agent: what it shows, how it ends, and what it leaves. */
describe('backup commands on a device', function () {
  this.timeout(120_000);
  let bench: BackupBench;

  before(async function () {
    bench = await openBackupBench(this);
  });
  beforeEach(async () => {
    await rm(bench.at('source'), { recursive: true, force: true });
    await writeFiles(bench.at('source'), { 'a.txt': 'a', 'large.bin': randomBytes(3_000_000) });
  });
  after(async () => bench?.close());

  /** The processes of restic that use the cache of this agent. */
  async function engines(): Promise<{ pid: number; cmdline: string; environ: string; links: string[] }[]> {
    const pids = (await readdir('/proc')).filter((name) => /^\d+$/.test(name));
    const all = await Promise.all(
      pids.map(async (pid) => {
        const read = (name: string) => readFile(`/proc/${pid}/${name}`, 'latin1').catch(() => '');
        const names = await readdir(`/proc/${pid}/fd`).catch(() => []);
        const links = await Promise.all(names.map((fd) => readlink(`/proc/${pid}/fd/${fd}`).catch(() => '')));
        return { pid: Number(pid), cmdline: await read('cmdline'), environ: await read('environ'), links };
      }),
    );
    return all.filter(({ environ }) => environ.includes(path.join(bench.dataDir, 'backup/engine')));
  }
  const slowBackup = async () => {
    const id = await bench.send('backup.run', { uploadKiBps: 100 });
    await eventually(
      async () => bench.stock('list', 'locks').trim(),
      (locks) => locks !== '',
    );
    return id;
  };
  const isGone = () =>
    eventually(
      async () => (await engines()).length,
      (count) => count === 0,
    );

  it('hold no secret in command lines, environments, the journal and warnings', async () => {
    const password = 'correct-horse-battery-staple';
    const id = await slowBackup();
    const [running] = await engines();
    expect(running!.cmdline).to.contain('backup');
    expect(running!.cmdline + running!.environ).not.to.contain(password);
    // What holds a secret has no name.
    expect(
      running!.links.filter((link) => link.includes('secret') && !link.endsWith('(deleted)')),
    ).to.deep.equal([]);
    await bench.cancel(id);
    const files = await readdir(bench.dataDir, { recursive: true, withFileTypes: true });
    const contents = files
      .filter((file) => file.isFile())
      .map((file) => readFile(path.join(file.parentPath, file.name), 'latin1'));
    expect((await Promise.all(contents)).join('') + bench.warnings.join('')).not.to.contain(password);
  });

  it('end restic and its lock when they are cancelled', async () => {
    const id = await slowBackup();
    const { status } = await bench.cancel(id);
    expect(status).to.equal('cancelled');
    expect(await engines()).to.deep.equal([]);
    expect(bench.stock('list', 'locks')).to.equal('');
    expect(await readdir(path.join(bench.dataDir, 'backup/processes'))).to.deep.equal([]);
    expect((await bench.run('backup.run', {})).status).to.equal('completed');
  });

  it('end restic when the time has expired', async () => {
    const { code } = await bench.failure('backup.run', { uploadKiBps: 100, timeoutSeconds: 4 });
    expect(code).to.equal('TIMED_OUT');
    expect(await engines()).to.deep.equal([]);
  });

  it('end restic when the agent stops, and report that they were interrupted', async () => {
    const id = await slowBackup();
    await bench.restart();
    expect((await bench.ended(id)).error).to.deep.include({ code: 'INTERRUPTED' });
    await isGone();
    expect(bench.stock('list', 'locks')).to.equal('');
  });

  it('end a restic that an earlier agent has left, and only that', async () => {
    const id = await slowBackup();
    const folder = path.join(bench.dataDir, 'backup');
    const [left] = await engines();
    const warnings: string[] = [];
    // As the next agent does when it starts. This process has another start time than the record says.
    await writeFile(
      path.join(folder, 'processes', `${process.pid}.json`),
      JSON.stringify({ pid: process.pid, mark: 'earlier' }),
    );
    await eventually(
      () => readdir(path.join(folder, 'processes')),
      (names) => names.includes(`${left!.pid}.json`),
    );
    await new LocalEngine({ folder, warn: (message) => warnings.push(message) }).clear();
    expect([await engines(), warnings]).to.deep.equal([[], []]);
    expect(await readdir(path.join(folder, 'processes'))).to.deep.equal([]);
    expect((await bench.ended(id)).status).to.equal('failed');
  });

  it('report the sample of a verification by its content, and remove it', async () => {
    const { snapshotId } = await bench.run('backup.run', {});
    const [large, missing] = [bench.at('source/large.bin'), bench.at('source/missing')];
    const { files } = await bench.run('backup.verify', { snapshotId: snapshotId!, paths: [large, missing] });
    const sha256 = createHash('sha256')
      .update(await readFile(large))
      .digest('hex');
    expect(files).to.deep.equal([
      { path: large, sha256, sizeBytes: 3_000_000 },
      { path: missing, sha256: null, sizeBytes: 0 },
    ]);
    expect(await readdir(path.join(bench.dataDir, 'backup/verified'))).to.deep.equal([]);
  });

  describe('that test a destination', () => {
    const checks = async (destination: object, secrets?: Record<string, string>) => {
      const id = await bench.send('backup.test-destination', { destination: destination as never }, secrets);
      const { output } = await bench.ended(id);
      const { checks: all } = output as { checks: { name: string; ok: boolean; code?: string }[] };
      return all.map(({ name, ok, code }) => [name, code ?? ok]);
    };

    it('find a folder that can be written, and one that cannot be', async () => {
      expect(await checks({ type: 'local', path: bench.at('not/yet') })).to.deep.equal([
        ['engine', true],
        ['destination', true],
        ['writable', true],
        ['space', true],
      ]);
      expect(await checks({ type: 'local', path: bench.at('source/a.txt') })).to.deep.equal([
        ['engine', true],
        ['destination', 'DESTINATION_UNREACHABLE'],
      ]);
      expect((await checks({ type: 'local', path: '/sys/kernel' }))[2]).to.deep.equal([
        'writable',
        'DESTINATION_DENIED',
      ]);
    });

    it('find a server that accepts, one that refuses, and one that is not there', async () => {
      const secretRef = randomUUID();
      const server = { type: 'server', path: '/backup-store/x/', user: 'u', secret: { secretRef } };
      const statuses: (string | undefined)[] = [];
      let status = 404;
      bench.hub.answers = (request, response) => {
        if (request.url?.startsWith('/backup-store/x/') !== true) return false;
        statuses.push(request.headers.authorization);
        response.writeHead(status).end();
        return true;
      };
      const withSecret = { [secretRef]: 'a-secret' };
      expect(await checks(server, withSecret)).to.deep.equal([
        ['engine', true],
        ['destination', true],
      ]);
      expect(statuses[0]).to.equal(`Basic ${Buffer.from('u:a-secret').toString('base64')}`);
      status = 401;
      expect(await checks(server, withSecret)).to.deep.equal([
        ['engine', true],
        ['destination', 'DESTINATION_DENIED'],
      ]);
      const s3 = {
        type: 's3',
        endpoint: 'https://127.0.0.1:1',
        bucket: 'bucket',
        accessKey: 'k',
        secret: { secretRef },
      };
      const [, [, code]] = (await checks(s3, withSecret)) as [unknown, [string, string]];
      expect(code).to.be.oneOf(['DESTINATION_UNREACHABLE', 'TIMED_OUT']);
    });
  });

  it('use the network route of the agent: its proxy, without showing the password, and its authority', async () => {
    const proxy = await startForwardProxy({ user: 'u', password: 'pass-of-the-proxy' });
    const far = await startHttpsServer((request, response) => {
      // Slow, so that restic is seen while it waits.
      setTimeout(
        () => response.writeHead(404).end('<Error><Code>NoSuchBucket</Code></Error>'),
        request.url?.includes('backup-store') === true ? 700 : 0,
      );
    });
    try {
      const caFile = bench.at('given.pem');
      await writeFile(caFile, TEST_AUTHORITY);
      const address = `http://u:pass-of-the-proxy@127.0.0.1:${proxy.port}`;
      const network = await openNetwork(bench.dataDir, { proxy: address, caFile }, {});
      const server = `https://muster.idp.test:${far.port}`;
      await bench.restart({ network, server });
      const secretRef = randomUUID();
      const destination = {
        type: 'server' as const,
        path: '/backup-store/x/',
        user: 'u',
        secret: { secretRef },
      };
      const id = await bench.send('backup.test-destination', { destination }, { [secretRef]: 's' });
      const [running] = await eventually(
        engines,
        (found) => found[0]?.environ.includes('HTTPS_PROXY') === true,
      );
      expect(running!.cmdline + running!.environ).not.to.contain('pass-of-the-proxy');
      const { output } = await bench.ended(id);
      expect(output).to.have.nested.property('checks[1].ok', true);
      expect(new Set(proxy.requests)).to.deep.equal(new Set([`CONNECT ${new URL(server).host}`]));

      const check = async () => {
        const s3 = { type: 's3' as const, endpoint: server, bucket: 'no-such-bucket', accessKey: 'k' };
        const test = { destination: { ...s3, secret: { secretRef } } };
        const { output: found } = await bench.ended(
          await bench.send('backup.test-destination', test, { [secretRef]: 's' }),
        );
        return (found as { checks: { code?: string; message?: string }[] }).checks[1];
      };
      expect(await check()).to.include({ code: 'BUCKET_MISSING', message: 'The bucket does not exist.' });
      far.useCertificate('expired');
      const untrusted = await check();
      expect(untrusted).to.include({ code: 'DESTINATION_UNTRUSTED' });
      expect(untrusted?.message).to.match(/^The certificate of the destination has expired, /);
    } finally {
      await bench.restart();
      await proxy.close();
      await far.stop();
    }
  });

  it('report that restic is missing, and find it as soon as it is installed', async () => {
    const { destination } = bench.access;
    await bench.restart({ environment: { PATH: bench.at('bin') } });
    expect((await bench.failure('backup.run', {})).code).to.equal('ENGINE_MISSING');
    expect((await bench.run('backup.test-destination', { destination })).checks).to.have.length(1);
    await mkdir(bench.at('bin'));
    await writeFile(
      bench.at('bin/restic'),
      '#!/bin/sh\nexec /usr/bin/env -S PATH=/usr/bin:/bin restic "$@"\n',
    );
    await chmod(bench.at('bin/restic'), 0o755);
    expect((await bench.run('backup.run', {})).status).to.equal('completed');
    await bench.restart();
  });

  it('report a faulty repository by one code, without its address', async () => {
    const { destination } = bench.access;
    const missing = {
      destination: { ...destination, path: bench.at('nowhere') },
      password: bench.access.password,
    };
    expect((await bench.failure('backup.run', { repository: missing })).code).to.equal('REPOSITORY_MISSING');
    const relative = { ...missing, destination: { ...destination, path: 'relative' } };
    const { code, message } = await bench.failure('backup.run', { repository: relative });
    expect([code, message]).to.deep.equal([
      'INVALID_PAYLOAD',
      'repository: path: must be an absolute path in one line',
    ]);
    expect((await bench.failure('backup.run', { paths: [bench.at('missing')] })).code).to.equal(
      'SOURCE_UNREADABLE',
    );
  });
});
