import { connect, type Socket } from 'node:net';
import type { ReadAt } from '../read-disk.ts';

/** Reads a disk that a program serves by the NBD protocol on a socket of this machine (fixed newstyle, simple replies). */

const GREETING = Buffer.from('NBDMAGICIHAVEOPT');
const OPTION_MAGIC = GREETING.subarray(8);
const OPTION_REPLY = 0x3e889045565a9n;
const REQUEST = 0x25609513;
const REPLY = 0x67446698;
const FIXED_NEWSTYLE = 1;
const NO_ZEROES = 2;
const OPTION_GO = 7;
const READ = 0;
const DISCONNECT = 2;
const ACKNOWLEDGED = 1;
const INFO = 3;
const INFO_EXPORT = 0;
/** The longest accepted reply to an option. */
const OPTION_DATA_MAX = 4096;
const PIECE_BYTES = 1024 * 1024;

export interface NbdDisk {
  sizeBytes: number;
  /** Returns fewer bytes at the end of the disk. */
  read: ReadAt;
  close(): void;
}

/** Throws if the server speaks another protocol, or has no such export. */
export async function openNbd(socketPath: string, signal: AbortSignal): Promise<NbdDisk> {
  const socket = connect(socketPath);
  const end = () => socket.destroy(new Error('The disk is read no more.'));
  signal.addEventListener('abort', end, { once: true });
  const take = takeFrom(socket);
  const close = () => {
    signal.removeEventListener('abort', end);
    socket.destroy();
  };
  try {
    signal.throwIfAborted();
    const sizeBytes = await chooseExport(socket, take);
    return {
      sizeBytes,
      read: (offset, length) =>
        readAll(socket, take, { offset, length: Math.min(length, sizeBytes - offset) }),
      close() {
        if (socket.writable) socket.write(request(DISCONNECT, 0, 0));
        close();
      },
    };
  } catch (error) {
    close();
    throw error;
  }
}

type Take = (length: number) => Promise<Buffer>;

/** Exactly this many of the next bytes. Only one call at a time. */
function takeFrom(socket: Socket): Take {
  const held: { parts: Buffer[]; bytes: number } = { parts: [], bytes: 0 };
  let failure: Error | undefined;
  let wake = () => {};
  socket.on('data', (bytes) => {
    held.parts.push(bytes);
    held.bytes += bytes.length;
    // Pause reading, so that unrequested data waits at the sender.
    if (held.bytes > 4 * PIECE_BYTES) socket.pause();
    wake();
  });
  const fail = (error: Error) => {
    failure ??= error;
    wake();
  };
  socket.on('error', fail);
  socket.on('close', () => fail(new Error('The program that serves the disk has ended.')));
  const arrive = async (length: number): Promise<void> => {
    if (held.bytes >= length) return;
    if (failure !== undefined) throw failure;
    const woken = new Promise<void>((resolve) => (wake = resolve));
    socket.resume();
    await woken;
    return arrive(length);
  };
  return async (length) => {
    await arrive(length);
    const [first = Buffer.alloc(0)] = held.parts;
    const all = held.parts.length === 1 ? first : Buffer.concat(held.parts);
    held.parts = all.length === length ? [] : [all.subarray(length)];
    held.bytes -= length;
    return all.subarray(0, length);
  };
}

async function chooseExport(socket: Socket, take: Take): Promise<number> {
  const greeting = await take(18);
  const flags = greeting.readUInt16BE(16);
  if (!greeting.subarray(0, 16).equals(GREETING) || (flags & FIXED_NEWSTYLE) === 0) {
    throw new Error('The program does not serve the disk as NBD.');
  }
  const hello = Buffer.alloc(4);
  hello.writeUInt32BE(FIXED_NEWSTYLE | (flags & NO_ZEROES));
  // The default export, with no further information.
  const data = Buffer.alloc(6);
  const option = Buffer.alloc(16);
  OPTION_MAGIC.copy(option);
  option.writeUInt32BE(OPTION_GO, 8);
  option.writeUInt32BE(data.length, 12);
  socket.write(Buffer.concat([hello, option, data]));
  let size: bigint | undefined;
  for (;;) {
    const head = await take(20);
    const [kind, length] = [head.readUInt32BE(12), head.readUInt32BE(16)];
    if (head.readBigUInt64BE(0) !== OPTION_REPLY || length > OPTION_DATA_MAX) {
      throw new Error('The program does not serve the disk as NBD.');
    }
    const answer = await take(length);
    if (kind === ACKNOWLEDGED) break;
    if (kind !== INFO) throw new Error(`The program refuses to serve the disk (${kind}).`);
    const isSize = length >= 10 && answer.readUInt16BE(0) === INFO_EXPORT;
    if (isSize) size = answer.readBigUInt64BE(2);
  }
  if (size === undefined || size > BigInt(Number.MAX_SAFE_INTEGER)) {
    throw new Error('The program names no size of the disk.');
  }
  return Number(size);
}

async function readAll(
  socket: Socket,
  take: Take,
  { offset, length }: { offset: number; length: number },
): Promise<Buffer> {
  const pieces: Buffer[] = [];
  for (let done = 0; done < length; done += PIECE_BYTES) {
    const wanted = Math.min(PIECE_BYTES, length - done);
    socket.write(request(READ, offset + done, wanted));
    const reply = await take(16);
    if (reply.readUInt32BE(0) !== REPLY) throw new Error('The program does not serve the disk as NBD.');
    const fault = reply.readUInt32BE(4);
    if (fault !== 0) throw new Error(`The disk cannot be read at byte ${offset + done} (error ${fault}).`);
    pieces.push(await take(wanted));
  }
  return Buffer.concat(pieces);
}

function request(type: number, offset: number, length: number): Buffer {
  const bytes = Buffer.alloc(28);
  bytes.writeUInt32BE(REQUEST, 0);
  bytes.writeUInt16BE(type, 6);
  bytes.writeBigUInt64BE(BigInt(offset), 16);
  bytes.writeUInt32BE(length, 24);
  return bytes;
}
