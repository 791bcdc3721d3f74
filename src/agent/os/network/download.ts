import type { Readable } from 'node:stream';
import { NetworkError } from './network-error.ts';
import type { Network, NetworkAnswer } from './network.ts';

export interface DownloadOptions {
  url: string;
  /** The address of the agent's own server. The token is sent to it only, also after redirects. */
  server: string;
  token?: string;
  /** Continues an earlier download after this many bytes. */
  from?: number;
  /** The `etag` of the earlier download: where the file has changed since, the answer begins at 0. */
  etag?: string;
  signal?: AbortSignal;
  /** How long the connection may be silent (default 30 s). */
  silentMs?: number;
}

export interface Download {
  /** The position of the first byte in the file: `from`, or 0 where the server sends the whole file. */
  start: number;
  /** The size of the whole file; `undefined` where the server does not report it. */
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
 * `DownloadError` where a server has refused.
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
