import { expect } from 'chai';
import fc from 'fast-check';
import { createRequire } from 'node:module';
import type { Writable } from 'node:stream';
import { type FrameReader, installFrameFastPath } from '../../../../src/hub/wire/frame-fast-path.ts';

// The one that stands under Engine.IO, which is not the one that tests use as a client.
const fromSocketIo = createRequire(createRequire(import.meta.url).resolve('socket.io'));
const { Receiver } = createRequire(fromSocketIo.resolve('engine.io'))('ws') as {
  Receiver: new (options: { isServer: boolean; maxPayload: number }) => Writable & FrameReader;
};
const MOST = 70_000;

class CountingReceiver extends Receiver {
  takenApart = 0;

  override write(chunk: Buffer): boolean {
    this.takenApart += 1;
    return super.write(chunk);
  }
}

interface Frame {
  final: boolean;
  reserved: number;
  opcode: number;
  mask: Buffer | undefined;
  /** Bytes in which a length is written, which may be more than it needs. */
  lengthBytes: 0 | 2 | 8;
  payload: Buffer;
}

/** As it goes over the wire (RFC 6455, 5.2). */
function encoded({ final, reserved, opcode, mask, lengthBytes, payload }: Frame): Buffer {
  const { length } = payload;
  const wide = lengthBytes === 8 || length > 65_535 ? 8 : lengthBytes === 2 || length > 125 ? 2 : 0;
  const size = Buffer.alloc(wide);
  if (wide === 2) size.writeUInt16BE(length);
  if (wide === 8) size.writeBigUInt64BE(BigInt(length));
  const said = wide === 0 ? length : wide === 2 ? 126 : 127;
  const head = [(final ? 0x80 : 0) | (reserved << 4) | opcode, (mask === undefined ? 0 : 0x80) | said];
  const masked = payload.map((byte, at) => byte ^ (mask?.[at & 3] ?? 0));
  return Buffer.concat([Buffer.from(head), size, mask ?? Buffer.alloc(0), masked]);
}

const text = (payload: string, more: Partial<Frame> = {}): Frame => ({
  final: true,
  reserved: 0,
  opcode: 1,
  mask: Buffer.from([0x12, 0x00, 0xff, 0x81]),
  lengthBytes: 0,
  payload: Buffer.from(payload),
  ...more,
});

/** What a reader makes of these chunks, and how many of them it took apart itself. */
async function read(
  chunks: readonly Buffer[],
  { isShort, most = MOST }: { isShort: boolean; most?: number },
) {
  const reader = new CountingReceiver({ isServer: true, maxPayload: most });
  const heard: unknown[][] = [];
  const hear = (data: Buffer, isBinary = false) => heard.push(['message', data.toString('latin1'), isBinary]);
  const handler = { isOpen: true, onText: hear };
  reader.on('message', hear);
  for (const event of ['ping', 'pong', 'conclude'] as const) {
    reader.on(event, (...said: unknown[]) => {
      heard.push([event, ...said.map(String)]);
      if (event === 'conclude') handler.isOpen = false;
    });
  }
  let hasFailed = false;
  reader.on('error', (error: Error & { code?: string }) => {
    hasFailed = true;
    handler.isOpen = false;
    heard.push(['error', error.code]);
  });
  if (isShort) installFrameFastPath(reader, handler);
  for (const chunk of chunks) {
    // The socket hears no more of it then.
    if (hasFailed) break;
    reader.write(Buffer.from(chunk));
    await new Promise((resolve) => process.nextTick(resolve));
  }
  return { heard, takenApart: reader.takenApart };
}

const frame: fc.Arbitrary<Frame> = fc.record({
  final: fc.boolean(),
  reserved: fc.oneof(
    { weight: 9, arbitrary: fc.constant(0) },
    { weight: 1, arbitrary: fc.integer({ max: 7, min: 1 }) },
  ),
  opcode: fc.oneof(
    { weight: 8, arbitrary: fc.constantFrom(0, 1, 1, 1, 2, 8, 9, 10) },
    { weight: 1, arbitrary: fc.integer({ min: 0, max: 15 }) },
  ),
  mask: fc.oneof(
    {
      weight: 9,
      arbitrary: fc.uint8Array({ minLength: 4, maxLength: 4 }).map((bytes) => Buffer.from(bytes)),
    },
    { weight: 1, arbitrary: fc.constant(undefined) },
  ),
  lengthBytes: fc.constantFrom(0, 0, 2, 8),
  payload: fc.oneof(
    fc.string({ unit: 'binary', maxLength: 140 }).map((value) => Buffer.from(value)),
    fc.uint8Array({ maxLength: 140 }).map((bytes) => Buffer.from(bytes)),
    fc.constantFrom(65_535, 65_536, MOST, MOST + 1).map((length) => Buffer.alloc(length, 'x')),
  ),
});
const plain: fc.Arbitrary<Frame> = frame.map((any) => ({
  ...any,
  final: true,
  reserved: 0,
  opcode: 1,
  mask: any.mask ?? Buffer.alloc(4),
}));

