import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { Readable } from 'node:stream';
import { expect } from 'chai';
import { downloadFile, UpdateFault } from '../../../../../src/agent/capabilities/update/download.ts';
import { NetworkError } from '../../../../../src/agent/os/network/proxy-rules.ts';
import type { Network } from '../../../../../src/agent/os/network/network.ts';
import { eventually } from '../../../../support/eventually.ts';
import { temporaryFolder } from '../../../../support/agent/test-agent.ts';
import { useTestClock } from '../../../../support/use-test-clock.ts';

const SHA256 = 'a'.repeat(64);
const OTHER = `${'b'.repeat(64)}.part`;
const TEXT = '0123456789';

type Request = Parameters<Network['request']>;
type Answer = { status: number; headers?: Record<string, string>; body?: Readable };

describe('the download of a release', () => {
  const testClock = useTestClock({ isRunning: false });
  let folder: string;
  let remove: () => Promise<void>;
  let asked: { url: string; headers: Record<string, string>; silentMs: number | undefined }[];
  let lastSignal: AbortSignal | undefined;
  let answer: () => Promise<Answer>;
  const file = () => path.join(folder, `${SHA256}.part`);
  const body = (text: string) => Readable.from([Buffer.from(text)]);
  const whole = (text = TEXT, headers = {}): Answer => ({ status: 200, headers, body: body(text) });

  beforeEach(async () => {
    const temporary = await temporaryFolder();
    remove = temporary.remove;
    folder = path.join(temporary.folder, 'downloads');
    [asked, lastSignal] = [[], undefined];
    answer = async () => whole();
  });
  afterEach(async () => {
    expect(testClock.pending, 'timers left behind').to.equal(0);
    await remove();
  });

  const network = {
    async request(url: Request[0], { headers, signal, silentMs }: NonNullable<Request[1]>) {
      asked.push({ url: String(url), headers: { ...headers }, silentMs });
      lastSignal = signal;
      return { headers: {}, body: body(''), ...(await answer()) };
    },
  } as unknown as Network;
  const bring = (more: Partial<Parameters<typeof downloadFile>[1]> = {}) =>
    downloadFile(network, {
      url: 'https://muster.example/release',
      size: TEXT.length,
      sha256: SHA256,
      folder,
      allowsHttp: false,
      signal: new AbortController().signal,
      ...more,
    });
  const eventuallyAsked = () =>
    eventually(
      () => asked.length,
      (count) => count > 0,
    );
  async function faultOf(work: Promise<unknown>): Promise<[string, string, boolean]> {
    const error = await work.catch((thrown: unknown) => thrown);
    if (!(error instanceof UpdateFault)) throw error;
    return [error.code, error.message, error.isTemporary];
  }
  const have = async (text: string) => {
    await mkdir(folder, { recursive: true });
    await writeFile(file(), text);
  };

  it('is a file that is named after its hash', async () => {
    expect(await bring()).to.equal(file());
    expect(await readFile(file(), 'utf8')).to.equal(TEXT);
    expect(asked).to.deep.equal([
      {
        url: 'https://muster.example/release',
        headers: { accept: 'application/octet-stream' },
        silentMs: 60_000,
      },
    ]);
  });

  it('goes on where the last one has ended', async () => {
    await have('0123');
    answer = async () => ({
      status: 206,
      headers: { 'content-range': 'bytes 4-9/10' },
      body: Readable.from([Buffer.from('45'), Buffer.from('6789')]),
    });
    await bring();
    expect(asked[0]?.headers).to.include({ range: 'bytes=4-', 'if-range': `"${SHA256}"` });
    expect(await readFile(file(), 'utf8')).to.equal(TEXT);
  });

  it('begins anew if the server sends the whole file, and if more is here than there can be', async () => {
    for (const former of ['xxxx', 'x'.repeat(20)]) {
      await have(former);
      answer = async () => whole();
      await bring();
      expect(await readFile(file(), 'utf8'), former).to.equal(TEXT);
    }
    expect(asked.map(({ headers }) => headers['range'])).to.deep.equal(['bytes=4-', undefined]);
  });

  it('is not asked for if it is complete', async () => {
    await have(TEXT);
    expect([await bring(), asked]).to.deep.equal([file(), []]);
  });

  it('removes the parts of other releases, and nothing else', async () => {
    await mkdir(folder, { recursive: true });
    for (const name of [OTHER, `x${OTHER}`, `${OTHER}x`]) await writeFile(path.join(folder, name), 'x');
    await bring();
    expect((await readdir(folder)).sort()).to.deep.equal([`${SHA256}.part`, `${OTHER}x`, `x${OTHER}`].sort());
  });

  it('is without encryption only if that is allowed, or within this machine', async () => {
    const insecure = ['INSECURE_URL', 'The release was offered at an address without https.', false];
    expect(await faultOf(bring({ url: 'http://muster.example/release' }))).to.deep.equal(insecure);
    expect(await faultOf(bring({ url: 'ftp://muster.example/', allowsHttp: true }))).to.deep.equal(insecure);
    expect(await faultOf(bring({ url: 'nonsense', allowsHttp: true }))).to.deep.equal(insecure);
    expect(asked).to.deep.equal([]);
    await bring({ url: 'http://muster.example/release', allowsHttp: true });
    await have('');
    await bring({ url: 'http://127.0.0.1/release' });
    expect(asked).to.have.length(2);
  });

  it('of another size than the release is refused before anything is written', async () => {
    await have('0123');
    let sent: Readable | undefined;
    answer = async () => {
      const one = whole(`${TEXT}x`, { 'content-length': '11' });
      sent = one.body;
      return one;
    };
    expect(await faultOf(bring())).to.deep.equal([
      'SIZE_MISMATCH',
      'The download has 11 bytes; the release has 10.',
      false,
    ]);
    expect([await readFile(file(), 'utf8'), sent?.destroyed]).to.deep.equal(['0123', true]);
  });

  it('that is longer than announced is refused, and nothing of it stays', async () => {
    answer = async () => ({ status: 200, body: Readable.from([Buffer.from(TEXT), Buffer.from('x')]) });
    expect(await faultOf(bring())).to.deep.equal([
      'SIZE_MISMATCH',
      'The download is longer than 10 bytes.',
      false,
    ]);
    expect(await readFile(file(), 'utf8')).to.equal('');
  });

  it('that ends early, or is cut off, keeps what has come', async () => {
    answer = async () => whole('01234');
    expect(await faultOf(bring())).to.deep.equal(['DOWNLOAD_FAILED', 'The download ended early.', true]);
    expect(await readFile(file(), 'utf8')).to.equal('01234');
    answer = async () => ({
      status: 206,
      headers: { 'content-range': 'bytes 5-9/10' },
      body: Readable.from(
        (async function* () {
          yield Buffer.from('567');
          throw new Error('ECONNRESET');
        })(),
      ),
    });
    expect(await faultOf(bring())).to.deep.equal([
      'DOWNLOAD_FAILED',
      'The download was cut off: ECONNRESET.',
      true,
    ]);
    expect(await readFile(file(), 'utf8')).to.equal('01234567');
  });

  it('that the network or the server refuses is tried again, from the beginning if the range is wrong', async () => {
    await have('0123');
    answer = () => Promise.reject(new NetworkError('ECONNREFUSED', 'No network.'));
    expect(await faultOf(bring())).to.deep.equal(['DOWNLOAD_FAILED', 'No network.', true]);
    answer = async () => ({ status: 503 });
    expect((await faultOf(bring()))[0]).to.equal('DOWNLOAD_FAILED');
    expect(await readFile(file(), 'utf8')).to.equal('0123');
    answer = async () => ({ status: 416 });
    expect((await faultOf(bring()))[0]).to.equal('DOWNLOAD_FAILED');
    expect(await readdir(folder)).to.deep.equal([]);
  });

  it('rethrows errors that are not faults of the network', async () => {
    answer = () => Promise.reject(new RangeError('a fault of ours'));
    const error = await bring().catch((thrown: unknown) => thrown);
    expect(error).to.be.instanceOf(RangeError);
  });

  it('ends after two hours, and when the agent stops', async () => {
    const stop = new AbortController();
    // As the network does, which answers nothing and heeds the signal.
    answer = () =>
      new Promise((_, reject) => {
        lastSignal?.addEventListener('abort', () => reject(new NetworkError('ABORTED', 'aborted')));
      });
    const late = bring({ signal: stop.signal }).catch((error: unknown) => error);
    await eventuallyAsked();
    await testClock.advance(2 * 3_600_000 - 1);
    expect(lastSignal?.aborted).to.equal(false);
    await testClock.advance(1);
    expect(lastSignal?.aborted).to.equal(true);
    expect(await late).to.be.instanceOf(UpdateFault);
    asked = [];
    const stopped = bring({ signal: stop.signal }).catch((error: unknown) => error);
    await eventuallyAsked();
    stop.abort();
    expect(lastSignal?.aborted).to.equal(true);
    expect(await stopped).to.be.instanceOf(UpdateFault);
  });
});
