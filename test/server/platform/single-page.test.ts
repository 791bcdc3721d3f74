import { randomBytes } from 'node:crypto';
import { mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { createConnection } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { brotliDecompressSync, gunzipSync } from 'node:zlib';
import { expect } from 'chai';
import { compressPageFiles, readPageFiles, type PageState } from '../../../src/platform/http/single-page.ts';
import { createTestApp, type TestApp } from '../../support/test-app.ts';

const HTML = '<!doctype html><title>Planted</title>';
const SCRIPT = `export const planted = '${'x'.repeat(5000)}';\n`;
const BROWSER = { accept: 'text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8' };
const POLICY = [
  "default-src 'self'",
  "script-src 'self'",
  "style-src 'self' 'unsafe-inline'",
  "img-src 'self' data:",
  "connect-src 'self'",
  "object-src 'none'",
  "base-uri 'none'",
  "frame-ancestors 'none'",
  "form-action 'self'",
].join(';');

describe('a page of one file', () => {
  let folder: string;
  let app: TestApp;
  let state: PageState;

  before(async () => {
    folder = await mkdtemp(path.join(tmpdir(), 'muster-page-'));
    await mkdir(path.join(folder, 'assets'));
    await writeFile(path.join(folder, 'index.html'), HTML);
    await writeFile(path.join(folder, 'favicon.svg'), '<svg xmlns="http://www.w3.org/2000/svg"/>');
    await writeFile(path.join(folder, 'assets/main-Ab12.js'), SCRIPT);
    await writeFile(path.join(folder, 'assets/noise-Cd34.woff2'), randomBytes(3000));
    await writeFile(path.join(folder, '.secret'), 'not to be read');
    await symlink('/etc/hostname', path.join(folder, 'assets/host-Ef56.js'));
    await compressPageFiles(folder);
    state = { files: (await readPageFiles(folder))! };
    app = await createTestApp({ dashboard: { current: () => state } });
  });
  after(async () => {
    await app?.close();
    await rm(folder, { recursive: true, force: true });
  });

  const get = (asked: string, headers: Record<string, string> = BROWSER, method = 'GET') =>
    fetch(app.url + asked, { method, headers, redirect: 'manual' });

  /** As it is written, which `fetch` would tidy up. */
  function sendRaw(target: string, lines: string[] = ['Accept: text/html']): Promise<string> {
    const { hostname, port } = new URL(app.url);
    const socket = createConnection({ host: hostname, port: Number(port) });
    socket.end(
      `${[`GET ${target} HTTP/1.1`, `Host: ${hostname}:${port}`, ...lines, 'Connection: close'].join('\r\n')}\r\n\r\n`,
    );
    return new Promise((resolve, reject) => {
      let text = '';
      socket.setEncoding('latin1').on('data', (chunk: string) => (text += chunk));
      socket.once('close', () => resolve(text)).once('error', reject);
    });
  }

  it('is what a browser gets for each path that no other route has', async () => {
    for (const asked of [
      '/',
      '/index.html',
      '/login',
      '/devices/0190?tab=software',
      '/a/b/c/d',
      '/apiary',
      '/hubs',
    ]) {
      const response = await get(asked);
      expect(response.status, asked).to.equal(200);
      expect(await response.text(), asked).to.equal(HTML);
      expect(response.headers.get('content-type')).to.equal('text/html; charset=utf-8');
      expect(response.headers.get('cache-control')).to.equal('no-cache');
      expect(response.headers.get('vary')).to.include('Accept');
    }
    expect((await get('/', {})).status, 'without Accept').to.equal(200);
  });

  it('forbids what a page should not do, and what other sites should not do with it', async () => {
    for (const asked of ['/', '/assets/main-Ab12.js', '/docs', '/nothing.json']) {
      const { headers } = await get(asked);
      expect(headers.get('content-security-policy'), asked).to.equal(POLICY);
      expect(headers.get('referrer-policy'), asked).to.equal('no-referrer');
      expect(headers.get('x-content-type-options'), asked).to.equal('nosniff');
      expect(headers.get('cross-origin-resource-policy'), asked).to.equal('same-origin');
      expect(headers.get('cross-origin-opener-policy'), asked).to.equal('same-origin');
      expect(headers.get('access-control-allow-origin'), asked).to.equal(null);
      expect(headers.get('set-cookie'), asked).to.equal(null);
    }
  });

  it('leaves the paths of programs their own 404s', async () => {
    const paths = [
      '/api',
      '/api/',
      '/api/v1/nothing',
      '/API/v1/nothing',
      '/api/v2',
      '/hub',
      '/hub/',
      '/docs/nothing',
    ];
    for (const asked of [
      ...paths,
      '/health/nothing',
      '/metrics/nothing',
      '/backup-store',
      '/install.sh/x',
      '/Hub/x',
    ]) {
      const response = await get(asked);
      expect(response.headers.get('content-type'), asked).to.include('json');
      expect(response.status, asked).to.be.oneOf([400, 401, 404]);
    }
    expect((await get('/docs')).status).to.equal(200);
    expect(await (await get('/health/live')).json()).to.deep.equal({ status: 'ok' });
    expect((await get('/install.sh')).headers.get('content-type')).to.not.include('html');
  });

  it('is not the answer to a program that mistypes a path, nor to other methods', async () => {
    for (const accept of [
      'application/json',
      '*/*',
      'text/html;q=0',
      'application/json, text/html;q=0.5',
      ';;;,,',
      'text',
    ]) {
      const response = await get('/devicez', { accept });
      expect(response.status, accept).to.equal(404);
      expect(await response.json(), accept).to.include({ code: 'NOT_FOUND' });
    }
    for (const method of ['POST', 'PUT', 'DELETE', 'PATCH', 'OPTIONS']) {
      expect((await get('/', BROWSER, method)).status, method).to.equal(404);
      expect((await get('/assets/main-Ab12.js', BROWSER, method)).status, method).to.equal(404);
    }
  });

  it('has assets that are kept for ever, each in the smallest form that the client takes', async () => {
    const asset = '/assets/main-Ab12.js';
    const forms = [
      ['br, gzip', 'br', (body: Buffer) => brotliDecompressSync(body)],
      ['gzip, deflate, br, zstd', 'br', (body: Buffer) => brotliDecompressSync(body)],
      ['gzip', 'gzip', (body: Buffer) => gunzipSync(body)],
      ['br;q=0, *', 'gzip', (body: Buffer) => gunzipSync(body)],
      ['identity', undefined, (body: Buffer) => body],
      ['', undefined, (body: Buffer) => body],
      ['nonsense;q=two', undefined, (body: Buffer) => body],
    ] as const;
    const tags = new Set<string>();
    for (const [accepted, encoding, open] of forms) {
      const answer = await sendRaw(asset, [`Accept-Encoding: ${accepted}`]);
      const [head = '', ...rest] = answer.split('\r\n\r\n');
      expect(head, accepted).to.match(/^HTTP\/1.1 200 /);
      expect(/content-encoding: (\w+)/i.exec(head)?.[1], accepted).to.equal(encoding);
      expect(head).to.match(/cache-control: public, max-age=31536000, immutable/i);
      expect(head).to.match(/content-type: text\/javascript/i);
      expect(head).to.match(/vary: .*Accept-Encoding/i);
      expect(open(Buffer.from(rest.join('\r\n\r\n'), 'latin1')).toString()).to.equal(SCRIPT);
      tags.add(/etag: (\S+)/i.exec(head)?.[1] ?? '');
    }
    expect(tags.size, 'one ETag for each form').to.equal(3);
    const font = await get('/assets/noise-Cd34.woff2');
    expect([font.headers.get('content-type'), font.headers.get('content-encoding')]).to.deep.equal([
      'font/woff2',
      null,
    ]);
    expect((await get('/favicon.svg')).headers.get('cache-control')).to.equal('no-cache');
  });

  it('answers HEAD, conditions and ranges', async () => {
    const asset = '/assets/main-Ab12.js';
    const whole = await get(asset, { 'accept-encoding': 'identity' });
    const tag = whole.headers.get('etag') ?? '';
    const head = await get(asset, { 'accept-encoding': 'identity' }, 'HEAD');
    expect([head.status, head.headers.get('content-length'), await head.text()]).to.deep.equal([
      200,
      String(SCRIPT.length),
      '',
    ]);
    expect((await get('/devices', BROWSER, 'HEAD')).status).to.equal(200);
    for (const known of [tag, `W/${tag}`, `"other", ${tag}`, '*']) {
      const again = await get(asset, { 'accept-encoding': 'identity', 'if-none-match': known });
      expect([again.status, await again.text()], known).to.deep.equal([304, '']);
      expect(again.headers.get('etag')).to.equal(tag);
    }
    const other = await get(asset, { 'if-none-match': '"other", nonsense' });
    expect(other.status).to.equal(200);
    for (const range of ['bytes=0-9', 'bytes=99999-', 'bytes=-1', `bytes=${'0-1,'.repeat(500)}0-1`]) {
      const answer = await get(asset, { range, 'accept-encoding': 'identity' });
      expect([answer.status, await answer.text()], range).to.deep.equal([200, SCRIPT]);
    }
  });

  it('gives out nothing but its own files, however a path is written', async () => {
    const outside = [
      '/assets/../index.html',
      '/assets/..%2f..%2fpackage.json',
      '/assets/%2e%2e/%2e%2e/package.json',
      '/assets/..\\..\\package.json',
      '/assets/....//package.json',
      '/assets/main-Ab12.js.br',
      '/assets/main-Ab12.js%00',
      '/assets/%6dain-Ab12.js',
      '/assets/host-Ef56.js',
      '/assets/',
      '/assets',
      '/ASSETS/main-Ab12.js',
      '/assets/nothing.js',
      '/assets/constructor',
      '/.secret',
      '/%2esecret',
      '/.git/config',
      '/../../../../etc/passwd',
      '/%2e%2e/%2e%2e/etc/passwd',
      '//evil.example/assets/main-Ab12.js',
      '/\\evil.example',
      '/%5cevil.example',
      '/%E0%A4%A/../x',
      'http://evil.example/assets/nothing.js',
      'file:///etc/passwd/..',
    ];
    for (const target of outside) {
      const answer = await sendRaw(target);
      expect(answer, target).to.match(/^HTTP\/1.1 (400|404) /);
      expect(answer, target).to.match(/content-type: application\/json/i);
      expect(answer, target).to.not.match(/not to be read|Planted|root:/);
    }
    // Only the path of an absolute address counts.
    expect(await sendRaw('http://evil.example/assets/main-Ab12.js')).to.match(/^HTTP\/1.1 200 /);
    const long = await sendRaw(`/${'a'.repeat(15_000)}`);
    expect(long)
      .to.match(/^HTTP\/1.1 200 /)
      .and.not.include('aaaa');
    expect(await sendRaw(`/${'a'.repeat(200_000)}`)).to.match(/^HTTP\/1.1 431 /);
  });

  it('says why it is not there, and asks again without a script', async () => {
    const files = state;
    state = { notice: { title: 'Being <built>', text: 'Soon.', command: 'npm run x', againAfter: 1 } };
    try {
      const response = await get('/devices');
      const body = await response.text();
      expect([response.status, response.headers.get('cache-control')]).to.deep.equal([503, 'no-store']);
      expect(response.headers.get('retry-after')).to.equal('1');
      expect(body).to.include('Being &lt;built&gt;').and.include('http-equiv="refresh" content="1"');
      expect(body)
        .to.include('<code>npm run x</code>')
        .and.not.match(/<script/);
      expect((await get('/assets/main-Ab12.js')).status).to.equal(404);
      expect((await get('/nothing', { accept: '*/*' })).status).to.equal(404);
      expect((await get('/health/live')).status).to.equal(200);
    } finally {
      state = files;
    }
    expect((await get('/')).status).to.equal(200);
  });
});
