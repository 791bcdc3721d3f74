import { mkdir, open, readdir, rm, stat, type FileHandle } from 'node:fs/promises';
import path from 'node:path';
import { clock } from '../../../clock.ts';
import { NetworkError } from '../../os/network/proxy-rules.ts';
import { type Network, type NetworkAnswer, isSecureServer } from '../../os/network/network.ts';
import { hasCode } from '../../os/files/private-file.ts';
import { ReleaseRefused } from '../../os/releases/release-check.ts';
import type { Readable } from 'node:stream';

/** Downloads to a file that is named after its hash. A partial download is kept, and the next attempt continues it. */

export interface WantedFile {
  url: string;
  size: number;
  sha256: string;
  /** The folder for parts. */
  folder: string;
  /** Whether an unencrypted download is allowed; only if the server itself is reached without encryption. */
  allowsHttp: boolean;
  signal: AbortSignal;
}

const SILENT_MS = 60_000;
const TOTAL_MS = 2 * 3_600_000;
const PART = /^[0-9a-f]{64}\.part$/;
const RANGE_NOT_SATISFIABLE = 416;

/** @returns the path of the complete file. Its content is not checked yet. */
export async function downloadFile(network: Network, wanted: WantedFile): Promise<string> {
  const { url, folder, sha256, size, allowsHttp } = wanted;
  if (!isSecureServer(url) && !(URL.parse(url)?.protocol === 'http:' && allowsHttp)) {
    throw new UpdateFault('INSECURE_URL', 'The release was offered at an address without https.', false);
  }
  await mkdir(folder, { recursive: true, mode: 0o700 });
  await removeOtherParts(folder, `${sha256}.part`);
  const file = path.join(folder, `${sha256}.part`);
  const have = (await stat(file).catch(() => undefined))?.size ?? 0;
  if (have === size) return file;
  // No token is sent, because downloads are public. Our server names a file by its hash; if another host names it
  // differently, the download starts again.
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

/** The chunks of the response. A broken connection is reported as a network fault, not as a disk fault. */
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

/** Why an upgrade was not made, with an error code. */
export class UpdateFault extends Error {
  readonly code: string;
  /** True if the fault may be temporary, so that the next try comes soon. */
  readonly isTemporary: boolean;

  constructor(code: string, message: string, isTemporary: boolean) {
    super(message);
    this.name = 'UpdateFault';
    this.code = code;
    this.isTemporary = isTemporary;
  }
}

/** A virus scanner or another program has the file open. This is common on Windows, and temporary. */
const LOCKED = ['EBUSY', 'EPERM', 'EACCES', 'ETXTBSY'];
const FULL = ['ENOSPC', 'EDQUOT', 'EFBIG'];

export function faultOf(error: unknown): UpdateFault {
  if (error instanceof UpdateFault) return error;
  if (error instanceof ReleaseRefused) return new UpdateFault(error.code, error.message, false);
  const message = error instanceof Error ? error.message : String(error);
  if (FULL.some((code) => hasCode(error, code))) {
    return new UpdateFault('NO_SPACE', `The disk is full: ${message}`, true);
  }
  if (LOCKED.some((code) => hasCode(error, code))) {
    return new UpdateFault('FILE_LOCKED', `A file is locked: ${message}`, true);
  }
  return new UpdateFault('FAILED', message, true);
}

interface DownloadOptions {
  url: string;
  /** The address of the agent's own server. The token is sent to it only, also after redirects. */
  server: string;
  token?: string;
  /** Continues an earlier download after this many bytes. */
  from?: number;
  /** The `etag` of the earlier download: if the file has changed since, the response begins at 0. */
  etag?: string;
  signal?: AbortSignal;
  /** How long the connection may be silent (default 30 s). */
  silentMs?: number;
}

interface Download {
  /** The position of the first byte in the file: `from`, or 0 if the server sends the whole file. */
  start: number;
  /** The size of the whole file; `undefined` if the server does not report it. */
  size: number | undefined;
  etag: string | undefined;
  /** Must be read to its end or destroyed. */
  body: Readable;
}

/** A download that a server has refused. */
export class DownloadError extends NetworkError {
  readonly status: number;
  /** How long the server has asked to wait; not limited. */
  readonly retryAfterMs: number | undefined;

  constructor(status: number, message: string, retryAfterMs?: number) {
    super(`HTTP_${status}`, message);
    this.status = status;
    this.retryAfterMs = retryAfterMs;
  }
}

const MAX_REDIRECTS = 5;
const REDIRECTS = new Set([301, 302, 303, 307, 308]);

/**
 * Begins a download and follows redirects, but never from https to http. Rejects with `NetworkError`, and with
 * `DownloadError` if a server has refused.
 */
export async function download(network: Network, options: DownloadOptions): Promise<Download> {
  let url = URL.parse(options.url);
  for (let redirects = 0; url !== null && redirects <= MAX_REDIRECTS; redirects++) {
    if (!/^https?:$/.test(url.protocol)) break;
    const answer = await network.request(url, {
      headers: headersFor(url, options),
      ...(options.signal === undefined ? {} : { signal: options.signal }),
      ...(options.silentMs === undefined ? {} : { silentMs: options.silentMs }),
    });
    if (!REDIRECTS.has(answer.status)) return begun(url, answer, options.from ?? 0);
    answer.body.destroy();
    const next = URL.parse(answer.headers.location ?? '', url.href);
    if (url.protocol === 'https:' && next?.protocol !== 'https:') {
      throw new NetworkError(
        'REDIRECT_REFUSED',
        `${url.host} redirects the download to an unencrypted address.`,
      );
    }
    url = next;
  }
  throw new NetworkError(
    'REDIRECT_REFUSED',
    'The address of the download is invalid, or is redirected too often.',
  );
}

function headersFor(url: URL, { server, token, from = 0, etag }: DownloadOptions): Record<string, string> {
  const isOwn = url.origin === URL.parse(server)?.origin;
  return {
    accept: 'application/octet-stream',
    ...(isOwn && token !== undefined ? { authorization: `Bearer ${token}` } : {}),
    ...(from > 0 ? { range: `bytes=${from}-` } : {}),
    ...(from > 0 && etag !== undefined ? { 'if-range': etag } : {}),
  };
}

function begun({ host }: URL, { status, headers, body }: NetworkAnswer, from: number): Download {
  const { etag } = headers;
  if (status === 200) {
    return { start: 0, size: numberIn(headers['content-length']), etag, body };
  }
  const range = /^bytes (\d+)-\d+\/(\d+|\*)$/.exec(headers['content-range'] ?? '');
  if (status === 206 && range !== null && Number(range[1]) === from && from > 0) {
    return { start: from, size: numberIn(range[2]), etag, body };
  }
  body.destroy();
  if (status === 206) throw new NetworkError('RANGE_INVALID', `${host} sent another part than requested.`);
  const seconds = numberIn(headers['retry-after']);
  throw new DownloadError(
    status,
    `${host} refused the download (status ${status}).`,
    seconds === undefined ? undefined : seconds * 1000,
  );
}

function numberIn(text: string | undefined): number | undefined {
  return text !== undefined && /^\d{1,15}$/.test(text) ? Number(text) : undefined;
}
