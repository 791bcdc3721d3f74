import { expect } from 'chai';
import { randomBytes } from 'node:crypto';
import { readdir } from 'node:fs/promises';
import path from 'node:path';
import { eventually } from '../../../support/eventually.ts';
import {
  type FakeRelease,
  type GithubServer,
  digestOf,
  GITHUB_TOKEN,
  startGithubServer,
} from '../../../support/github-server.ts';
import { buildPerson, buildTenant } from '../../../support/factories.ts';
import {
  createReleaseBench,
  download,
  query,
  type ReleaseBench,
  upload,
} from '../../../support/releases/release-support.ts';

const FILES = [
  'muster-agent-linux-x64.cjs',
  'muster-agent-linux-arm64.cjs',
  'muster-watchdog-linux-x64',
  'muster-watchdog-windows-x64.exe',
];
const KEYS = ['agent:linux/arm64', 'agent:linux/x64', 'watchdog:linux/x64', 'watchdog:windows/x64'];

function fakeRelease(tag: string, names = FILES, more: Partial<FakeRelease> = {}): FakeRelease {
  const files = Object.fromEntries(names.map((name) => [name, randomBytes(5000)]));
  const sums = Object.entries(files).map(([name, bytes]) => `${digestOf(bytes)}  ${name}\n`);
  return {
    tag,
    ...more,
    files: { ...files, SHA256SUMS: Buffer.from(sums.join('')), 'notes.txt': Buffer.from('x') },
  };
}

interface Job {
  state: string;
  result: { version: string | null; failed: number };
  error: string | null;
}

