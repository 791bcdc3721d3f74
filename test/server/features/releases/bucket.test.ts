import { expect } from 'chai';
import { randomBytes } from 'node:crypto';
import { readdir, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { S3_KEYS, S3_REGION, type S3Server, startS3Server } from '../../../support/s3-server.ts';
import {
  createReleaseBench,
  download,
  type ReleaseBench,
  sha256,
  upload,
} from '../../../support/releases/release-support.ts';

describe('files of releases in a bucket', function () {
  this.timeout(120_000);
  let s3: S3Server;
  let bench: ReleaseBench;
  beforeEach(async () => {
    s3 = await startS3Server({ bucket: 'releases' });
    bench = await createReleaseBench({
      env: {
        RELEASES_S3_BUCKET: 'releases',
        RELEASES_S3_ENDPOINT: s3.url,
        RELEASES_S3_REGION: S3_REGION,
        RELEASES_S3_ACCESS_KEY_ID: S3_KEYS.accessKeyId,
        RELEASES_S3_SECRET_ACCESS_KEY: S3_KEYS.secretAccessKey,
      },
    });
  });
  afterEach(async () => {
    await bench.close();
    await s3.close();
  });

  it('are written there and compared, and devices are sent there by a URL of their own', async () => {
    const bytes = randomBytes(200_000);
    expect((await upload(bench, { version: '1.0.0', bytes })).status).to.equal(201);
    expect([...s3.objects.keys()]).to.deep.equal([`releases/${sha256(bytes)}`]);
    expect(await readdir(path.join(bench.dataDir, 'releases')), 'nothing stays here').to.deep.equal([]);

    const { status, headers } = await download(bench, '1.0.0');
    const location = headers.get('location') ?? '';
    expect([status, new URL(location).searchParams.get('X-Amz-Expires')]).to.deep.equal([302, '300']);
    expect(location).not.to.contain(S3_KEYS.secretAccessKey);
    const whole = await fetch(location);
    expect(Buffer.from(await whole.arrayBuffer()).equals(bytes)).to.equal(true);
    const rest = await fetch(location, { headers: { range: 'bytes=150000-' } });
    expect([rest.status, (await rest.arrayBuffer()).byteLength]).to.deep.equal([206, 50_000]);
    const other = location.replace(sha256(bytes), sha256(Buffer.from('another')));
    expect((await fetch(other)).status, 'for this object only').to.equal(403);
    expect((await fetch(location, { method: 'PUT', body: 'x' })).status, 'for reading only').to.equal(403);
  });

  it('are not registered if the bucket keeps something else, or fails', async () => {
    for (const fault of ['damage', { status: 403, code: 'AccessDenied' }] as const) {
      s3.onCall = ({ name }) => (name === 'PUT' ? fault : undefined);
      const { status, body } = await upload(bench, { version: '1.0.0' });
      expect([status, body.code], JSON.stringify(body)).to.deep.equal([503, 'UNAVAILABLE']);
      expect(JSON.stringify(body)).not.to.contain(S3_KEYS.secretAccessKey);
    }
    s3.onCall = undefined;
    const list = await bench.app.call('GET', '/agent-versions', { token: bench.admin.token });
    expect(list.body.data).to.deep.equal([]);
    expect(await readdir(path.join(bench.dataDir, 'releases'))).to.deep.equal([]);
    expect((await upload(bench, { version: '1.0.0' })).status).to.equal(201);
  });

  it('are found on this machine if they are from before the bucket', async () => {
    const bytes = randomBytes(1000);
    await upload(bench, { version: '1.0.0', bytes });
    await writeFile(path.join(bench.dataDir, 'releases', sha256(bytes)), bytes);
    s3.objects.clear();
    const answer = await download(bench, '1.0.0');
    expect(answer.status).to.equal(200);
    expect(Buffer.from(await answer.arrayBuffer()).equals(bytes)).to.equal(true);
  });
});
