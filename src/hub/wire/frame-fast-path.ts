import { isUtf8 } from 'node:buffer';

const FINAL_TEXT = 0x81;
/** Values in place of the length: the length follows in two or eight bytes. */
const IN_TWO_BYTES = 126;
const IN_EIGHT_BYTES = 127;

/** Engine.IO's packet type for messages, which contain the packets of Socket.IO. */
export const MESSAGE = '4';

/**
 * A text frame as a server sends it (RFC 6455, 5.2): complete, not masked, with header and text in one buffer.
 * @param following  bytes of text that are sent right after this buffer as part of the frame
 */
export function textFrame(text: string, following = 0): Buffer {
  const own = Buffer.byteLength(text);
  const length = own + following;
  const head = length < IN_TWO_BYTES ? 2 : length < 65_536 ? 4 : 10;
  const frame = Buffer.allocUnsafe(head + own);
  frame[0] = FINAL_TEXT;
  if (head === 2) frame[1] = length;
  else if (head === 4) {
    frame[1] = IN_TWO_BYTES;
    frame.writeUInt16BE(length, 2);
  } else {
    frame[1] = IN_EIGHT_BYTES;
    frame.writeBigUInt64BE(BigInt(length), 2);
  }
  frame.write(text, head);
  return frame;
}

/**
 * Options that make Engine.IO write this frame, in one or two parts, instead of the packet, as it does for broadcasts.
 * They are missing from its types.
 */
export const framed = (frame: [Buffer] | [Buffer, Buffer]): { compress: boolean } =>
  Object.assign({ compress: false }, { wsPreEncodedFrame: frame });

/** The internals of the receiver in `ws`. */
export interface FrameReader {
  write(chunk: Buffer): boolean;
  _state?: number;
  _bufferedBytes?: number;
  _fragmented?: number;
  _maxPayload?: number;
  /** The mask of the last frame: a view that keeps the chunk alive in which the frame came. */
  _mask?: Buffer | undefined;
}

/** Handles the texts of complete frames. */
export interface FrameHandler {
  /** Whether the connection is open on both sides. */
  readonly isOpen: boolean;
  onText(text: Buffer): void;
}

/** The value of `_state` when the next byte begins a frame. */
const AT_A_FRAME = 0;
const HANDLER = Symbol('handler');
type PatchedReader = FrameReader & { [HANDLER]: FrameHandler };

/**
 * Most frames of an agent are complete in the chunk that was read. Their texts go straight to the handler and bypass
 * `ws`: to parse a frame it creates six views of the chunk and keeps some of them until the next frame, so that they and
 * the chunk survive into the old generation, which only major collections free. Everything else stays with the reader,
 * including all that follows it in a chunk: fragmented frames, control frames, faults, and anything that arrives while it
 * is parsing.
 */
export function installFrameFastPath(reader: FrameReader, handler: FrameHandler): void {
  Object.assign(reader, { [HANDLER]: handler, write: handleOrWrite });
  // Its chunk contains the handshake with the token.
  if (isBetweenFrames(reader)) reader._mask = undefined;
}

/** One function for all readers, because there are as many readers as devices. */
function handleOrWrite(this: PatchedReader, chunk: Buffer): boolean {
  let rest = chunk;
  while (this[HANDLER].isOpen && isBetweenFrames(this)) {
    const text = takeText(rest, this);
    if (text === undefined) break;
    const end = text.byteOffset + text.length - rest.byteOffset;
    this[HANDLER].onText(text);
    if (end === rest.length) return true;
    rest = rest.subarray(end);
  }
  return (Object.getPrototypeOf(this) as FrameReader).write.call(this, rest);
}

const isBetweenFrames = ({ _state, _bufferedBytes, _fragmented }: FrameReader): boolean =>
  _state === AT_A_FRAME && _bufferedBytes === 0 && _fragmented === 0;

const MASKED = 0x80;
const MASK_BYTES = 4;

/** The text of the frame that a chunk begins with (RFC 6455, 5.2), unmasked in place. Otherwise the chunk is unchanged. */
function takeText(chunk: Buffer, { _maxPayload: most }: FrameReader): Buffer | undefined {
  if (most === undefined || chunk.length < 2 + MASK_BYTES || chunk[0] !== FINAL_TEXT) return undefined;
  let length = (chunk[1] ?? 0) - MASKED;
  // Negative without a mask, which is a protocol error.
  if (length < 0 || length === IN_EIGHT_BYTES) return undefined;
  let maskAt = 2;
  if (length === IN_TWO_BYTES) {
    length = chunk.readUInt16BE(2);
    maskAt = 4;
  }
  const end = maskAt + MASK_BYTES + length;
  if (end > chunk.length || (most > 0 && length > most)) return undefined;
  mask(chunk, maskAt, end);
  const text = chunk.subarray(maskAt + MASK_BYTES, end);
  if (isUtf8(text)) return text;
  mask(chunk, maskAt, end);
  return undefined;
}

/** Applies the mask to the bytes that follow it, which masks or unmasks them (RFC 6455, 5.3). */
function mask(chunk: Buffer, maskAt: number, end: number): void {
  const a = chunk[maskAt] ?? 0;
  const b = chunk[maskAt + 1] ?? 0;
  const c = chunk[maskAt + 2] ?? 0;
  const d = chunk[maskAt + 3] ?? 0;
  // Four bytes at a time take half the time of one at a time.
  let at = maskAt + MASK_BYTES;
  for (; at + 3 < end; at += 4) {
    chunk[at] = (chunk[at] ?? 0) ^ a;
    chunk[at + 1] = (chunk[at + 1] ?? 0) ^ b;
    chunk[at + 2] = (chunk[at + 2] ?? 0) ^ c;
    chunk[at + 3] = (chunk[at + 3] ?? 0) ^ d;
  }
  if (at < end) chunk[at] = (chunk[at] ?? 0) ^ a;
  if (at + 1 < end) chunk[at + 1] = (chunk[at + 1] ?? 0) ^ b;
  if (at + 2 < end) chunk[at + 2] = (chunk[at + 2] ?? 0) ^ c;
}
