import { Readable } from 'node:stream';
import { AppError, notFound } from '../../../../platform/errors.ts';
import { networkOf } from '../../../../platform/http/client-address.ts';
import type { RawExchange, RawService } from '../../../../platform/http/server/raw-service.ts';
import { answerDone, answerList, sendAll } from './answers.ts';
import { byteRange } from '../../../../platform/http/files/byte-range.ts';
import { basicCredential, findAccess, isVisible, type StoreAccess } from '../records/credentials.ts';
import { type ObjectName, parseStorePath, type StorePath, type Target } from '../protocol/object-name.ts';
import { forgetObjects, type ListedObject, listObjects } from '../records/objects.ts';
import { discardObject } from '../records/own-objects.ts';
import { type Action, decide, type Decision } from '../protocol/rights.ts';
import type { StoreParts } from './store-parts.ts';
import { readSmall, takeObject } from './upload.ts';

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

/** Throws `unauthenticated`, or `rate_limited` where that was too often. */
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

/** Removing what is not there is success: restic asks again where the answer was lost. */
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
