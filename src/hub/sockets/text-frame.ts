export const FINAL_TEXT = 0x81;
/** In place of the length: it follows in so many bytes. */
export const IN_TWO_BYTES = 126;
export const IN_EIGHT_BYTES = 127;

/** The type of packet of Engine.IO in which all of Socket.IO's are. */
export const MESSAGE = '4';

/**
 * A websocket frame as a server sends it (RFC 6455, 5.2): whole, text, not masked; head and text in one piece.
 * @param following  bytes of text that are sent right behind it
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
 * Options with which Engine.IO writes this frame, in one or two parts, in place of the packet, as it does a broadcast's.
 * Its types do not name them.
 */
export const framed = (frame: [Buffer] | [Buffer, Buffer]): { compress: boolean } =>
  Object.assign({ compress: false }, { wsPreEncodedFrame: frame });
