import type { ServerResponse } from 'node:http';
import { Readable } from 'node:stream';
import { clock } from '../../clock.ts';
import type { RateLimits } from '../../platform/cluster/rate-limits.ts';
import type { Db } from '../../platform/db/pool.ts';
import { AppError, notFound } from '../../platform/errors.ts';
import { Pace, type Slot, watchPace } from '../../platform/fair-slots.ts';
import { networkOf } from '../../platform/http/client-address.ts';
import type { RawExchange, RawService } from '../../platform/http/http-server.ts';
import { byteRange } from '../../platform/http/stream-answer.ts';
import type { Metrics } from '../../platform/metrics.ts';
import { releaseMemory, type ObjectStorage } from './storage.ts';
import { basicCredential, findAccess, isVisible } from './credentials.ts';
import { type QuotaLimits, StoreQuota } from './quota.ts';
import { discardObject } from './store-objects.ts';
import { MemoryLocks, type StoreParts, Transfers, readSmall, takeObject } from './upload.ts';
import {
  type Action,
  decide,
  type Decision,
  type ObjectName,
  type ObjectType,
  parseStorePath,
  type StoreAccess,
  type StorePath,
  type Target,
} from './store-protocol.ts';
import { forgetObjects, type ListedObject, listObjects } from './store.queries.ts';

const VERSION_1 = 'application/vnd.x.restic.rest.v1';
const VERSION_2 = 'application/vnd.x.restic.rest.v2';

/** A client that takes nothing for so long is gone. */
const PATIENCE_MS = 60_000;
const LOOK_MS = 1000;

/** As restic expects it: only 200 is success, and the body does not matter. */
function answerDone(response: ServerResponse): void {
  response.writeHead(200, { 'Content-Length': 0 }).end();
}

/** The names, with their sizes for clients that ask for version 2; sent page by page. */
async function answerList(
  response: ServerResponse,
  accept: string | undefined,
  pages: AsyncIterable<ListedObject[]>,
): Promise<void> {
  const withSizes = accept === VERSION_2;
  response.writeHead(200, { 'Content-Type': withSizes ? VERSION_2 : VERSION_1 });
  await sendAll(response, Readable.from(listText(pages, withSizes)));
}

async function* listText(pages: AsyncIterable<ListedObject[]>, withSizes: boolean): AsyncGenerator<string> {
  let separator = '[';
  for await (const page of pages) {
    const items = page.map(({ name, size }) => JSON.stringify(withSizes ? { name, size } : name));
    yield separator + items.join(',');
    separator = ',';
  }
  yield separator === '[' ? '[]' : ']';
}

/**
 * Sends a body and ends the answer. The memory of each piece is freed once it is sent: the caller must not use the pieces any more.
 * Should reading fail half-way, the connection is cut, so that a part is not taken for the whole; if the client
 * leaves, this just ends.
 */
async function sendAll(response: ServerResponse, body: Readable, slot?: Slot): Promise<void> {
  if (response.closed) {
    body.destroy();
    return;
  }
  response.setTimeout(PATIENCE_MS, () => response.destroy());
  const stopReading = () => body.destroy();
  response.once('close', stopReading);
  const pace = new Pace();
  slot?.mayBeTaken(pace, () => response.destroy());
  const isStillGoing = watchPace(pace);
  const watch = clock.setInterval(() => {
    if (!isStillGoing(clock.monotonic())) response.destroy();
  }, LOOK_MS);
  try {
    for await (const piece of body as AsyncIterable<Buffer | string>) {
      pace.waits(clock.monotonic());
      if (!(await isSent(response, piece))) return;
      pace.moved(clock.monotonic(), piece.length);
      if (typeof piece !== 'string') releaseMemory(piece);
    }
    response.end();
  } catch (error) {
    if (response.closed) return;
    response.destroy();
    throw error;
  } finally {
    clock.clear(watch);
    response.off('close', stopReading);
    body.destroy();
  }
}

