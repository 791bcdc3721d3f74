import { expect } from 'chai';
import fc from 'fast-check';
import { createPrivateKey, randomUUID } from 'node:crypto';
import {
  BundleError,
  BundleReader,
  checkpointLine,
  entryLine,
  headerLine,
  keyLine,
} from '../../../../src/features/audit/bundle.ts';
import {
  CHAIN_START,
  seal,
  type SealedEntry,
  type Checkpoint,
  checkpointHash,
  signCheckpoint,
} from '../../../../src/features/audit/chain.ts';
import { newKeyPair } from '../../../../src/platform/secrets/stored-signing-keys.ts';
import {
  LineChunk,
  linesIn,
  type LineCheck,
  ParallelCheck,
  VerifyWorkerPool,
} from '../../../../src/features/audit/parallel-check.ts';

const ORG = randomUUID();
const pair = newKeyPair();
const key = { keyId: randomUUID(), privateKey: createPrivateKey(pair.privateKey) };

const unsealed = (n: number) => ({
  id: randomUUID(),
  orgId: ORG,
  partnerId: null,
  timestamp: new Date(1.7e12 + n).toISOString(),
  actorType: 'user',
  actorId: randomUUID(),
  actorEmail: 'who@example.com',
  action: 'site.update',
  resourceType: 'site',
  resourceId: null,
  resourceName: 'Site "\\ \n\tß€😀',
  details: { n, b: ['x', { z: 1, a: null }] },
  ipAddress: '10.0.0.1',
  userAgent: 'Mozilla/5.0',
  result: 'success',
  errorMessage: null,
});

const entries = seal(
  Array.from({ length: 60 }, (_, n) => unsealed(n)),
  CHAIN_START,
);

/** Entries 10, 30 and the last are signed. */
function signed(of: readonly SealedEntry[]): Checkpoint[] {
  let previous: string | null = null;
  return [10, 30, 60].map((seq, i) => {
    const checksum = of[seq - 1]?.checksum ?? '';
    const at = new Date().toISOString();
    const made = signCheckpoint(
      { chainId: ORG, kind: 'head', number: i + 1, seq, checksum, previous, at },
      key,
    );
    previous = checkpointHash(made);
    return made;
  });
}

const [first, second, head] = signed(entries) as [Checkpoint, Checkpoint, Checkpoint];
const beforeEntries = [
  headerLine({ chainId: ORG, exportedAt: new Date().toISOString(), head }),
  keyLine({
    keyId: key.keyId,
    algorithm: 'Ed25519',
    publicKey: pair.publicKey,
    createdAt: new Date().toISOString(),
    retiredAt: null,
  }),
  checkpointLine(first),
  checkpointLine(second),
];
const bundle = [...beforeEntries, ...entries.map(entryLine)];

const changed = (line: string, change: (entry: SealedEntry) => Partial<SealedEntry>) => {
  const { type: _type, ...entry } = JSON.parse(line) as SealedEntry & { type: string };
  return entryLine({ ...entry, ...change(entry) });
};

/** What may happen to a bundle between the one who made it and the one who checks it. */
const tampering = fc.oneof(
  fc.record({ what: fc.constantFrom('drop', 'twice', 'swap', 'cut', 'key'), at: fc.nat(bundle.length - 2) }),
  fc.record({
    what: fc.constantFrom('action', 'seq', 'checksum', 'prevChecksum', 'orgId', 'reseal', 'resealAll'),
    at: fc.integer({ min: beforeEntries.length, max: bundle.length - 2 }),
  }),
);

function tampered(lines: readonly string[], { what, at }: { what: string; at: number }): string[] {
  const line = lines[at] ?? '';
  const next = lines[at + 1] ?? '';
  const withLine = (...put: string[]) => [...lines.slice(0, at), ...put, ...lines.slice(at + 1)];
  if (what === 'drop') return withLine();
  if (what === 'twice') return withLine(line, line);
  if (what === 'swap') return withLine(next, line).toSpliced(at + 2, 1);
  if (what === 'cut') return withLine(line.slice(0, -20));
  if (what === 'key') return withLine(line, beforeEntries[1] ?? '');
  if (!line.startsWith('{"type":"entry"') || !line.endsWith('}')) return [...lines];
  if (what === 'action') return withLine(changed(line, () => ({ action: 'forged' })));
  if (what === 'seq') return withLine(changed(line, ({ seq }) => ({ seq: seq + 0.5 })));
  if (what === 'checksum') return withLine(changed(line, () => ({ checksum: 'x'.repeat(64) })));
  if (what === 'prevChecksum') return withLine(changed(line, () => ({ prevChecksum: null })));
  if (what === 'orgId') return withLine(changed(line, () => ({ orgId: randomUUID() })));
  // By one who has read our code, but cannot sign: one entry, or that and all behind it.
  const from = at - beforeEntries.length;
  const forged = seal(
    entries.slice(from).map((entry, i) => (i === 0 ? { ...entry, action: 'forged' } : entry)),
    entries[from - 1] ?? CHAIN_START,
  ).map(entryLine);
  return what === 'reseal' ? withLine(forged[0] ?? '') : [...lines.slice(0, at), ...forged];
}

