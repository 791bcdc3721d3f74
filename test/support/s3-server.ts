import { createHash, createHmac, randomUUID } from 'node:crypto';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

/**
 * As much of S3 as an upload needs, which believes nobody: it works out each signature itself (Signature Version 4, by
 * its specification and without the client's library), and compares the hashes of each body. `onCall` lets tests break it.
 */
export interface S3Server {
  url: string;
  objects: Map<string, Buffer>;
  /** Uploads begun and neither completed nor given up. */
  uploads: Map<string, Map<number, Buffer>>;
  /** Each call as `PUT`, `PUT part`, `POST begin`, `POST complete`, `GET` or `DELETE`. */
  calls: string[];
  /** Called with each call that is in order. */
  onCall: ((call: S3Call) => Fault | undefined | Promise<Fault | undefined>) | undefined;
  close(): Promise<void>;
}

export interface S3Call {
  name: string;
  count: number;
}

/** `break`: the connection ends without an answer; `damage`: what is stored or given is another. */
export type Fault = 'break' | 'damage' | 'error in 200' | 'too small' | { status: number; code: string };

export const S3_KEYS = { accessKeyId: 'test-key-id', secretAccessKey: 'test/secret+key=' };
export const S3_REGION = 'test-region-1';

class Refused extends Error {
  readonly status: number;

  constructor(status: number, code: string) {
    super(code);
    this.status = status;
  }
}

