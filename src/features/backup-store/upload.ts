import { createHash } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import { clock } from '../../clock.ts';
import { AppError } from '../../platform/errors.ts';
import { Pace, type Slot, watchPace, FairSlots } from '../../platform/fair-slots.ts';
import { liftRequestLimit, type RawExchange } from '../../platform/http/http-server.ts';
import { releaseMemory, type Announced, checkedBytes, notAnnounced, type ObjectStorage } from './storage.ts';
import { isVisible } from './credentials.ts';
import {
  LARGEST,
  type ObjectName,
  type StoreAccess,
  WRITES_AS_DEVICE,
  type ObjectType,
} from './store-protocol.ts';
import { claimSnapshot, recordObject, type ListedObject } from './store.queries.ts';
import type { RateLimiter } from '../../platform/cluster/rate-limits.ts';
import type { Db } from '../../platform/db/pool.ts';
import type { StoreQuota } from './quota.ts';

/**
 * Takes an object. It counts once it is on the disk, is what its name says, and is recorded; only then is it answered.
 * An object that is there already is read and compared, and answered the same: restic sends it again if the answer
 * was lost.
 */
export async function takeObject(
  parts: StoreParts,
  { request, signal }: RawExchange,
  access: StoreAccess,
  object: ObjectName,
): Promise<void> {
  const { db, quota, storage, transfers } = parts;
  const isDevice = WRITES_AS_DEVICE.has(access.role);
  if (isDevice && access.isPruning) throw beingPruned();
  const size = announcedSize(request, LARGEST[object.type]);
  const isOneOnly = access.role === 'device' && object.type === 'snapshots';
  if (isOneOnly && !(await claimSnapshot(db, access.credentialId, object.name))) {
    throw new AppError(
      'forbidden',
      'This credential has created its snapshot. The next one needs another job.',
    );
  }
  const announced = { size, sha256: object.type === 'config' ? undefined : object.name };
  liftRequestLimit(request);
  const pieces = (slot: Slot) => bodyOf(request, { idleMs: parts.idleMs, until: access.expiresAt, slot });
  const transfer = { access, signal };

  if (isVisible(access)) {
    await transfers.run(transfer, (slot) => assertSame(parts, access, object, pieces(slot), announced));
    return;
  }
  // A store that is full has to be pruned, and what the server writes for that beside packs is small.
  const mayExceed = access.role === 'server' && object.type !== 'data';
  if (!mayExceed) await storage.assertRoom(size);
  const reservation = await quota.reserve(access, size, { mayExceed });
  let isStored = false;
  try {
    const outcome = await transfers.run(transfer, (slot) =>
      storage.write(access.repositoryId, object, pieces(slot), announced),
    );
    isStored = await recordObject(db, access, { ...object, size });
    if (!isStored) {
      // Its credential has ended meanwhile, or a prune has begun.
      if (outcome === 'written') await storage.remove(access.repositoryId, { ...object, trashedAt: null });
      throw isDevice && object.type !== 'locks' ? beingPruned() : endedMeanwhile();
    }
    await afterRevival(parts, access, object);
    parts.received(object.type, size);
  } finally {
    reservation.end(isStored);
  }
}

/**
 * Checks that an object is stored that was in the trash or was just being moved there, and removes the copy in the
 * trash.
 */
async function afterRevival({ storage }: StoreParts, access: StoreAccess, object: ObjectName): Promise<void> {
  const { repositoryId } = access;
  if (!(await storage.has(repositoryId, object))) throw new AppError('unavailable', 'Send the object again.');
  const trashedAt = access.object?.trashedAt ?? null;
  if (trashedAt !== null && storage.kind === 'folder') {
    await storage.remove(repositoryId, { ...object, trashedAt });
  }
}

async function assertSame(
  { storage }: StoreParts,
  { repositoryId }: StoreAccess,
  object: ObjectName,
  pieces: AsyncIterable<Buffer>,
  announced: Announced,
): Promise<void> {
  if (object.type !== 'config') {
    for await (const piece of checkedBytes(pieces, announced)) void piece;
    return;
  }
  const sent = createHash('sha256');
  for await (const piece of checkedBytes(pieces, announced)) sent.update(piece);
  const stored = createHash('sha256');
  const content = await storage.read(repositoryId, { ...object, trashedAt: null }, undefined);
  for await (const piece of content ?? []) stored.update(piece as Buffer);
  if (!sent.digest().equals(stored.digest())) {
    throw new AppError('forbidden', 'The repository has another configuration, which nothing replaces.');
  }
}

/** Reads a lock, which stays in memory: it is small, and announced so. */
export async function readSmall(
  parts: StoreParts,
  { request }: RawExchange,
  access: StoreAccess,
  name: string,
) {
  const size = announcedSize(request, LARGEST.locks);
  const pieces: Buffer[] = [];
  const body = bodyOf(request, { idleMs: parts.idleMs, until: access.expiresAt });
  for await (const piece of checkedBytes(body, { size, sha256: name })) {
    pieces.push(Buffer.from(piece));
  }
  return Buffer.concat(pieces);
}

const beingPruned = () =>
  new AppError('unavailable', 'The repository is being pruned, or the job has ended.', {
    retryAfterMs: 30_000,
  });

const endedMeanwhile = () => new AppError('forbidden', 'The credential has ended, or has too many locks.');

/** Throws unless the request says how long its body is, and that is no more than `limit`. */
function announcedSize(request: IncomingMessage, limit: number): number {
  const announced = request.headers['content-length'];
  if (announced === undefined) {
    throw new AppError('validation_failed', 'Send the size of the object as Content-Length.');
  }
  const size = Number(announced);
  if (size > limit) {
    throw new AppError('payload_too_large', `Objects of this kind have at most ${limit} bytes.`);
  }
  return size;
}

