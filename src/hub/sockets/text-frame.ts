export const FINAL_TEXT = 0x81;
/** Values in place of the length: the length follows in two or eight bytes. */
export const IN_TWO_BYTES = 126;
export const IN_EIGHT_BYTES = 127;

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
