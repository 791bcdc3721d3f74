/** The client side of RFC 6455 as far as the load needs it: complete text frames, masked in advance. */

const MASK = Buffer.from([0x37, 0xfa, 0x21, 0x3d]);
const TEXT = 0x81;
const CLOSE = 0x88;
const MASKED = 0x80;

/** A frame that can be written any number of times, because creating it is the expensive part. */
export function textFrame(text: string): Buffer {
  const payload = Buffer.from(text, 'utf8');
  const { length } = payload;
  const head = length < 126 ? 2 : 4;
  const frame = Buffer.allocUnsafe(head + 4 + length);
  frame[0] = TEXT;
  if (length < 126) frame[1] = MASKED | length;
  else if (length < 65_536) {
    frame[1] = MASKED | 126;
    frame.writeUInt16BE(length, 2);
  } else throw new Error(`The load cannot send ${length} bytes in one frame.`);
  MASK.copy(frame, head);
  for (let at = 0; at < length; at++) frame[head + 4 + at] = (payload[at] ?? 0) ^ (MASK[at & 3] ?? 0);
  return frame;
}

/**
 * Reads the server's unmasked frames and passes on each text without copying it.
 * @returns the offset of the first frame that is not complete, or -1 when the server closes
 */
export function readFrames(
  bytes: Buffer,
  end: number,
  onText: (bytes: Buffer, start: number, end: number) => void,
): number {
  let at = 0;
  while (end - at >= 2) {
    const kind = bytes[at];
    let length = bytes[at + 1] ?? 0;
    let start = at + 2;
    if (length === 126) {
      if (end - at < 4) break;
      length = bytes.readUInt16BE(at + 2);
      start = at + 4;
    } else if (length > 126) {
      if (end - at < 10) break;
      length = Number(bytes.readBigUInt64BE(at + 2));
      start = at + 10;
    }
    if (end - start < length) break;
    if (kind === CLOSE) return -1;
    if (kind === TEXT) onText(bytes, start, start + length);
    at = start + length;
  }
  return at;
}