interface Patience {
  /** How long the client may send nothing. */
  idleMs: number;
  /** When its right to write ends. */
  until: Date;
  /** The slot of a transfer that shares a limit with others. */
  slot?: Slot | undefined;
}

/**
 * The body as it arrives. The next piece is asked for when the last one was dealt with, so no more is in memory. Each
 * piece is valid until the next one is asked for.
 */
export async function* bodyOf(
  request: IncomingMessage,
  { idleMs, until, slot }: Patience,
): AsyncGenerator<Buffer> {
  // The time that the disk takes is not the client's.
  let waitingSince: number | undefined = clock.monotonic();
  const pace = new Pace();
  pace.waits(waitingSince);
  slot?.mayBeTaken(pace, () => request.destroy());
  const isStillGoing = watchPace(pace);
  const watch = clock.setInterval(
    () => {
      const now = clock.monotonic();
      const isIdle = waitingSince !== undefined && now - waitingSince > idleMs;
      if (isIdle || !isStillGoing(now) || clock.now() > until.getTime()) request.destroy();
    },
    Math.min(1000, idleMs / 2),
  );
  try {
    for await (const piece of request.iterator({ destroyOnReturn: false }) as AsyncIterable<Buffer>) {
      waitingSince = undefined;
      pace.moved(clock.monotonic(), piece.length);
      yield piece;
      releaseMemory(piece);
      waitingSince = clock.monotonic();
      pace.waits(waitingSince);
    }
  } catch (error) {
    if (request.complete) throw error;
    throw notAnnounced('The upload broke off.');
  } finally {
    clock.clear(watch);
    request.resume();
  }
}

/** restic's own number of connections. */
const OF_REPOSITORY = 5;
const OF_ALL = 160;
/** Longer than a slow transfer keeps its slot while others wait. */
const WAIT_MS = 90_000;
const RETRY_AFTER_MS = 5000;
/** Bytes in a second: a line of 320 kbit/s, over restic's connections. */
const LEAST_RATE = 8 * 1024;

/** Shares out the objects that are sent or received at once, so that no device and no tenant keeps others out. */
export class Transfers {
  readonly #slots = new FairSlots({
    all: OF_ALL,
    waitMs: WAIT_MS,
    waitingMax: { all: 10 * OF_ALL, widest: 2 * OF_ALL },
    leastRate: LEAST_RATE,
    refusal: () =>
      new AppError('rate_limited', 'Too many objects are being transferred at once.', {
        retryAfterMs: RETRY_AFTER_MS,
      }),
  });

  get state(): { running: number; waiting: number; refused: number } {
    return this.#slots.state;
  }

  /** Throws `rate_limited` if the transfer does not get its turn in time. */
  run<T>(
    {
      access,
      signal,
    }: { access: Pick<StoreAccess, 'repositoryId' | 'orgId' | 'partnerId'>; signal: AbortSignal },
    work: (slot: Slot) => Promise<T>,
  ): Promise<T> {
    const { repositoryId, orgId, partnerId } = access;
    return this.#slots.run(
      {
        levels: [`partner ${partnerId}`, `organization ${orgId}`],
        leaf: { key: `repository ${repositoryId}`, max: OF_REPOSITORY, waitingMax: 2 * OF_REPOSITORY },
      },
      work,
      { signal },
    );
  }
}

/** restic keeps one lock for each of its processes, and has two for a moment while it renews it. */
const LOCKS_MAX = 16;
const CREDENTIALS_MAX = 10_000;

/**
 * The locks of those who only read. restic insists on writing one and on finding it again; others need not see it. A
 * server that restarts forgets them, and restic does not mind.
 */
export class MemoryLocks {
  readonly #locks = new Map<string, { until: Date; locks: Map<string, Buffer> }>();

  put({ credentialId, expiresAt }: StoreAccess, name: string, content: Buffer): void {
    const { locks } = this.#locks.get(credentialId) ?? { locks: new Map<string, Buffer>() };
    if (!locks.has(name) && locks.size >= LOCKS_MAX) {
      throw new AppError('rate_limited', 'This credential has too many locks.');
    }
    locks.set(name, content);
    this.#locks.set(credentialId, { until: expiresAt, locks });
    if (this.#locks.size > CREDENTIALS_MAX) this.#removeExpired();
  }

  get({ credentialId }: StoreAccess, name: string): Buffer | undefined {
    return this.#locks.get(credentialId)?.locks.get(name);
  }

  remove({ credentialId }: StoreAccess, name: string): void {
    const own = this.#locks.get(credentialId);
    own?.locks.delete(name);
    if (own?.locks.size === 0) this.#locks.delete(credentialId);
  }

  list({ credentialId }: StoreAccess): ListedObject[] {
    const locks = this.#locks.get(credentialId)?.locks ?? [];
    return [...locks].map(([name, { length: size }]) => ({ name, size }));
  }

  #removeExpired(): void {
    for (const [id, { until }] of this.#locks) if (until < clock.date()) this.#locks.delete(id);
  }
}

/** The parts that requests of the store use. */
export interface StoreParts {
  /** A pool of its own: a fleet that backs up must not take the connections of people. */
  db: Db;
  storage: ObjectStorage;
  quota: StoreQuota;
  transfers: Transfers;
  memoryLocks: MemoryLocks;
  /** Counts credentials that are wrong, by where they come from. */
  failures: Pick<RateLimiter, 'take'>;
  /** How long a client that is sending an object may pause. */
  idleMs: number;
  received: (type: ObjectType, bytes: number) => void;
  sent: (type: ObjectType, bytes: number) => void;
}
