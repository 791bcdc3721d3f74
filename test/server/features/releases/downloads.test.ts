import { expect } from 'chai';
import { randomBytes } from 'node:crypto';
import { readdir, rm, truncate, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { buildTenant } from '../../../support/factories.ts';
import {
  createReleaseBench,
  download,
  LINUX,
  query,
  type ReleaseBench,
  sha256,
  upload,
} from '../../../support/releases/release-support.ts';

describe('downloading a release', function () {
  this.timeout(120_000);
  let bench: ReleaseBench;
  const bytes = randomBytes(150_000);
  const etag = `"${sha256(bytes)}"`;
  before(async () => {
    bench = await createReleaseBench();
    await upload(bench, { version: '1.0.0', bytes });
  });
  after(() => bench.close());

  const get = async (headers: Record<string, string> = {}, method = 'GET') => {
    const answer = await download(bench, '1.0.0', { headers, method });
    return { answer, status: answer.status, body: Buffer.from(await answer.arrayBuffer()) };
  };

  it('answers the whole file to anyone, with its hash as ETag', async () => {
    const { answer, status, body } = await get();
    expect(status).to.equal(200);
    expect(body.equals(bytes)).to.equal(true);
    expect(Object.fromEntries(answer.headers)).to.deep.include({
      etag,
      'accept-ranges': 'bytes',
      'content-length': '150000',
      'content-type': 'application/octet-stream',
      'content-disposition': 'attachment; filename="muster-agent-1.0.0-linux-x64"',
      'cache-control': 'no-cache',
      'x-content-type-options': 'nosniff',
    });
    expect(answer.headers.has('last-modified')).to.equal(false);
    const head = await get({}, 'HEAD');
    expect([head.status, head.body.length, head.answer.headers.get('content-length')]).to.deep.equal([
      200,
      0,
      '150000',
    ]);
  });

  it('resumes by range, and starts again if the file is another one', async () => {
    const rest = await get({ range: 'bytes=100000-', 'if-range': etag });
    expect([rest.status, rest.answer.headers.get('content-range')]).to.deep.equal([
      206,
      'bytes 100000-149999/150000',
    ]);
    expect(rest.body.equals(bytes.subarray(100_000))).to.equal(true);
    expect((await get({ range: 'bytes=-10' })).body.equals(bytes.subarray(-10))).to.equal(true);
    expect((await get({ range: 'bytes=0-0' })).body.equals(bytes.subarray(0, 1))).to.equal(true);
    expect((await get({ range: 'bytes=10-999999' })).body.equals(bytes.subarray(10))).to.equal(true);
    const other = await get({ range: 'bytes=100000-', 'if-range': '"another"' });
    expect([other.status, other.body.length]).to.deep.equal([200, 150_000]);
  });

  it('answers a range that is none with the whole file, and one behind the end with 416', async () => {
    for (const range of [
      'bytes',
      'bytes=',
      'bytes=a-b',
      'lines=1-2',
      'bytes=0-1,5-6',
      'bytes=--1',
      '\u00e9',
      'x'.repeat(5000),
    ]) {
      const { status, body } = await get({ range });
      expect([status, body.length], range).to.deep.equal([200, 150_000]);
    }
    for (const range of ['bytes=150000-', 'bytes=99999999999999999999-', 'bytes=-0', 'bytes=9-5']) {
      const { answer, status, body } = await get({ range });
      expect(status, range).to.equal(416);
      expect(JSON.parse(body.toString()).code).to.equal('RANGE_NOT_SATISFIABLE');
      expect(answer.headers.get('content-range')).to.equal('bytes */150000');
      expect(answer.headers.get('content-type')).to.include('application/json');
      expect(answer.headers.has('etag')).to.equal(false);
    }
  });

  it('is not sent again to those who have it', async () => {
    for (const known of [etag, `W/${etag}`, `"x", ${etag}`, '*']) {
      const { status, body } = await get({ 'if-none-match': known });
      expect([status, body.length], known).to.deep.equal([304, 0]);
    }
    expect((await get({ 'if-none-match': '"x"' })).status).to.equal(200);
    const refused = await get({ 'if-match': '"x"' });
    expect([refused.status, JSON.parse(refused.body.toString()).code]).to.deep.equal([
      412,
      'PRECONDITION_FAILED',
    ]);
  });

  it('answers 404 to what there is not, and 400 to a platform that is none', async () => {
    for (const [version, platform] of [
      ['9.9.9', LINUX],
      ['1.0.0', 'component=agent&os=linux&architecture=arm64'],
      ['latest', LINUX],
      ['..%2F..%2F..%2Fetc%2Fpasswd', LINUX],
      ['1.0.0%00', LINUX],
    ] as const) {
      expect((await download(bench, version, {}, platform)).status, version).to.equal(404);
    }
    for (const platform of [
      '',
      'component=agent',
      `${LINUX}&os=windows`,
      'component=../x&os=linux&architecture=x64',
    ]) {
      expect((await download(bench, '1.0.0', {}, platform)).status, platform).to.equal(400);
    }
  });

  it('redirects to GitHub where the file is', async () => {
    await query(
      bench.app,
      `insert into agent_releases (id, version, component, os, architecture, source, size, sha256, signature, key_id, is_prerelease, download_url)
      select gen_random_uuid(), '1.0.9', component, os, architecture, 'github', size, sha256, signature, key_id, false,
        'https://github.com/x/y/releases/download/v1.0.9/agent' from agent_releases where version = '1.0.0'`,
    );
    const answer = await download(bench, '1.0.9');
    expect([answer.status, answer.headers.get('location')]).to.deep.equal([
      302,
      'https://github.com/x/y/releases/download/v1.0.9/agent',
    ]);
  });

  it('answers 503, and no path, while the file is missing, cut off or a folder', async () => {
    const own = randomBytes(5000);
    await upload(bench, { version: '1.1.0', bytes: own });
    const file = path.join(bench.dataDir, 'releases', sha256(own));
    const states: [string, () => Promise<unknown>][] = [
      ['cut off', () => truncate(file, 100)],
      ['missing', () => rm(file)],
    ];
    for (const [state, make] of states) {
      await make();
      const answer = await download(bench, '1.1.0');
      const text = await answer.text();
      expect([answer.status, JSON.parse(text).code], state).to.deep.equal([503, 'UNAVAILABLE']);
      expect(text + JSON.stringify([...answer.headers])).not.to.include(bench.dataDir);
      expect(answer.headers.get('content-type')).to.include('json');
    }
    await writeFile(file, own);
    expect((await download(bench, '1.1.0')).status).to.equal(200);
  });

  it('is limited by address', async () => {
    const statuses: number[] = [];
    for (let i = 0; i < 320 && statuses.at(-1) !== 429; i++) {
      statuses.push((await download(bench, '9.9.9')).status);
    }
    expect(statuses.at(-1)).to.equal(429);
    expect((await bench.app.call('GET', `/agent-versions/latest?${LINUX}`)).status, 'counted apart').to.equal(
      200,
    );
  });
});

describe('deleting a release', () => {
  let bench: ReleaseBench;
  before(async () => {
    bench = await createReleaseBench();
  });
  after(() => bench.close());

  const remove = (id: string) =>
    bench.app.call('DELETE', `/agent-versions/${id}`, { token: bench.admin.token });
  const files = () => readdir(path.join(bench.dataDir, 'releases'));

  it('is refused while it is promoted, and takes the file along with the last release that has it', async () => {
    const bytes = randomBytes(1000);
    const promoted = (await upload(bench, { version: '2.0.0', bytes })).body;
    const first = (await upload(bench, { version: '1.0.0', bytes: randomBytes(10) })).body;
    const same = (await upload(bench, { version: '1.0.1', bytes, platform: 'helper/linux/x64' })).body;
    await upload(bench, { version: '1.0.2', platform: 'helper/linux/x64' });
    const refused = await remove(promoted.id);
    expect([refused.status, refused.body.code]).to.deep.equal([409, 'CONFLICT']);
    expect((await remove(first.id)).body).to.deep.equal({ success: true });
    expect(await files()).not.to.include(first.sha256);
    expect((await remove(same.id)).status).to.equal(200);
    expect(await files(), 'another has it').to.include(same.sha256);
    expect((await remove(same.id)).status).to.equal(404);

    await bench.app.server.chainWriter.flush();
    const entries = await query<{ resource_name: string }>(
      bench.app,
      `select resource_name from audit_logs where action = 'agent_version.delete' and result = 'success' order by id`,
    );
    expect(entries.map((entry) => entry.resource_name)).to.deep.equal(['1.0.0', '1.0.1']);
  });

  it('is refused while a partner or an organization pins its version', async () => {
    const { admin, orgId } = await buildTenant(bench.app);
    await upload(bench, { version: '3.0.0', platform: 'watchdog/linux/x64' });
    const { id } = (await upload(bench, { version: '2.5.0', platform: 'watchdog/linux/x64' })).body;
    const pin = (route: string, pins: object) =>
      bench.app.call('PATCH', route, { token: admin.token, body: { settings: { agentUpdates: { pins } } } });
    for (const route of ['/orgs/partners/me', `/orgs/organizations/${orgId}`]) {
      expect((await pin(route, { watchdog: '2.5.0' })).status).to.equal(200);
      const refused = await remove(id);
      expect([refused.status, refused.body.code], route).to.deep.equal([409, 'CONFLICT']);
      await pin(route, { watchdog: null });
    }
    expect((await remove(id)).body).to.deep.equal({ success: true });
  });

  it('is refused to a partner', async () => {
    const { admin } = await buildTenant(bench.app);
    const { body } = await upload(bench, { version: '1.5.0' });
    const answer = await bench.app.call('DELETE', `/agent-versions/${body.id}`, { token: admin.token });
    expect(answer.status).to.equal(403);
  });
});
