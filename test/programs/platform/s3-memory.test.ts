import { expect } from 'chai';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { S3Store, type S3Options } from '../../../src/platform/s3.ts';
import { S3_KEYS, S3_REGION, type S3Server, startS3Server } from '../../support/s3-server.ts';

const MIB = 1 << 20;

describe('a large object in S3-compatible storage', function () {
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

  it('holds one part of it in memory, however large it is', async () => {
    const collect = garbageCollector();
    let calls = 0;
    let peak = 0;
    server.onCall = () => {
      for (const parts of server.uploads.values()) {
        for (const number of parts.keys()) parts.set(number, Buffer.alloc(0));
      }
      // Behind the whole of a test run a collection takes its time.
      if (calls++ % 8 === 0) {
        collect();
        peak = Math.max(peak, process.memoryUsage().arrayBuffers);
      }
      return undefined;
    };
    collect();
    const before = process.memoryUsage().arrayBuffers;
    // The server throws away what it gets, so it cannot put it together in the end.
    expect(await failureOf(storeWith().put('a/huge.txt', pieces(160)))).to.contain('InvalidPart');
    // Both ends are in this process, each with a part and what it copies of it.
    expect((peak - before) / MIB).to.be.lessThan(100);
  });
});

function garbageCollector(): () => void {
  setFlagsFromString('--expose-gc');
  const collect = runInNewContext('gc') as () => void;
  return () => {
    collect();
    // The first leaves it to another thread to free the buffers that it finds; the second waits for that.
    collect();
  };
}
