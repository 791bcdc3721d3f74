import { Buffer } from 'node:buffer';
import { createHash } from 'node:crypto';
import { liftRequestLimit } from '../../../../platform/http/server/http-server.ts';
import type { Slot } from '../../../../platform/fair-slots.ts';
import type { RawExchange } from '../../../../platform/http/server/raw-service.ts';
import { AppError } from '../../../../platform/errors.ts';
import { isVisible, type StoreAccess } from '../records/credentials.ts';
import { checkedBytes } from '../storage/object-bytes.ts';
import { LARGEST, type ObjectName } from '../protocol/object-name.ts';
import { claimSnapshot, recordObject } from '../records/objects.ts';
import { WRITES_AS_DEVICE } from '../protocol/rights.ts';
import { announcedSize, bodyOf } from './request-body.ts';
import type { Announced } from '../storage/storage.ts';
import type { StoreParts } from './store-parts.ts';

/**
 * Takes an object. It counts once it is on the disk, is what its name says, and is recorded; only then is it answered.
 * An object that is there already is read and compared, and answered the same: restic sends it again where the answer
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

/** Of an object that was in the trash, or that was just being moved there. */
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

/** Of a lock that stays in memory: small, and announced so. */
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
