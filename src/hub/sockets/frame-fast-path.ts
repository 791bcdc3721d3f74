import { isUtf8 } from 'node:buffer';
import { FINAL_TEXT, IN_EIGHT_BYTES, IN_TWO_BYTES } from './text-frame.ts';

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
type HeardReader = FrameReader & { [HEARER]: Hearer };

/**
 * Most of what an agent says comes in frames that are whole in the piece that is read. Their texts are heard from here,
 * and `ws` is not told of them: to take a frame apart it makes six views of the piece, some of which it keeps until the
 * next, so that they and the piece grow old and are left to the major collections. Everything else stays the reader's,
 * with all that comes behind it in a piece: frames in parts, control frames, faults, and whatever comes while it is in
 * the midst of something.
 */
export function hearWholeFrames(reader: FrameReader, hearer: Hearer): void {
  Object.assign(reader, { [HEARER]: hearer, write: hearOrWrite });
  // The piece with the handshake, in which the token lies.
  if (isBetweenFrames(reader)) reader._mask = undefined;
}

/** One function for all readers, of which there are as many as devices. */
function hearOrWrite(this: HeardReader, piece: Buffer): boolean {
  let rest = piece;
  while (this[HEARER].isOpen && isBetweenFrames(this)) {
    const text = takeText(rest, this);
    if (text === undefined) break;
    const end = text.byteOffset + text.length - rest.byteOffset;
    this[HEARER].hear(text);
    if (end === rest.length) return true;
    rest = rest.subarray(end);
  }
  return (Object.getPrototypeOf(this) as FrameReader).write.call(this, rest);
}

const isBetweenFrames = ({ _state, _bufferedBytes, _fragmented }: FrameReader): boolean =>
  _state === AT_A_FRAME && _bufferedBytes === 0 && _fragmented === 0;

const MASKED = 0x80;
const MASK_BYTES = 4;

/** The text of the frame that a piece begins with, as clients send it (RFC 6455, 5.2), unmasked in place; else as it came. */
function takeText(piece: Buffer, { _maxPayload: most }: FrameReader): Buffer | undefined {
  if (most === undefined || piece.length < 2 + MASK_BYTES || piece[0] !== FINAL_TEXT) return undefined;
  let length = (piece[1] ?? 0) - MASKED;
  // Below zero without a mask, which is a fault.
  if (length < 0 || length === IN_EIGHT_BYTES) return undefined;
  let maskAt = 2;
  if (length === IN_TWO_BYTES) {
    length = piece.readUInt16BE(2);
    maskAt = 4;
  }
  const end = maskAt + MASK_BYTES + length;
  if (end > piece.length || (most > 0 && length > most)) return undefined;
  mask(piece, maskAt, end);
  const text = piece.subarray(maskAt + MASK_BYTES, end);
  if (isUtf8(text)) return text;
  mask(piece, maskAt, end);
  return undefined;
}

/** Masks what follows the mask, or, the second time, unmasks it (RFC 6455, 5.3). */
function mask(piece: Buffer, maskAt: number, end: number): void {
  const a = piece[maskAt] ?? 0;
  const b = piece[maskAt + 1] ?? 0;
  const c = piece[maskAt + 2] ?? 0;
  const d = piece[maskAt + 3] ?? 0;
  // Four at a time: half the time of one by one.
  let at = maskAt + MASK_BYTES;
  for (; at + 3 < end; at += 4) {
    piece[at] = (piece[at] ?? 0) ^ a;
    piece[at + 1] = (piece[at + 1] ?? 0) ^ b;
    piece[at + 2] = (piece[at + 2] ?? 0) ^ c;
    piece[at + 3] = (piece[at + 3] ?? 0) ^ d;
  }
  if (at < end) piece[at] = (piece[at] ?? 0) ^ a;
  if (at + 1 < end) piece[at + 1] = (piece[at + 1] ?? 0) ^ b;
  if (at + 2 < end) piece[at + 2] = (piece[at + 2] ?? 0) ^ c;
}