describe('complete frames', () => {
  it('are read as by ws, among any other frames, however the chunks are cut', async () => {
    const frames = fc.array(fc.oneof({ weight: 2, arbitrary: plain }, { weight: 1, arbitrary: frame }), {
      minLength: 1,
      maxLength: 8,
    });
    // Where the stream of frames is cut; in most cases behind each frame, as it is sent.
    const cuts = fc.oneof(
      fc.constant(undefined),
      fc.array(fc.double({ min: 0, max: 1, noNaN: true }), { maxLength: 6 }),
    );
    await fc.assert(
      fc.asyncProperty(frames, cuts, async (sent, at) => {
        const pieces = sent.map(encoded);
        const chunks = at === undefined ? pieces : cutAt(Buffer.concat(pieces), at);
        const [ours, theirs] = [
          await read(chunks, { isShort: true }),
          await read(chunks, { isShort: false }),
        ];
        expect(ours.heard).to.deep.equal(theirs.heard);
      }),
      { numRuns: 500 },
    );
  });

  it('bypass the receiver of ws in the installed version', async () => {
    const chunks = [text('{}'), text('é'.repeat(300)), text('x'.repeat(65_535)), text('')].map(encoded);
    const { heard, takenApart } = await read(chunks, { isShort: true });
    expect(heard).to.have.length(4);
    expect(takenApart).to.equal(0);
    const inOne = await read([Buffer.concat(chunks)], { isShort: true });
    expect(inOne).to.deep.equal({ heard, takenApart: 0 });
  });

  it('are left to ws when anything about them is unusual', async () => {
    for (const one of [
      text('a', { final: false }),
      text('a', { reserved: 4 }),
      text('a', { opcode: 2 }),
      text('a', { opcode: 9 }),
      text('a', { mask: undefined }),
      text('a', { lengthBytes: 8 }),
      text('', { payload: Buffer.from([0xc3, 0x28]) }),
      text('x'.repeat(MOST + 1)),
    ]) {
      const { takenApart } = await read([encoded(one)], { isShort: true });
      expect(takenApart, JSON.stringify(one)).to.equal(1);
    }
    const long = [encoded(text('x'.repeat(101)))];
    expect(await read(long, { isShort: true, most: 100 })).to.have.property('takenApart', 1);
  });

  it('are distinguished from data that only looks like a frame', async () => {
    // In eight bytes, of which the length read as one byte would fit.
    const wide = [encoded(text('x'.repeat(119), { lengthBytes: 8, mask: Buffer.from([1, 2, 3, 4]) }))];
    // The payload of another frame, in a piece of its own.
    const unmasked = Buffer.alloc(4);
    const inner = encoded(text('inner'));
    const outer = encoded(text('', { opcode: 2, mask: unmasked, payload: inner }));
    const payload = [outer.subarray(0, -inner.length), inner];
    // All but the first byte of a frame, which happens to begin like one.
    const whole = encoded(text('a', { mask: Buffer.from([0x80, 1, 2, 3]) }));
    const tail = [whole.subarray(0, 1), whole.subarray(1)];
    for (const chunks of [wide, payload, tail]) {
      const ours = await read(chunks, { isShort: true });
      expect(ours).to.deep.equal(await read(chunks, { isShort: false }));
      expect(ours.heard).to.have.length(1);
    }
  });

  it('keep nothing of earlier chunks in memory unless it is still needed', async () => {
    const reader = new CountingReceiver({ isServer: true, maxPayload: MOST });
    const heard: string[] = [];
    reader.on('message', (data: Buffer) => heard.push(data.toString()));
    reader.write(encoded(text('token')));
    expect(reader._mask).not.to.equal(undefined);
    const handler = { isOpen: true, onText: () => {} };
    installFrameFastPath(reader, handler);
    expect(reader._mask).to.equal(undefined);
    const half = encoded(text('half of it'));
    reader.write(half.subarray(0, 10));
    installFrameFastPath(reader, handler);
    reader.write(half.subarray(10));
    expect(heard).to.deep.equal(['token', 'half of it']);
  });

  it('are not handled after the connection has ended', async () => {
    const end = text('', { opcode: 8, payload: Buffer.from([0x03, 0xe8]) });
    const { heard } = await read([end, text('late')].map(encoded), { isShort: true });
    expect(heard.map(([event]) => event)).to.deep.equal(['conclude']);
  });
});

function cutAt(stream: Buffer, places: readonly number[]): Buffer[] {
  const at = [
    0,
    ...places.map((place) => Math.floor(place * stream.length)).sort((a, b) => a - b),
    stream.length,
  ];
  return at
    .slice(1)
    .map((end, index) => stream.subarray(at[index], end))
    .filter(({ length }) => length > 0);
}
