import { isUtf8 } from 'node:buffer';

/** What `ws` keeps of the stream of frames that it reads. */
export interface FrameReader {
  write(chunk: Buffer): boolean;
  _state?: number;
  _bufferedBytes?: number;
  _fragmented?: number;
  _maxPayload?: number;
  /** Of the frame before, until the next: a view of the piece that it came in, which it keeps. */
  _mask?: Buffer | undefined;
}

/** Whoever hears what comes by a reader. */
export interface Hearer {
  /** Whether the connection is open on both sides. */
  readonly isOpen: boolean;
  hear(text: Buffer): void;
}

/** In `_state`: the next byte begins a frame. */
const AT_A_FRAME = 0;
const HEARER = Symbol('hearer');
type HeardReader = FrameReader & { [HEARER]?: Hearer };

/**
 * Most of what an agent says comes as one frame in one piece. Its text is heard from here, and `ws` is not told of it:
 * to take a frame apart it makes six views of the piece, some of which it keeps until the next, so that they and the
 * piece grow old and are left to the major collections. Everything else stays the reader's: frames in parts or several
 * in a piece, control frames, faults, and whatever comes while it is in the midst of something.
 */
export function hearWholeFrames(reader: HeardReader, hearer: Hearer): void {
  reader[HEARER] = hearer;
  reader.write = hearOrWrite;
  // The piece with the handshake, in which the token lies.
  if (isBetweenFrames(reader)) reader._mask = undefined;
}

/** One function for all readers, of which there are as many as devices. */
function hearOrWrite(this: HeardReader, chunk: Buffer): boolean {
  const hearer = this[HEARER];
  const text = hearer?.isOpen === true && isBetweenFrames(this) ? takeText(chunk, this) : undefined;
  if (hearer === undefined || text === undefined) {
    return (Object.getPrototypeOf(this) as FrameReader).write.call(this, chunk);
  }
  hearer.hear(text);
  return true;
}

const isBetweenFrames = ({ _state, _bufferedBytes, _fragmented }: FrameReader): boolean =>
  _state === AT_A_FRAME && _bufferedBytes === 0 && _fragmented === 0;

const FINAL_TEXT = 0x81;
const MASKED = 0x80;
/** In place of the length: it follows in two bytes, or in eight. */
const IN_TWO_BYTES = 126;
const IN_EIGHT_BYTES = 127;
const MASK_BYTES = 4;

/** The text of a chunk that is one frame as clients send it (RFC 6455, 5.2), unmasked in place; else as it came. */
function takeText(chunk: Buffer, { _maxPayload: most }: FrameReader): Buffer | undefined {
  if (most === undefined || chunk.length < 2 + MASK_BYTES || chunk[0] !== FINAL_TEXT) return undefined;
  let length = (chunk[1] ?? 0) - MASKED;
  if (length === IN_EIGHT_BYTES) return undefined;
  let maskAt = 2;
  if (length === IN_TWO_BYTES) {
    length = chunk.readUInt16BE(2);
    maskAt = 4;
  }
  const start = maskAt + MASK_BYTES;
  // Without a mask, which is a fault, it is below zero.
  if (start + length !== chunk.length || (most > 0 && length > most)) return undefined;
  mask(chunk, maskAt);
  const text = chunk.subarray(start);
  if (isUtf8(text)) return text;
  mask(chunk, maskAt);
  return undefined;
}

/** Masks what follows the mask, or, the second time, unmasks it (RFC 6455, 5.3). */
function mask(chunk: Buffer, maskAt: number): void {
  const { length } = chunk;
  const start = maskAt + MASK_BYTES;
  const a = chunk[maskAt] ?? 0;
  const b = chunk[maskAt + 1] ?? 0;
  const c = chunk[maskAt + 2] ?? 0;
  const d = chunk[maskAt + 3] ?? 0;
  // Four at a time: half the time of one by one.
  let at = start;
  for (; at + 3 < length; at += 4) {
    chunk[at] = (chunk[at] ?? 0) ^ a;
    chunk[at + 1] = (chunk[at + 1] ?? 0) ^ b;
    chunk[at + 2] = (chunk[at + 2] ?? 0) ^ c;
    chunk[at + 3] = (chunk[at + 3] ?? 0) ^ d;
  }
  if (at < length) chunk[at] = (chunk[at] ?? 0) ^ a;
  if (at + 1 < length) chunk[at + 1] = (chunk[at + 1] ?? 0) ^ b;
  if (at + 2 < length) chunk[at + 2] = (chunk[at + 2] ?? 0) ^ c;
}