/** What is said of it in the end, be it a report or an error. */
async function said(check: (reader: BundleReader) => Promise<void>): Promise<unknown> {
  const reader = new BundleReader();
  try {
    await check(reader);
    return reader.end();
  } catch (error) {
    if (!(error instanceof BundleError)) throw error;
    return error.message;
  }
}

const oneByOne = (lines: readonly string[]) =>
  said(async (reader) => {
    for (const line of lines) reader.line(line);
  });

describe('a parallel check', () => {
  const workers = new VerifyWorkerPool(2);
  after(() => workers.close());

  let verified = 0;
  const inThreads = (lines: readonly string[], chunkBytes: number) =>
    said(async (reader) => {
      const check: LineCheck = {
        format: 'bundle',
        line: (line) => reader.line(line.toString()),
        segment(segment) {
          verified += segment.count;
          return reader.segment(segment);
        },
      };
      const parallel = new ParallelCheck(check, workers, { chunkBytes, inlineBytes: 0 });
      for (const line of lines) await parallel.add(Buffer.from(line));
      await parallel.end();
    });

  it('reports the same for an intact bundle as a check line by line, and verifies it in the threads', async () => {
    verified = 0;
    expect(await inThreads(bundle, 4000)).to.deep.equal(await oneByOne(bundle));
    expect(verified).to.be.greaterThan(40);
  });

  it('reports the same for a bundle that was tampered with as a check line by line', async () => {
    const seen = new Set<string>();
    await fc.assert(
      fc.asyncProperty(
        fc.array(tampering, { minLength: 1, maxLength: 2 }),
        fc.integer({ min: 1, max: 20_000 }),
        async (changes, chunkBytes) => {
          const lines = changes.reduce(tampered, bundle);
          const expected = await oneByOne(lines);
          expect(await inThreads(lines, chunkBytes)).to.deep.equal(expected);
          seen.add(typeof expected);
        },
      ),
      { numRuns: 300 },
    );
    expect([...seen].sort()).to.deep.equal(['object', 'string']);
  }).timeout(120_000);

  it('holds no more chunks than the capacity of the threads, and processes them in order', async () => {
    const responses: (() => void)[] = [];
    const slow = {
      capacity: 4,
      verify: () => new Promise<undefined>((resolve) => responses.push(() => resolve(undefined))),
    };
    const taken: string[] = [];
    const check: LineCheck = {
      format: 'bundle',
      line: (line) => void taken.push(line.toString()),
      segment: () => false,
    };
    const parallel = new ParallelCheck(check, slow, { chunkBytes: 4, inlineBytes: 0 });
    const rooms = ['one', 'two', 'six', 'ten'].map((line) => parallel.add(Buffer.from(line)));
    expect(rooms).to.deep.equal([undefined, undefined, undefined, undefined]);
    const room = parallel.add(Buffer.from('end'));
    expect(room).to.be.instanceOf(Promise);
    // The response to the last request arrives first.
    for (const respond of responses.toReversed()) respond();
    await room;
    expect(taken[0]).to.equal('one');
    await parallel.end();
    expect(taken).to.deep.equal(['one', 'two', 'six', 'ten', 'end']);
  });

  it('rejects every request when a thread ends', async () => {
    const dying = new VerifyWorkerPool(1);
    const healthy = [1, 2].map(() => dying.verify({ format: 'bundle', bytes: Buffer.from('{}\n') }));
    await Promise.all(healthy);
    const [lost] = [dying.verify({ format: 'copy', bytes: null as unknown as Uint8Array })];
    const after = dying.verify({ format: 'bundle', bytes: Buffer.from('{}\n') });
    for (const request of [lost, after, dying.verify({ format: 'bundle', bytes: Buffer.from('{}\n') })]) {
      expect(await request.catch((error: unknown) => error)).to.be.instanceOf(Error);
    }
    await dying.close();
  });

  it('keeps the lines of a chunk separate', () => {
    fc.assert(
      fc.property(fc.array(fc.stringMatching(/^[^\n]*$/)), (lines) => {
        const buffers = lines.map((line) => Buffer.from(line));
        const chunk = new LineChunk(buffers.reduce((sum, { length }) => sum + length + 1, 0));
        for (const line of buffers) {
          expect(chunk.hasRoomFor(line)).to.equal(true);
          chunk.add(line);
        }
        expect(chunk.hasRoomFor(Buffer.alloc(0))).to.equal(false);
        expect([...linesIn(chunk.bytes)]).to.deep.equal(buffers);
      }),
    );
  });
});