describe('releases from GitHub', function () {
  this.timeout(120_000);
  let github: GithubServer;
  let bench: ReleaseBench;
  beforeEach(async () => {
    github = await startGithubServer();
  });
  afterEach(async () => {
    await bench.close();
    await github.close();
  });

  const start = async (env: Record<string, string> = {}) => {
    bench = await createReleaseBench({ env: { ...github.env, ...env }, outbound: github.outbound });
  };
  const sync = (version?: string, token = bench.admin.token) =>
    bench.app.call(
      'POST',
      `/agent-versions/sync-github${version === undefined ? '' : `?version=${version}`}`,
      { token },
    );
  const promoted = async () =>
    (
      await query<{ name: string }>(
        bench.app,
        `select component || ':' || os || '/' || architecture || ' ' || version as name from agent_releases where promoted order by 1`,
      )
    ).map(({ name }) => name);
  const downloadsOf = (name: string) =>
    github.requests.filter((one) => one.host === 'cdn.idp.test' && one.path.includes(name)).length;
  /** What the schedule does every hour. */
  async function hourly(): Promise<{ version: string | null; failed: number }> {
    const sql = `select id from enqueue_job(gen_random_uuid(), 'releases.sync', null, null, '{}', null, 0, 3600, 1)`;
    const [{ id }] = (await query<{ id: string }>(bench.app, sql)) as [{ id: string }];
    const [job] = await eventually(
      () => query<Job>(bench.app, `select state, result, error from background_jobs where id = ?`, [id]),
      ([one]) => one !== undefined && ['succeeded', 'failed'].includes(one.state),
      10_000,
    );
    expect(job!.state, String(job!.error)).to.equal('succeeded');
    return job!.result;
  }

  it('registers the highest stable version of all pages, whatever is newer or marked, and promotes it at once', async () => {
    github.releases = [
      // Newest first: a fix of an old line, candidates with and without the mark, a draft, and what is no version.
      fakeRelease('v1.2.9'),
      fakeRelease('v2.0.0-rc.1'),
      fakeRelease('v1.9.0', FILES, { prerelease: true }),
      fakeRelease('v3.0.0', FILES, { draft: true }),
      fakeRelease('nightly'),
      fakeRelease('v1.10.0', FILES, { body: 'What is new\u0000\uD800' }),
      fakeRelease('v1.9.9'),
    ];
    await start();
    const { status, body } = await sync();
    expect([status, body]).to.deep.equal([200, { version: '1.10.0', synced: KEYS, failed: [] }]);
    expect(await promoted()).to.deep.equal(KEYS.map((key) => `${key} 1.10.0`));

    const list = await bench.app.call('GET', '/agent-versions', { token: bench.admin.token });
    expect(list.body.data).to.have.lengthOf(4);
    const bytes = github.releases[5]!.files['muster-agent-linux-x64.cjs']!;
    const agent = list.body.data.find(
      (one: { component: string; architecture: string }) =>
        one.component === 'agent' && one.architecture === 'x64',
    );
    expect(agent).to.include({ source: 'github', sha256: digestOf(bytes), size: 5000, isPrerelease: false });
    expect(agent.notes).to.match(/^What is new/);
    const { headers, status: redirected } = await download(bench, '1.10.0');
    expect([redirected, headers.get('location')]).to.deep.equal([
      302,
      `${github.releasesUrl.replace('api', 'files').replace('/repos', '')}/download/v1.10.0/muster-agent-linux-x64.cjs`,
    ]);
    expect(downloadsOf('muster-agent-linux-x64.cjs'), 'downloaded once').to.equal(1);

    await bench.app.server.chainWriter.flush();
    const entries = await query<{ action: string; details: object }>(
      bench.app,
      `select action, details from audit_logs where action like 'agent_version.%' order by id`,
    );
    expect(entries.map(({ action }) => action).toSorted()).to.deep.equal([
      ...Array(4).fill('agent_version.publish'),
      'agent_version.sync',
    ]);
    const whole = entries.find(({ action }) => action === 'agent_version.sync');
    expect(whole!.details).to.deep.include({ synced: KEYS, failed: [] });
  });

  it('changes nothing the second time, and leaves what an operator has taken back or deleted', async () => {
    github.releases = [fakeRelease('v1.1.0'), fakeRelease('1.0.0')];
    await start();
    const first = await sync('1.0.0');
    expect(first.body).to.deep.equal({ version: '1.0.0', synced: KEYS, failed: [] });
    expect((await sync()).body.version).to.equal('1.1.0');
    const known = await bench.app.call('GET', '/agent-versions', { token: bench.admin.token });
    github.requests.length = 0;
    expect((await sync()).body).to.deep.equal({ version: '1.1.0', synced: KEYS, failed: [] });
    expect(downloadsOf('muster-'), 'registered files are not downloaded again').to.equal(0);
    expect(github.requests.find(({ host }) => host === 'api.idp.test')).to.include({ status: 304 });
    expect((await bench.app.call('GET', '/agent-versions', { token: bench.admin.token })).body).to.deep.equal(
      known.body,
    );

    const back = await bench.app.call('POST', '/agent-versions/promote', {
      token: bench.admin.token,
      body: { version: '1.0.0' },
    });
    expect(back.status).to.equal(200);
    const { data } = known.body;
    const bad = data.find((one: { version: string }) => one.version === '1.1.0');
    expect(
      (await bench.app.call('DELETE', `/agent-versions/${bad.id}`, { token: bench.admin.token })).status,
    ).to.equal(200);
    expect(await hourly()).to.deep.equal({ version: null, failed: 0 });
    expect(await promoted()).to.deep.equal(KEYS.map((key) => `${key} 1.0.0`));
    expect((await sync()).body.synced, 'asked for by hand').to.deep.equal(KEYS);
    expect(await promoted()).to.deep.equal(KEYS.map((key) => `${key} 1.0.0`));
  });

  it('lists each file that is not what it should be, registers the others, and promotes nothing before all are there', async () => {
    const names = [
      'muster-agent-linux-x64.cjs',
      'muster-agent-linux-arm64.cjs',
      'muster-agent-macos-x64.cjs',
      'muster-agent-macos-arm64.cjs',
      'muster-watchdog-linux-x64',
      'muster-watchdog-linux-arm64',
      'muster-watchdog-macos-x64',
      'muster-watchdog-macos-arm64',
      'muster-watchdog-windows-x64.exe',
      'muster-helper-linux-x64',
      'muster-helper-windows-x64.exe',
      'muster-helper-windows-arm64.exe',
      'muster-backup-linux-x64',
      'muster-backup-linux-x64.exe',
      'muster-backup-linux-arm64',
    ];
    const whole = fakeRelease('v1.0.0', names);
    const sums = whole.files['SHA256SUMS']!.toString();
    // As made on Windows, in binary mode, with one name twice, one missing, one of nothing, and lines that are none.
    const broken = sums
      .replaceAll('  ', ' *')
      .replace(/^.*muster-helper-windows-arm64.*\n/m, '')
      .replace(/^(.*muster-helper-linux-x64\n)/m, '$1$1')
      .concat(`${'0'.repeat(64)}  muster-helper-macos-x64\n\nnonsense\n`)
      .replaceAll('\n', '\r\n');
    const files = { ...whole.files, SHA256SUMS: Buffer.from(broken) };
    const claims = {
      'muster-watchdog-macos-x64': { digest: `sha256:${'1'.repeat(64)}` },
      'muster-watchdog-macos-arm64': { state: 'starter' },
      'muster-helper-windows-x64.exe': { size: 600 << 20 },
      'muster-backup-linux-arm64': { browser_download_url: 'https://evil.idp.test/x' },
    };
    github.releases = [{ ...whole, files, claims }];
    for (const [name, fault] of [
      ['muster-agent-linux-arm64.cjs', 'truncated'],
      ['muster-agent-macos-x64.cjs', 'longer'],
      ['muster-agent-macos-arm64.cjs', 'other'],
      ['muster-watchdog-linux-x64', 'dropped'],
      ['muster-watchdog-linux-arm64', 'elsewhere'],
      ['muster-watchdog-windows-x64.exe', 'gone'],
    ] as const) {
      github.faults.set(name, fault);
    }
    await start();
    const { status, body } = await sync();
    expect([status, body.synced]).to.deep.equal([200, ['agent:linux/x64']]);
    const reasons = Object.fromEntries(
      body.failed.map(({ file, reason }: { file: string; reason: string }) => [file, reason]),
    );
    expect(Object.keys(reasons)).to.have.lengthOf(15);
    for (const [file, reason] of [
      ['muster-agent-linux-arm64.cjs', 'ended after 4999 of 5000 bytes'],
      ['muster-agent-macos-x64.cjs', 'more than the 5000 bytes'],
      ['muster-agent-macos-arm64.cjs', 'has the SHA-256'],
      ['muster-watchdog-linux-x64', 'could not be read'],
      ['muster-watchdog-linux-arm64', 'redirects to another address'],
      ['muster-watchdog-macos-x64', 'GitHub gives the SHA-256 1111'],
      ['muster-watchdog-macos-arm64', 'not complete'],
      ['muster-watchdog-windows-x64.exe', 'answered with 404'],
      ['muster-helper-linux-x64', 'twice'],
      ['muster-helper-windows-x64.exe', 'larger than'],
      ['muster-helper-windows-arm64.exe', 'not listed'],
      ['muster-helper-macos-x64', 'does not have it'],
      ['muster-backup-linux-x64', 'two files for the same platform'],
      ['muster-backup-linux-x64.exe', 'two files for the same platform'],
      ['muster-backup-linux-arm64', 'evil.idp.test'],
    ] as const) {
      expect(reasons[file], file).to.contain(reason);
    }
    expect(github.requests.filter(({ host }) => host === 'evil.idp.test')).to.deep.equal([]);
    expect(await promoted()).to.deep.equal([]);

    const { 'muster-backup-linux-x64.exe': _two, ...repaired } = whole.files;
    const good = sums.replace(/^.*muster-backup-linux-x64.exe\n/m, '');
    github.releases = [{ ...whole, files: { ...repaired, SHA256SUMS: Buffer.from(good) } }];
    github.faults.clear();
    expect(await hourly()).to.deep.equal({ version: '1.0.0', failed: 0 });
    expect(await promoted()).to.have.lengthOf(14);
    expect(downloadsOf('muster-agent-linux-x64.cjs'), 'the good one was not downloaded again').to.equal(1);
  });

  it('refuses other bytes under a version that is registered', async () => {
    github.releases = [fakeRelease('v1.0.0')];
    await start();
    await sync();
    github.releases = [fakeRelease('v1.0.0')];
    const { body } = await sync();
    expect(body.synced).to.deep.equal([]);
    expect(body.failed.map(({ file }: { file: string }) => file)).to.have.members(FILES);
    expect(body.failed[0].reason).to.contain('registered with another file');
    expect(downloadsOf('muster-agent-linux-x64'), 'nothing of it is downloaded').to.equal(1);
  });

  it('registers candidates that are asked for, and promotes none of them', async () => {
    github.releases = [
      fakeRelease('v1.0.0-rc.10'),
      fakeRelease('v1.0.0', FILES, { prerelease: true }),
      fakeRelease('0.9.0'),
    ];
    await start();
    for (const version of ['1.0.0-rc.10', '1.0.0']) {
      expect((await sync(version)).body).to.deep.equal({ version, synced: KEYS, failed: [] });
    }
    expect(await promoted()).to.deep.equal([]);
    const list = await bench.app.call('GET', '/agent-versions', { token: bench.admin.token });
    expect(list.body.data.every(({ isPrerelease }: { isPrerelease: boolean }) => isPrerelease)).to.equal(
      true,
    );
    expect((await sync()).body.version).to.equal('0.9.0');
    expect(await promoted(), 'the highest of what is stable').to.have.lengthOf(4);
  });

  it('leaves promotion to an administrator if AGENT_AUTO_PROMOTE is off, and does not go down by itself', async () => {
    github.releases = [fakeRelease('v1.2.0'), fakeRelease('v1.1.0')];
    await start({ AGENT_AUTO_PROMOTE: 'false' });
    expect((await sync()).body.synced).to.deep.equal(KEYS);
    expect(await promoted()).to.deep.equal([]);
    const promotion = await bench.app.call('POST', '/agent-versions/promote', {
      token: bench.admin.token,
      body: { version: '1.2.0' },
    });
    expect(promotion.body.promoted).to.have.lengthOf(4);
    await sync('1.1.0');
    expect(await promoted()).to.deep.equal(KEYS.map((key) => `${key} 1.2.0`));
  });

  it('keeps the files with BINARY_SOURCE=local, also of a private repository, by the API and its token', async () => {
    github.isPrivate = true;
    github.releases = [fakeRelease('v1.0.0')];
    await start({ BINARY_SOURCE: 'local', GITHUB_TOKEN });
    expect((await sync()).body).to.deep.equal({ version: '1.0.0', synced: KEYS, failed: [] });
    const answer = await download(bench, '1.0.0');
    const bytes = Buffer.from(await answer.arrayBuffer());
    expect(bytes.equals(github.releases[0]!.files['muster-agent-linux-x64.cjs']!)).to.equal(true);
    expect(
      (await readdir(path.join(bench.dataDir, 'releases'))).filter((name) => name.endsWith('.part')),
    ).to.deep.equal([]);
    for (const { host, authorization } of github.requests) {
      expect(authorization === undefined, host).to.equal(host !== 'api.idp.test');
    }
    // What arrives broken leaves nothing behind.
    github.releases = [fakeRelease('v1.0.1')];
    for (const name of FILES) github.faults.set(name, 'other');
    expect((await sync()).body.failed).to.have.lengthOf(4);
    expect(await readdir(path.join(bench.dataDir, 'releases'))).to.have.lengthOf(4);
  });

  it('does not offer devices links that only the token opens', async () => {
    github.isPrivate = true;
    github.releases = [fakeRelease('v1.0.0')];
    await start({ GITHUB_TOKEN });
    const { body } = await sync();
    expect([body.synced, body.failed]).to.deep.equal([
      [],
      [{ file: 'SHA256SUMS', reason: 'The download was answered with 404.' }],
    ]);
  });

  it('keeps to the limits of GitHub: it says how long to wait, and asks nothing before', async () => {
    await start();
    const reset = Math.ceil(Date.now() / 1000) + 1800;
    github.limit = {
      status: 403,
      headers: { 'x-ratelimit-remaining': '0', 'x-ratelimit-reset': String(reset) },
    };
    const first = await sync();
    expect([first.status, first.body.code]).to.deep.equal([429, 'RATE_LIMITED']);
    expect(Number(first.headers.get('retry-after'))).to.be.within(1700, 1810);
    expect((await sync('1.0.0')).status).to.equal(429);
    expect(await hourly()).to.deep.equal({ version: null, failed: 0 });
    expect(github.requests).to.have.lengthOf(1);
  });

  it('survives an API that answers nonsense, and follows no page and no redirect to elsewhere', async () => {
    github.releases = [fakeRelease('v1.0.0'), fakeRelease('v0.9.0'), fakeRelease('v2.0.0')];
    await start({ GITHUB_TOKEN });
    const expectUnavailable = async (what: string) => {
      const { status, body } = await sync();
      expect([status, body.code], `${what}: ${JSON.stringify(body)}`).to.deep.equal([503, 'UNAVAILABLE']);
      expect(JSON.stringify(body)).not.to.contain(GITHUB_TOKEN);
    };
    for (const nonsense of ['{', '{}', 'null', '"x"', `[${'[],'.repeat(2000)}[]]`]) {
      github.page = nonsense;
      await expectUnavailable(nonsense.slice(0, 20));
    }
    github.page = JSON.stringify([7, null, { tag_name: 'v9.9.9' }, { tag_name: 1, draft: false }]);
    github.nextPage = `https://evil.idp.test/${'x'.repeat(100)}`;
    await expectUnavailable('a page elsewhere');
    github.nextPage = undefined;
    github.page = undefined;
    for (const status of [401, 500, 502]) {
      github.limit = { status, headers: {} };
      await expectUnavailable(String(status));
    }
    github.limit = { status: 302, headers: { location: 'https://evil.idp.test/' } };
    await expectUnavailable('a redirect');
    expect(github.requests.some(({ host }) => host === 'evil.idp.test')).to.equal(false);
    github.limit = { status: 429, headers: { 'retry-after': '1' } };
    expect((await sync()).body.retryAfterMs ?? 1000).to.be.at.most(1000);
  });

  it('says what is missing: a release, its list of checksums, its files', async () => {
    await start();
    expect((await sync()).status, 'no stable release').to.equal(404);
    expect((await sync('7.7.7')).status).to.equal(404);
    const { files } = fakeRelease('v1.0.0');
    const { SHA256SUMS: sums, ...unlisted } = files;
    github.releases = [{ tag: 'v1.0.0', files: unlisted }];
    expect((await sync()).body).to.deep.equal({
      version: '1.0.0',
      synced: [],
      failed: [{ file: 'SHA256SUMS', reason: 'The release does not have it.' }],
    });
    github.releases = [{ tag: 'v1.0.0', files: { SHA256SUMS: Buffer.alloc(2 << 20, 'x') } }];
    expect((await sync()).body.failed[0].reason).to.contain('larger than');
    github.releases = [{ tag: 'v1.0.0', files: { SHA256SUMS: Buffer.from('x') } }];
    expect((await sync()).body.failed[0].reason).to.contain('no file of Muster');
    github.releases = [{ tag: 'v1.0.0', files: { ...unlisted, SHA256SUMS: sums! } }];
    github.faults.set('SHA256SUMS', 'compressed');
    expect((await sync()).body.failed[0].file).to.equal('SHA256SUMS');
    github.faults.clear();
    expect((await sync()).body.failed).to.deep.equal([]);
  });

  it('is for system administrators with a second factor, one at a time, and needs a repository', async () => {
    github.releases = [fakeRelease('v1.0.0')];
    await start();
    const tenant = await buildTenant(bench.app);
    const plain = await buildPerson(bench.app, { scope: 'system' });
    expect((await sync(undefined, tenant.admin.token)).status).to.equal(403);
    expect((await sync(undefined, plain.token)).body.code).to.equal('MFA_REQUIRED');
    for (const version of ['latest', 'v1.0.0', '1.0', '../1.0.0', 'x'.repeat(5000)]) {
      expect((await sync(encodeURIComponent(version))).status, version.slice(0, 20)).to.equal(400);
    }
    const statuses = (await Promise.all([sync(), sync(), sync()])).map(({ status }) => status);
    expect(statuses.toSorted((a, b) => a - b)).to.deep.equal([200, 409, 409]);
    await bench.app.close();

    const { app, ...rest } = await createReleaseBench();
    bench = { app, ...rest };
    const { status, body } = await sync();
    expect([status, body.code]).to.deep.equal([409, 'CONFLICT']);
    expect(body.error).to.contain('GITHUB_RELEASES_URL');
  });

  it('takes over what was published here by hand, and turns links into files if they are to be served here', async () => {
    const release = fakeRelease('v1.0.0');
    github.releases = [release];
    await start();
    const own = release.files['muster-agent-linux-x64.cjs']!;
    await upload(bench, { version: '1.0.0', bytes: own });
    expect((await sync()).body).to.deep.equal({ version: '1.0.0', synced: KEYS, failed: [] });
    expect(downloadsOf('muster-agent-linux-x64.cjs')).to.equal(0);
    const { database } = bench.app;
    const dataDir = bench.dataDir;
    await bench.app.server.close();

    const next = await createReleaseBench({
      database,
      env: { ...github.env, BINARY_SOURCE: 'local', DATA_DIR: dataDir },
      outbound: github.outbound,
    });
    try {
      const answer = await next.app.call('POST', '/agent-versions/sync-github', { token: next.admin.token });
      expect(answer.body).to.deep.equal({ version: '1.0.0', synced: KEYS, failed: [] });
      const sources = await query(next.app, 'select distinct source, download_url from agent_releases');
      expect(sources).to.deep.equal([{ source: 'local', download_url: null }]);
      expect((await download(next, '1.0.0')).status).to.equal(200);
    } finally {
      await next.app.server.close();
      await database.drop();
    }
    // `afterEach` closes what is open.
    await start();
  });
});