/** When the system has taken the piece, and its memory is free. `false` if the client has left. */
function isSent(response: ServerResponse, piece: Buffer | string): Promise<boolean> {
  return new Promise((resolve) => {
    const onClose = () => resolve(false);
    response.once('close', onClose);
    response.write(piece, (error) => {
      response.off('close', onClose);
      resolve(!error);
    });
  });
}

/** restic's REST protocol (docs/decisions/backup-store.md). */
export function storeService(parts: StoreParts): RawService {
  return async (exchange) => {
    const { request, response } = exchange;
    response.setHeader('Cache-Control', 'no-store');
    const path = parseStorePath(exchange.path);
    const action = actionOf(request.method);
    if (path === undefined || action === undefined) throw notFound('Object');
    const access = await accessOf(parts, exchange, path);
    const decision = decide(access.role, action, path.target);
    if (decision === 'forbid') {
      throw new AppError('forbidden', `This credential may not ${action} here.`);
    }
    if (action === 'read') await read(parts, exchange, access, path.target);
    else if (action === 'write') await write(parts, exchange, access, path.target, decision);
    else await remove(parts, access, path.target, decision);
    if (action !== 'read') answerDone(response);
  };
}

function actionOf(method: string | undefined): Action | undefined {
  switch (method) {
    case 'GET':
    case 'HEAD':
      return 'read';
    case 'POST':
      return 'write';
    case 'DELETE':
      return 'delete';
    default:
      return undefined;
  }
}

/** Throws `unauthenticated`, or `rate_limited` if that was too often. */
async function accessOf(
  { db, failures }: StoreParts,
  { request, response, client }: RawExchange,
  path: StorePath,
): Promise<StoreAccess> {
  const credential = basicCredential(request.headers.authorization);
  const access = credential === undefined ? undefined : await findAccess(db, credential, path);
  if (access !== undefined) return access;
  // A right credential never waits for wrong ones, be they of another device of the same office.
  await failures.take(networkOf(client.ip));
  response.setHeader('WWW-Authenticate', 'Basic realm="backup store"');
  throw new AppError('unauthenticated', 'The credential is not one of this repository, or has ended.');
}

async function read(
  parts: StoreParts,
  exchange: RawExchange,
  access: StoreAccess,
  target: Target,
): Promise<void> {
  const { request, response } = exchange;
  if (target.kind === 'list') {
    const { memoryLocks } = parts;
    const own = target.type === 'locks' ? memoryLocks.list(access) : [];
    // As of a time there is no lock but the reader's own: those of others are of another time.
    const stored =
      target.type === 'locks' && access.role === 'as-of' ? [] : listObjects(parts.db, access, target.type);
    await answerList(response, request.headers.accept, joined(own, stored));
  } else if (target.kind === 'object') {
    await readObject(parts, exchange, access, target);
  }
}

async function* joined(
  own: ListedObject[],
  stored: AsyncIterable<ListedObject[]> | ListedObject[][],
): AsyncGenerator<ListedObject[]> {
  if (own.length > 0) yield own;
  yield* stored;
}

