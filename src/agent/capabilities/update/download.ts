import { mkdir, open, readdir, rm, stat, type FileHandle } from 'node:fs/promises';
import path from 'node:path';
import { clock } from '../../../clock.ts';
import { type Download, download, DownloadError } from '../../os/network/download.ts';
import { NetworkError } from '../../os/network/network-error.ts';
import type { Network } from '../../os/network/network.ts';
import { isSecureServer } from '../../os/network/secure-server.ts';
import { UpdateFault } from './update-fault.ts';

/** Downloads to a file that is named after its hash. What was downloaded stays, and the next attempt goes on from there. */

export interface WantedFile {
  url: string;
  size: number;
  sha256: string;
  /** The folder for parts. */
  folder: string;
  /** Whether an unencrypted download is allowed; the server itself is reached so then. */
  allowsHttp: boolean;
  signal: AbortSignal;
}

const SILENT_MS = 60_000;
const TOTAL_MS = 2 * 3_600_000;
const PART = /^[0-9a-f]{64}\.part$/;
const RANGE_NOT_SATISFIABLE = 416;

/** @returns the path of the complete file, whose content nobody has checked yet */
export async function bringDownload(network: Network, wanted: WantedFile): Promise<string> {
  const { url, folder, sha256, size, allowsHttp } = wanted;
  if (!isSecureServer(url) && !(URL.parse(url)?.protocol === 'http:' && allowsHttp)) {
    throw new UpdateFault('INSECURE_URL', 'The release was offered at an address without https.', false);
  }
  await mkdir(folder, { recursive: true, mode: 0o700 });
  await removeOtherParts(folder, `${sha256}.part`);
  const file = path.join(folder, `${sha256}.part`);
  const have = (await stat(file).catch(() => undefined))?.size ?? 0;
  if (have === size) return file;
  // No token is sent, because downloads are public. Our server names a file by its hash; where another host names it
  // otherwise, the download begins anew.
  const from = have > size ? 0 : have;
  const bring = async (signal: AbortSignal) => {
    const request = { url, server: '', from, etag: `"${sha256}"`, signal, silentMs: SILENT_MS };
    await save(file, await download(network, request), size);
  };
  try {
    await clock.limit(TOTAL_MS, bring, wanted.signal);
  } catch (error) {
    if (error instanceof DownloadError && error.status === RANGE_NOT_SATISFIABLE) {
      await rm(file, { force: true });
    }
    if (error instanceof NetworkError) throw new UpdateFault('DOWNLOAD_FAILED', error.message, true);
    throw error;
  }
  return file;
}

async function save(file: string, { start, size: announced, body }: Download, size: number): Promise<void> {
  if (announced !== undefined && announced !== size) {
    body.destroy();
    throw sizeMismatch(`The download has ${announced} bytes; the release has ${size}.`);
  }
  const handle = await open(file, start > 0 ? 'r+' : 'w', 0o600);
  try {
    let position = start;
    for await (const chunk of received(body)) position = await write(handle, chunk, position, size);
    await handle.sync();
    if (position < size) throw new UpdateFault('DOWNLOAD_FAILED', 'The download ended early.', true);
  } finally {
    body.destroy();
    await handle.close();
  }
}

/** The chunks of the answer. A connection that breaks is a fault of the network, and not of the disk. */
async function* received(body: Download['body']): AsyncGenerator<Buffer> {
  try {
    for await (const chunk of body) yield chunk as Buffer;
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw new UpdateFault('DOWNLOAD_FAILED', `The download was cut off: ${reason}.`, true);
  }
}

async function write(handle: FileHandle, chunk: Buffer, position: number, size: number): Promise<number> {
  if (position + chunk.length > size) {
    await handle.truncate(0);
    throw sizeMismatch(`The download is longer than ${size} bytes.`);
  }
  let written = 0;
  while (written < chunk.length) {
    const { bytesWritten } = await handle.write(chunk, written, chunk.length - written, position + written);
    written += bytesWritten;
  }
  return position + written;
}

const sizeMismatch = (message: string) => new UpdateFault('SIZE_MISMATCH', message, false);

async function removeOtherParts(folder: string, own: string): Promise<void> {
  for (const name of await readdir(folder)) {
    if (PART.test(name) && name !== own) await rm(path.join(folder, name), { force: true });
  }
}
