import { expect } from 'chai';
import { randomBytes } from 'node:crypto';
import { mkdtemp, readdir, readFile, rm, stat, utimes, writeFile } from 'node:fs/promises';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { type Disk, ReleaseFiles } from '../../../../src/features/releases/release-files.ts';
import { AppError } from '../../../../src/platform/errors.ts';
import { eventually } from '../../../support/eventually.ts';
import { buildPerson, buildTenant, giveSecondFactor } from '../../../support/factories.ts';
import {
  createReleaseBench,
  query,
  type ReleaseBench,
  sha256,
  upload,
} from '../../../support/releases/release-support.ts';

const NAME = { component: 'agent', version: '1.0.0', os: 'linux', architecture: 'x64' } as const;

describe('publishing a release', function () {
  this.timeout(120_000);
  let bench: ReleaseBench;
  before(async () => {
    bench = await createReleaseBench();
  });
  after(() => bench.close());

  const folder = () => path.join(bench.dataDir, 'releases');
  const files = () => readdir(folder()).catch(() => []);
  const releases = async (version: string) =>
    (
      await query<{ n: number }>(
        bench.app,
        'select count(*)::int as n from agent_releases where version = ?',
        [version],
      )
    )[0]?.n;

  it('stores the file under its hash, signs it, and is audited', async () => {
    const bytes = randomBytes(200_000);
    const { status, body } = await upload(bench, { version: '1.0.0', bytes, query: '?notes=First%20one' });
    expect(status, JSON.stringify(body)).to.equal(201);
    expect(body).to.deep.include({
      version: '1.0.0',
      component: 'agent',
      os: 'linux',
      architecture: 'x64',
      source: 'local',
      size: 200_000,
      sha256: sha256(bytes),
      notes: 'First one',
      isPrerelease: false,
      promoted: true,
    });
    expect(Object.keys(body)).not.to.include.members(['keyId', 'downloadUrl', 'registration']);
    expect(await readFile(path.join(folder(), body.sha256))).to.deep.equal(bytes);
    const [key] = await query<{ id: string }>(bench.app, 'select id from release_signing_keys');
    expect(body.signedBy).to.equal(key?.id);

    await bench.app.server.chainWriter.flush();
    const entries = await query(
      bench.app,
      `select actor_email, resource_id, resource_name, details from audit_logs where action = 'agent_version.publish'`,
    );
    expect(entries).to.deep.equal([
      {
        actor_email: bench.admin.email,
        resource_id: body.id,
        resource_name: '1.0.0',
        details: {
          component: 'agent',
          os: 'linux',
          architecture: 'x64',
          sha256: body.sha256,
          promoted: [{ component: 'agent', os: 'linux', architecture: 'x64', version: '1.0.0' }],
          demoted: [],
        },
      },
    ]);
  });

  it('changes nothing with the same file again, and repairs it if it is missing', async () => {
    const bytes = randomBytes(5000);
    const first = await upload(bench, { version: '1.0.1', bytes });
    await rm(path.join(folder(), sha256(bytes)));
    const again = await upload(bench, { version: '1.0.1', bytes, query: '?notes=changed' });
    expect(again.status).to.equal(201);
    expect(again.body).to.deep.equal(first.body);
    expect((await stat(path.join(folder(), sha256(bytes)))).size).to.equal(5000);
    await bench.app.server.chainWriter.flush();
    const entries = await query(bench.app, `select 1 from audit_logs where resource_name = '1.0.1'`);
    expect(entries).to.have.lengthOf(1);
  });

  it('refuses other bytes under the same version, before and after the upload', async () => {
    await upload(bench, { version: '1.0.2' });
    const other = await upload(bench, { version: '1.0.2' });
    expect([other.status, other.body.code]).to.deep.equal([409, 'CONFLICT']);
    expect(other.body.error).to.include('Version 1.0.2 of agent for linux x64');

    const attempts = await Promise.all(
      Array.from({ length: 4 }, () => upload(bench, { version: '1.0.3', bytes: randomBytes(100_000) })),
    );
    expect(attempts.map(({ status }) => status)).to.have.members([201, 409, 409, 409]);
    expect(await releases('1.0.3')).to.equal(1);
    const winner = attempts.find(({ status }) => status === 201)?.body;
    expect(await files()).to.include(winner.sha256);
    expect((await files()).filter((name) => name.endsWith('.part'))).to.deep.equal([]);
  });

  it('refuses a file that is not what its hash says, is empty, or has no hash, and keeps nothing of it', async () => {
    const before = await files();
    const bytes = randomBytes(100_000);
    const wrong = await upload(bench, {
      version: '2.0.0',
      bytes,
      headers: { 'x-content-sha256': 'a'.repeat(64) },
    });
    expect([wrong.status, wrong.body.code]).to.deep.equal([400, 'VALIDATION_FAILED']);
    expect(wrong.body.error).to.include(sha256(bytes));
    const empty = await upload(bench, { version: '2.0.0', bytes: Buffer.alloc(0) });
    expect([empty.status, empty.body.error]).to.deep.equal([400, 'The file is empty.']);
    for (const hash of [
      '',
      'abc',
      '../../etc/passwd',
      `${'a'.repeat(64)}, ${'b'.repeat(64)}`,
      'g'.repeat(64),
    ]) {
      const { status, body } = await upload(bench, {
        version: '2.0.0',
        headers: { 'x-content-sha256': hash },
      });
      expect([status, body.details[0].path], hash).to.deep.equal([400, 'headers.X-Content-SHA256']);
    }
    expect(await files()).to.deep.equal(before);
    expect(await releases('2.0.0')).to.equal(0);
  });

  it('finds no place for versions, components and platforms that are none', async () => {
    const before = await files();
    const tricks = [
      '..%2F..%2Fetc',
      '1.0.0%2F..',
      '1.0.0%00',
      'v1.0.0',
      '1.0',
      '1.0.0-beta.1',
      '99999999999.0.0',
      '%2e%2e',
    ];
    for (const version of tricks) {
      expect((await upload(bench, { version })).status, version).to.equal(404);
    }
    for (const platform of [
      '..%2F/linux/x64',
      'agent/..%2f..%2f/x64',
      'agent/linux/amd64',
      'AGENT/linux/x64',
      'agent/linux/x64%00',
    ]) {
      expect((await upload(bench, { version: '3.0.0', platform })).status, platform).to.equal(404);
    }
    expect(await files()).to.deep.equal(before);
  });

  it('is for system administrators with a second factor, and reads nothing of what others send', async () => {
    const { admin } = await buildTenant(bench.app);
    await giveSecondFactor(bench.app, admin);
    const system = await buildPerson(bench.app, { scope: 'system' });
    const before = await files();
    for (const [token, code] of [
      [admin.token, 'FORBIDDEN'],
      [system.token, 'MFA_REQUIRED'],
    ] as const) {
      const { status, body } = await upload(bench, { version: '3.0.0', token, bytes: randomBytes(5 << 20) });
      expect([status, body.code]).to.deep.equal([403, code]);
    }
    expect(await files()).to.deep.equal(before);
  });

  /** Sends the head of an upload and so many bytes, and answers the first line of what comes back. */
  function send(
    head: Record<string, string>,
    body: Buffer,
    { until }: { until?: Promise<unknown> } = {},
  ): Promise<string> {
    const { port } = new URL(bench.app.url);
    return new Promise((resolve, reject) => {
      const socket = connect(Number(port), '127.0.0.1', () => {
        const headers = { host: 'x', authorization: `Bearer ${bench.admin.token}`, ...head };
        const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}`);
        socket.write(
          `PUT /api/v1/agent-versions/4.0.0/files/agent/linux/x64 HTTP/1.1\r\n${lines.join('\r\n')}\r\n\r\n`,
        );
        socket.write(body);
        until?.then(() => socket.destroy(), reject);
      });
      let answer = '';
      socket.on('data', (piece) => {
        answer += piece.toString();
        socket.destroy();
      });
      socket.on('close', () => resolve(answer.split('\r\n')[0] ?? ''));
      socket.on('error', reject);
    });
  }

  it('refuses a file by the size that is announced, without waiting for it', async () => {
    const hash = { 'x-content-sha256': 'a'.repeat(64) };
    const announced = { ...hash, 'content-length': String(5 * 2 ** 30) };
    expect(await send(announced, randomBytes(100))).to.equal('HTTP/1.1 413 Payload Too Large');
    for (const length of ['-1', '1e9', '0x10', '5, 6']) {
      const line = await send({ ...hash, 'content-length': length }, randomBytes(10));
      expect(line, length).to.equal('HTTP/1.1 400 Bad Request');
    }
    expect(await releases('4.0.0')).to.equal(0);
  });

  it('keeps nothing of an upload that breaks off', async () => {
    const before = await files();
    const bytes = randomBytes(300_000);
    const head = { 'x-content-sha256': sha256(bytes), 'content-length': '600000' };
    const until = eventually(files, (names) => names.some((name) => name.endsWith('.part')));
    expect(await send(head, bytes, { until }), 'no answer').to.equal('');
    await eventually(files, (names) => names.length === before.length);
    expect(await files()).to.deep.equal(before);
    expect(await releases('4.0.0')).to.equal(0);
    expect(bench.app.log.filter(({ level }) => level === 'error')).to.deep.equal([]);
  });
});

describe('the files of releases', () => {
  let dataDir: string;
  beforeEach(async () => {
    dataDir = await mkdtemp(path.join(tmpdir(), 'muster-files-'));
  });
  afterEach(() => rm(dataDir, { recursive: true }));

  const pieces = async function* (count: number) {
    for (let i = 0; i < count; i++) yield randomBytes(1000);
  };
  const failing = (code: string, at: 'create' | 'write' | 'sync'): Disk => {
    const fails = (step: typeof at) =>
      step === at ? Promise.reject(Object.assign(new Error(code), { code })) : Promise.resolve();
    return {
      freeBytes: () => Promise.resolve(2 ** 40),
      async create(file) {
        await fails('create');
        await writeFile(file, 'half');
        return {
          appendFile: () => fails('write'),
          sync: () => fails('sync'),
          close: () => Promise.resolve(),
        };
      },
    };
  };
  const failure = (work: Promise<unknown>) =>
    work.then(
      () => undefined,
      (error: unknown) => error,
    );

  for (const code of ['ENOSPC', 'EDQUOT']) {
    for (const at of ['create', 'write', 'sync'] as const) {
      it(`are refused with 507, and leave nothing, when ${at} answers ${code}`, async () => {
        const error = await failure(
          new ReleaseFiles(dataDir, { disk: failing(code, at) }).receive(pieces(3), {
            name: NAME,
            sha256: undefined,
            length: undefined,
          }),
        );
        expect(error).to.be.instanceOf(AppError).with.property('status', 507);
        expect(await readdir(path.join(dataDir, 'releases'))).to.deep.equal([]);
      });
    }
  }

  it('are refused before anything is written if they would take the last room of the disk', async () => {
    const disk = { ...failing('never', 'create'), freeBytes: () => Promise.resolve(300 << 20) };
    const files = new ReleaseFiles(dataDir, { disk });
    const large = await failure(
      files.receive(pieces(1), { name: NAME, sha256: undefined, length: 100 << 20 }),
    );
    expect(large).to.be.instanceOf(AppError).with.property('code', 'storage_full');
    const unknown = await failure(
      files.receive(pieces(1), { name: NAME, sha256: undefined, length: undefined }),
    );
    expect(unknown).to.be.instanceOf(AppError).with.property('code', 'storage_full');
  });

  it('are refused as soon as they are larger than any release, whatever was announced', async () => {
    let sent = 0;
    const endless = async function* () {
      for (;;) {
        sent += 64 << 20;
        yield Buffer.alloc(64 << 20);
      }
    };
    const disk = { ...failing('never', 'create') };
    disk.create = () =>
      Promise.resolve({
        appendFile: () => Promise.resolve(),
        sync: () => Promise.resolve(),
        close: () => Promise.resolve(),
      });
    const error = await failure(
      new ReleaseFiles(dataDir, { disk }).receive(endless(), { name: NAME, sha256: undefined, length: 1 }),
    );
    expect(error).to.be.instanceOf(AppError).with.property('status', 413);
    expect(sent).to.equal(576 << 20);
  });

  it('lose parts that a killed server left, and no others', async () => {
    const files = new ReleaseFiles(dataDir);
    const kept = await files.receive(pieces(2), { name: NAME, sha256: undefined, length: undefined });
    await files.keep(kept);
    const [old, young] = ['old.part', 'young.part'].map((name) => path.join(dataDir, 'releases', name));
    for (const part of [old!, young!]) await writeFile(part, 'half');
    const longAgo = new Date(Date.now() - 2 * 3_600_000);
    await utimes(old!, longAgo, longAgo);
    await utimes(path.join(dataDir, 'releases', kept.sha256), longAgo, longAgo);
    await files.removeAbandoned();
    expect((await readdir(path.join(dataDir, 'releases'))).sort()).to.deep.equal(
      [kept.sha256, 'young.part'].sort(),
    );
  });
});