async function readObject(
  parts: StoreParts,
  { request, response, signal }: RawExchange,
  access: StoreAccess,
  object: ObjectName,
): Promise<void> {
  const { storage, transfers } = parts;
  const inMemory = object.type === 'locks' ? parts.memoryLocks.get(access, object.name) : undefined;
  const size = inMemory?.length ?? access.object?.size ?? 0;
  if (inMemory === undefined && !isVisible(access)) throw notFound('Object');
  response.setHeader('Accept-Ranges', 'bytes');
  response.setHeader('Content-Type', 'application/octet-stream');
  if (request.method === 'HEAD') {
    response.writeHead(200, { 'Content-Length': size }).end();
    return;
  }
  const range = byteRange(request.headers.range, size);
  if (range === 'none') {
    response.removeHeader('Content-Type');
    throw new AppError('range_not_satisfiable', 'The object has no such bytes.');
  }
  const wanted = range === 'all' ? undefined : range;
  await transfers.run({ access, signal }, async (slot) => {
    const body =
      inMemory === undefined
        ? await storage.read(
            access.repositoryId,
            { ...object, trashedAt: access.object?.trashedAt ?? null },
            wanted,
          )
        : Readable.from([
            Buffer.from(inMemory.subarray(wanted?.first, wanted === undefined ? undefined : wanted.last + 1)),
          ]);
    if (body === undefined) throw new AppError('unavailable', 'The object is missing in the store.');
    const length = wanted === undefined ? size : wanted.last - wanted.first + 1;
    response.setHeader('Content-Length', length);
    if (wanted !== undefined) {
      response.statusCode = 206;
      response.setHeader('Content-Range', `bytes ${wanted.first}-${wanted.last}/${size}`);
    }
    await sendAll(response, body, slot);
    parts.sent(object.type, length);
  });
}

async function write(
  parts: StoreParts,
  exchange: RawExchange,
  access: StoreAccess,
  target: Target,
  decision: Decision,
): Promise<void> {
  // A repository needs nothing made beforehand.
  if (target.kind !== 'object') return;
  if (decision === 'memory_lock') {
    parts.memoryLocks.put(access, target.name, await readSmall(parts, exchange, access, target.name));
  } else {
    await takeObject(parts, exchange, access, target);
  }
}

/** Removing what is not there is success: restic asks again if the answer was lost. */
async function remove(
  parts: StoreParts,
  access: StoreAccess,
  target: Target,
  decision: Decision,
): Promise<void> {
  if (target.kind !== 'object') return;
  const { db, memoryLocks, storage } = parts;
  const { repositoryId, object: known } = access;
  if (decision === 'memory_lock') memoryLocks.remove(access, target.name);
  if (known === undefined || known.trashedAt !== null) return;
  const isOwn = known.credentialId === access.credentialId;
  if (decision !== 'allow' && !isOwn) {
    throw new AppError('forbidden', 'This lock is not one of this credential.');
  }
  if (target.type === 'locks') {
    await storage.remove(repositoryId, { ...target, trashedAt: null });
    await forgetObjects(db, repositoryId, 'locks', [target.name]);
    return;
  }
  await discardObject(parts, repositoryId, target);
}

/** How often one network may send a wrong credential. */
const FAILURES = { points: 60, seconds: 60 };
const IDLE_MS = 60_000;

export interface BackupStore {
  storage: ObjectStorage;
  /** The quotas that all uploads of this server count in. */
  shares: StoreQuota;
  service: RawService;
}

interface Parts {
  db: Db;
  storage: ObjectStorage;
  quota: QuotaLimits;
  rateLimits: RateLimits;
  metrics: Metrics;
  /** How long a client that is sending an object may pause. */
  idleMs?: number | undefined;
}

export function createStore({
  db,
  storage,
  quota,
  rateLimits,
  metrics,
  idleMs = IDLE_MS,
}: Parts): BackupStore {
  const bytes = metrics.counter(
    'muster_backup_store_bytes_total',
    'Bytes of objects that the backup store has received and sent.',
    ['direction', 'type'],
  );
  const transfers = new Transfers();
  metrics.labelledGauge(
    'muster_backup_store_transfers',
    'Objects that are being transferred, that wait for their turn, and that were refused since the start.',
    'state',
    () => transfers.state,
  );
  const shares = new StoreQuota(db, quota);
  const count = (direction: 'received' | 'sent') => (type: ObjectType, size: number) =>
    bytes.inc({ direction, type }, size);
  return {
    storage,
    shares,
    service: storeService({
      db,
      storage,
      quota: shares,
      transfers,
      memoryLocks: new MemoryLocks(),
      failures: rateLimits.limiter('backup-store-failure', FAILURES),
      idleMs,
      received: count('received'),
      sent: count('sent'),
    }),
  };
}