export async function startS3Server({ bucket = 'archive' } = {}): Promise<S3Server> {
  const self: Omit<S3Server, 'url' | 'close'> = {
    objects: new Map(),
    uploads: new Map(),
    calls: [],
    onCall: undefined,
  };
  const server = createServer((request, response) => {
    void answer(self, bucket, request, response).catch((error: unknown) => {
      if (response.destroyed) return;
      const [status, code] =
        error instanceof Refused ? [error.status, error.message] : [500, 'InternalError'];
      response.writeHead(status).end(`<?xml version="1.0"?><Error><Code>${code}</Code></Error>`);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  return Object.assign(self, {
    url: `http://127.0.0.1:${port}`,
    close: () =>
      new Promise<void>((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  });
}

async function answer(
  self: Omit<S3Server, 'url' | 'close'>,
  bucket: string,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  const body = Buffer.concat(chunks);
  const url = new URL(request.url ?? '', 'http://s3');
  checkSignature(request, url, body);
  const [, named, ...rest] = url.pathname.split('/');
  if (named !== bucket) throw new Refused(404, 'NoSuchBucket');
  const key = rest.join('/');
  const uploadId = url.searchParams.get('uploadId');
  const name = nameOf(request.method ?? '', url.searchParams);
  self.calls.push(name);
  const fault = await self.onCall?.({ name, count: self.calls.filter((one) => one === name).length });
  if (fault === 'break') return void response.destroy();
  if (typeof fault === 'object') throw new Refused(fault.status, fault.code);
  const kept = fault === 'damage' ? Buffer.concat([body.subarray(1), Buffer.from('?')]) : body;
  const parts = uploadId === null ? undefined : self.uploads.get(uploadId);
  if (uploadId !== null && parts === undefined) throw new Refused(404, 'NoSuchUpload');

  if (name === 'LIST') return void response.end(listOf(self, url.searchParams));
  if (name === 'HEAD') {
    const size = self.objects.get(key)?.length;
    if (size === undefined) return void response.writeHead(404).end();
    return void response.writeHead(200, { 'content-length': size }).end();
  }
  if (name === 'PUT') {
    const isNew = !self.objects.has(key);
    if (request.headers['if-none-match'] === '*' && !isNew) throw new Refused(412, 'PreconditionFailed');
    const checksum = request.headers['x-amz-checksum-sha256'];
    if (checksum !== undefined && checksum !== Buffer.from(sha256(body), 'hex').toString('base64')) {
      throw new Refused(400, 'BadDigest');
    }
    self.objects.set(key, kept);
  } else if (name === 'POST begin') {
    const id = randomUUID();
    self.uploads.set(id, new Map());
    return void response.end(
      `<?xml version="1.0"?><InitiateMultipartUploadResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Bucket>${bucket}</Bucket><Key>${key}</Key><UploadId>${id}</UploadId></InitiateMultipartUploadResult>`,
    );
  } else if (name === 'PUT part') parts?.set(Number(url.searchParams.get('partNumber')), kept);
  else if (name === 'POST complete') {
    if (fault === 'error in 200') {
      return void response.end('<?xml version="1.0"?>\n<Error><Code>InternalError</Code></Error>');
    }
    const told = [...body.toString().matchAll(/<PartNumber>(\d+)<\/PartNumber><ETag>"([0-9a-f]+)"<\/ETag>/g)];
    const whole = told.map(([, number, etag]) => {
      const part = parts?.get(Number(number));
      if (part === undefined || md5(part) !== etag) throw new Refused(400, 'InvalidPart');
      return part;
    });
    if (whole.slice(0, -1).some((part) => part.length < 5 << 20)) throw new Refused(400, 'EntityTooSmall');
    self.objects.set(key, Buffer.concat(whole));
    self.uploads.delete(uploadId ?? '');
    return void response.end(
      '<?xml version="1.0"?><CompleteMultipartUploadResult><ETag>"x-1"</ETag></CompleteMultipartUploadResult>',
    );
  } else if (name === 'DELETE') {
    if (uploadId === null) self.objects.delete(key);
    else self.uploads.delete(uploadId);
  } else if (name === 'GET') {
    const object = self.objects.get(key);
    if (object === undefined) throw new Refused(404, 'NoSuchKey');
    const [, first, last = ''] = /^bytes=(\d+)-(\d*)$/.exec(request.headers.range ?? '') ?? [];
    if (first !== undefined) {
      const end = last === '' ? object.length : Number(last) + 1;
      return void response.writeHead(206).end(object.subarray(Number(first), end));
    }
    return void response.end(fault === 'too small' ? object.subarray(0, -1) : object);
  }
  response.setHeader('etag', `"${md5(kept)}"`);
  response.end();
}

/** A page of two, so that every list takes several. */
function listOf({ objects }: Pick<S3Server, 'objects'>, query: URLSearchParams): string {
  const after = query.get('continuation-token') ?? '';
  const keys = [...objects.keys()]
    .filter((key) => key.startsWith(query.get('prefix') ?? '') && key > after)
    .toSorted((a, b) => (a < b ? -1 : 1));
  const page = keys.slice(0, 2);
  const contents = page.map(
    (key) =>
      `<Contents><Key>${key}</Key><LastModified>2026-01-02T03:04:05.000Z</LastModified><Size>${objects.get(key)?.length}</Size></Contents>`,
  );
  const next = keys.length > 2 ? `<NextContinuationToken>${page.at(-1)}</NextContinuationToken>` : '';
  return `<?xml version="1.0"?><ListBucketResult>${contents.join('')}${next}</ListBucketResult>`;
}

function nameOf(method: string, query: URLSearchParams): string {
  if (query.has('list-type')) return 'LIST';
  if (method === 'POST') return query.has('uploads') ? 'POST begin' : 'POST complete';
  return query.has('partNumber') ? `${method} part` : method;
}

const md5 = (bytes: Buffer) => createHash('md5').update(bytes).digest('hex');
const sha256 = (bytes: Buffer | string) => createHash('sha256').update(bytes).digest('hex');
const hmac = (key: Buffer | string, text: string) => createHmac('sha256', key).update(text).digest();

function checkSignature(request: IncomingMessage, url: URL, body: Buffer): void {
  const headers = request.headers;
  if (url.searchParams.has('X-Amz-Signature')) return checkSignedUrl(request, url);
  const told =
    /^AWS4-HMAC-SHA256 Credential=([^/]+)\/(\d{8})\/([^/]+)\/s3\/aws4_request, ?SignedHeaders=([^,]+), ?Signature=([0-9a-f]{64})$/.exec(
      headers.authorization ?? '',
    );
  if (told === null) throw new Refused(403, 'AccessDenied');
  const [, keyId = '', day = '', region = '', signedHeaders = '', signature] = told;
  if (keyId !== S3_KEYS.accessKeyId) throw new Refused(403, 'InvalidAccessKeyId');
  if (region !== S3_REGION) throw new Refused(400, 'AuthorizationHeaderMalformed');
  const names = signedHeaders.split(';');
  for (const must of ['host', 'x-amz-content-sha256', 'x-amz-date']) {
    if (!names.includes(must)) throw new Refused(403, 'SignatureDoesNotMatch');
  }
  const at = String(headers['x-amz-date']);
  const hash = String(headers['x-amz-content-sha256']);
  const canonical = [
    request.method,
    url.pathname,
    queryOf(url.searchParams),
    ...names.map((name) => `${name}:${String(headers[name]).trim()}`),
    '',
    signedHeaders,
    hash,
  ].join('\n');
  assertSigned({ day, region, at, canonical }, signature);
  if (hash !== sha256(body)) throw new Refused(400, 'XAmzContentSHA256Mismatch');
  const md5Told = headers['content-md5'];
  if (md5Told !== undefined && md5Told !== Buffer.from(md5(body), 'hex').toString('base64')) {
    throw new Refused(400, 'BadDigest');
  }
}

/** A URL that carries its signature, for a while: only the host is signed with it. */
function checkSignedUrl({ method, headers }: IncomingMessage, url: URL): void {
  const query = new URLSearchParams(url.searchParams);
  const signature = query.get('X-Amz-Signature');
  query.delete('X-Amz-Signature');
  const [keyId = '', day = '', region = ''] = (query.get('X-Amz-Credential') ?? '').split('/');
  const at = query.get('X-Amz-Date') ?? '';
  const begun = Date.parse(at.replace(/^(....)(..)(..T..)(..)(..Z)$/, '$1-$2-$3:$4:$5'));
  if (keyId !== S3_KEYS.accessKeyId) throw new Refused(403, 'InvalidAccessKeyId');
  const isOver = !(Date.now() < begun + Number(query.get('X-Amz-Expires')) * 1000);
  if (isOver) throw new Refused(403, 'AccessDenied');
  const canonical = [
    method,
    url.pathname,
    queryOf(query),
    `host:${headers.host}`,
    '',
    'host',
    'UNSIGNED-PAYLOAD',
  ].join('\n');
  assertSigned({ day, region, at, canonical }, signature ?? '');
}

const queryOf = (query: URLSearchParams): string =>
  [...query]
    .map(([name, value]) => `${encodeURIComponent(name)}=${encodeURIComponent(value)}`)
    .toSorted()
    .join('&');

function assertSigned(
  { day, region, at, canonical }: Record<'day' | 'region' | 'at' | 'canonical', string>,
  signature: string | undefined,
): void {
  const scope = `${day}/${region}/s3/aws4_request`;
  const text = ['AWS4-HMAC-SHA256', at, scope, sha256(canonical)].join('\n');
  let key = hmac(`AWS4${S3_KEYS.secretAccessKey}`, day);
  for (const step of [region, 's3', 'aws4_request']) key = hmac(key, step);
  if (hmac(key, text).toString('hex') !== signature) throw new Refused(403, 'SignatureDoesNotMatch');
}
