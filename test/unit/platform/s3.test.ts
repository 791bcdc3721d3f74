import { expect } from 'chai';
import { createServer } from 'node:http';
import { connect, createServer as createTcpServer, type AddressInfo, type Socket } from 'node:net';
import { S3Store, type S3Options } from '../../../src/platform/s3.ts';
import { type Fault, S3_KEYS, S3_REGION, type S3Server, startS3Server } from '../../support/s3-server.ts';

const MIB = 1 << 20;

describe('objects in S3-compatible storage', function () {
  let server: S3Server;
  beforeEach(async () => {
    server = await startS3Server();
  });
  afterEach(() => server.close());

  const storeWith = (options: Partial<S3Options> = {}) =>
    new S3Store({
      endpoint: server.url,
      region: S3_REGION,
      bucket: 'archive',
      pathStyle: true,
      ...S3_KEYS,
      ...options,
      timing: { partBytes: 5 * MIB, retryMs: 5, ...options.timing },
    });
  async function* pieces(count: number, size = MIB): AsyncGenerator<string> {
    for (let i = 0; i < count; i++) yield `${String(i).padStart(8, '0')}ß${'x'.repeat(size - 11)}\n`;
  }
  const failureOf = (put: Promise<unknown>) =>
    put.then(
      () => 'stored',
      (error: Error) => error.message,
    );

  it('is sent at once if it is small, and in parts if it is not', async () => {
    expect(await storeWith().put('a/small.txt', pieces(2))).to.deep.equal({ bytes: 2 * MIB });
    expect(server.calls.splice(0)).to.deep.equal(['PUT', 'GET']);
    await storeWith().put('a/large.txt', pieces(12));
    expect(server.calls).to.deep.equal([
      'POST begin',
      'PUT part',
      'PUT part',
      'PUT part',
      'POST complete',
      'GET',
    ]);
    let all = '';
    for await (const piece of pieces(12)) all += piece;
    expect(server.objects.get('a/large.txt')?.equals(Buffer.from(all))).to.equal(true);
    expect(server.uploads.size).to.equal(0);
    await storeWith().put('a/none.txt', pieces(0));
    expect(server.objects.get('a/none.txt')?.length).to.equal(0);
  });

  it('takes back its parts if anything fails, and leaves what was there', async () => {
    server.objects.set('a/large.txt', Buffer.from('earlier'));
    const faults: [string, Fault, RegExp][] = [
      ['POST begin', { status: 403, code: 'AccessDenied' }, /answered POST with 403: AccessDenied/],
      ['PUT part', { status: 403, code: 'AccessDenied' }, /answered PUT with 403: AccessDenied/],
      ['PUT part', { status: 507, code: 'Disk & <b>full' }, /507: it did not say why/],
      ['PUT part', 'break', /could not be reached, or broke off/],
      ['POST complete', 'error in 200', /did not put the parts together: InternalError/],
    ];
    for (const [call, fault, message] of faults) {
      server.onCall = ({ name }) => (name === call ? fault : undefined);
      expect(await failureOf(storeWith().put('a/large.txt', pieces(12))), call).to.match(message);
      expect(server.uploads.size, call).to.equal(0);
      expect(server.objects.get('a/large.txt')?.toString()).to.equal('earlier');
    }
    async function* failing() {
      yield* pieces(12);
      throw new Error('no more');
    }
    server.onCall = undefined;
    expect(await failureOf(storeWith().put('a/large.txt', failing()))).to.equal('no more');
    expect(server.uploads.size).to.equal(0);
    expect(server.objects.get('a/large.txt')?.toString()).to.equal('earlier');
  });

  it('is read back, and refused if it is another', async () => {
    for (const [call, fault, count] of [
      ['PUT', 'damage', 2],
      ['PUT part', 'damage', 12],
      ['GET', 'too small', 2],
    ] as const) {
      server.onCall = ({ name }) => (name === call ? fault : undefined);
      expect(await failureOf(storeWith().put('a/b.txt', pieces(count))), call).to.contain(
        'read back of a/b.txt is not what was written',
      );
    }
  });

  it('tries again what may pass, and nothing else', async () => {
    server.onCall = ({ name, count }) =>
      count === 1 ? (name === 'PUT part' ? 'break' : { status: 503, code: 'SlowDown' }) : undefined;
    await storeWith().put('a/large.txt', pieces(12));
    expect(server.objects.get('a/large.txt')?.length).to.equal(12 * MIB);
    server.calls.length = 0;
    server.onCall = () => ({ status: 403, code: 'AccessDenied' });
    await failureOf(storeWith().put('a/small.txt', pieces(1)));
    expect(server.calls).to.deep.equal(['PUT']);
    server.calls.length = 0;
    server.onCall = () => ({ status: 500, code: 'InternalError' });
    await failureOf(storeWith().put('a/small.txt', pieces(1)));
    expect(server.calls).to.deep.equal(['PUT', 'PUT', 'PUT']);
  });

  it('is refused to a wrong key, a wrong secret, region or bucket', async () => {
    for (const [wrong, code] of [
      [{ accessKeyId: 'other' }, 'InvalidAccessKeyId'],
      [{ secretAccessKey: 'other' }, 'SignatureDoesNotMatch'],
      [{ region: 'elsewhere-1' }, 'AuthorizationHeaderMalformed'],
      [{ bucket: 'missing' }, 'NoSuchBucket'],
    ] as const) {
      const message = await failureOf(storeWith(wrong).put('a/b.txt', pieces(1)));
      expect(message).to.contain(code).and.not.contain(S3_KEYS.secretAccessKey);
    }
    expect(server.objects.size).to.equal(0);
  });

  it('is refused if a byte changes on the way', async () => {
    const { port } = new URL(server.url);
    const open: Socket[] = [];
    const meddler = createTcpServer((near) => {
      const far = connect(Number(port), '127.0.0.1');
      open.push(near, far);
      near.on('data', (chunk: Buffer) => {
        const at = chunk.indexOf('xxxxx');
        if (at >= 0) chunk[at] = 0x79;
        far.write(chunk);
      });
      far.pipe(near);
      near.on('error', () => far.destroy());
      far.on('error', () => near.destroy());
    });
    await new Promise<void>((resolve) => meddler.listen(0, '127.0.0.1', resolve));
    const endpoint = `http://127.0.0.1:${(meddler.address() as AddressInfo).port}`;
    const message = await failureOf(storeWith({ endpoint }).put('a/b.txt', pieces(1)));
    expect(message).to.contain('XAmzContentSHA256Mismatch');
    for (const socket of open) socket.destroy();
    await new Promise((resolve) => meddler.close(resolve));
  });

  it('does not wait for ever, and not at all when the server closes', async () => {
    server.onCall = () => new Promise(() => {});
    const slow = await failureOf(
      storeWith({ timing: { patienceMs: 50, attempts: 2 } }).put('a/b.txt', pieces(1)),
    );
    expect(slow).to.contain('gave no answer for 0.05 s');
    expect(server.calls).to.have.lengthOf(2);
    const closing = new AbortController();
    const put = failureOf(storeWith().put('a/b.txt', pieces(1), closing.signal));
    setTimeout(() => closing.abort(), 20);
    expect(await put).to.contain('was closed');
  });

  it('may have its bucket in the name of the host', async () => {
    const asked: string[] = [];
    const named = createServer((request, response) => {
      asked.push(`${request.headers.host} ${request.url}`);
      request.resume().on('end', () => response.writeHead(404).end());
    });
    await new Promise<void>((resolve) => named.listen(0, 'localhost', resolve));
    const { port } = named.address() as AddressInfo;
    const options = { endpoint: `http://localhost:${port}`, pathStyle: false, bucket: 'b' };
    const message = await failureOf(storeWith(options).put('k', pieces(1)));
    // Where names below localhost are not known, it is the name that cannot be reached.
    expect(asked[0] ?? message).to.contain(`b.localhost:${port} ${asked.length > 0 ? '/k' : ''}`);
    named.closeAllConnections();
    await new Promise((resolve) => named.close(resolve));
  });
});
