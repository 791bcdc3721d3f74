import { MessageChannel } from 'node:worker_threads';

/** Smaller buffers may share the memory of Node's pool, and are collected cheaply. */
const RELEASED_MIN_BYTES = 16 << 10;

/** Messages to a port whose other end is closed are dropped at once, with the memory that was transferred to them. */
const { port1: nowhere, port2: closed } = new MessageChannel();
closed.close();
nowhere.unref();

/**
 * Frees the memory of a buffer now; the buffer is empty afterwards. Only for the one who owns the buffer and has finished
 * with it: nothing may read it any more, neither the kernel nor a stream. A buffer that shares its memory is left as it is.
 *
 * Where gigabytes pass through, this saves half of the processor time: V8 counts the memory of buffers, and marks its
 * whole heap each time another 64 MiB of them wait to be collected.
 */
export function releaseMemory({ buffer, byteOffset, byteLength }: Uint8Array): void {
  const isWhole = byteOffset === 0 && byteLength === buffer.byteLength;
  if (!isWhole || byteLength < RELEASED_MIN_BYTES || !(buffer instanceof ArrayBuffer)) return;
  nowhere.postMessage(undefined, [buffer]);
}
