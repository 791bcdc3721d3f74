import { createCipheriv, createDecipheriv, hkdfSync, randomBytes, createHash } from 'node:crypto';
import { buffer } from 'node:stream/consumers';
import type { Db } from '../../platform/db/pool.ts';
import { type Tx, withTenant, withSystem } from '../../platform/db/transaction.ts';
import { AppError } from '../../platform/errors.ts';
import { newId } from '../../platform/ids.ts';
import type { Encryptor } from '../../platform/secrets/sealed.ts';
import type { ObjectStorage, StoreQuota } from '../backup-store/index.ts';
import { encryptionKeys } from '../backup/index.ts';
import { organizationScope } from '../groups/index.ts';
import {
  type PartRow,
  PARTS_AT_ONCE,
  partsOf,
  REMOVED_AT_ONCE,
  CLEAN_UP_STEPS,
  fillTexts,
  runStep,
  obsoletePacks,
} from './content-store.queries.ts';
import { z } from 'zod';
import { defineJob } from '../../platform/jobs/definition.ts';
import type { Jobs } from '../../platform/jobs/jobs.ts';
import type { Logger } from '../../platform/logger.ts';

/** Dependencies of writing and reading the content of items. */
export interface ContentParts {
  db: Db;
  secrets: Encryptor;
  backupStore: { storage: ObjectStorage; shares: StoreQuota };
}

/** Destination of content: the organization and its key. */
interface ContentPlace {
  orgId: string;
  partnerId: string;
  encryptionKeyId: string;
}

/** Maximum size of a part. Smaller contents have one part. */
const PART_BYTES = 4 << 20;

/** Pending parts are written at this size. */
const PACK_BYTES = 8 << 20;

/** A part that is stored, or will be by the next `flush`. */
interface Part {
  sha256: Buffer;
  bytes: number;
  /** Set until it is stored. */
  content: Buffer | undefined;
  blobId: string | undefined;
}

export interface StoredContent {
  sha256: Buffer;
  bytes: number;
  /** Set after `flush`. */
  blobIds(): string[];
}

/**
 * Writes contents in packs. A part that the organization has already stored under the same key is not stored again, so
 * a large file whose download broke off continues from there. At most `PACK_BYTES`, and one part of each open content,
 * are in memory.
 */
export class ContentWriter {
  readonly #parts: ContentParts;
  readonly #place: ContentPlace;
  #waiting: Part[] = [];
  #waitingBytes = 0;
  #writing: Promise<void> = Promise.resolve();

  constructor(parts: ContentParts, place: ContentPlace) {
    this.#parts = parts;
    this.#place = place;
  }

  async store(pieces: AsyncIterable<Buffer> | Iterable<Buffer>): Promise<StoredContent> {
    const whole = createHash('sha256');
    const parts: Part[] = [];
    let bytes = 0;
    for await (const content of cut(pieces)) {
      whole.update(content);
      bytes += content.length;
      const part = { sha256: sha256Of(content), bytes: content.length, content, blobId: undefined };
      parts.push(part);
      this.#waiting.push(part);
      this.#waitingBytes += content.length;
      if (this.#waitingBytes >= PACK_BYTES) await this.flush();
    }
    return {
      sha256: whole.digest(),
      bytes,
      blobIds: () =>
        parts.map(({ blobId }) => {
          if (blobId === undefined) throw new Error('a part of a content was not flushed');
          return blobId;
        }),
    };
  }

  /** Resolves when everything passed so far is stored. */
  async flush(): Promise<void> {
    const parts = this.#waiting;
    this.#waiting = [];
    this.#waitingBytes = 0;
    // One after another, so that duplicate content finds the first copy.
    const written = this.#writing.then(() => (parts.length === 0 ? undefined : this.#write(parts)));
    // Callers that wait for `written` get the error. Later ones try again.
    this.#writing = written.catch(() => undefined);
    await written;
  }

  async #write(parts: readonly Part[]): Promise<void> {
    const { db, secrets, backupStore } = this.#parts;
    const { orgId, partnerId, encryptionKeyId } = this.#place;
    const within = <T>(work: (tx: Tx) => PromiseLike<T>) => withTenant(db, organizationScope(orgId), work);
    const known = await within((tx) => this.#known(tx, parts));
    const fresh = new Map<string, Part>();
    for (const part of parts) {
      const name = part.sha256.toString('hex');
      if (!known.has(name) && !fresh.has(name)) fresh.set(name, part);
    }
    if (fresh.size > 0) {
      const id = newId();
      const { key, repositoryId } = await within(async (tx) => ({
        key: await encryptionKeys.readKeyMaterial(tx, { keyId: encryptionKeyId }, secrets),
        repositoryId: await repositoryOf(tx, orgId),
      }));
      const ownKey = packKey(key.material, id);
      const places: { part: Part; offset: number }[] = [];
      const sealed: Buffer[] = [];
      let size = 0;
      for (const part of fresh.values()) {
        const piece = sealPart(ownKey, part.sha256, part.content ?? Buffer.alloc(0));
        places.push({ part, offset: size });
        sealed.push(piece);
        size += piece.length;
      }
      const name = sha256Of(...sealed).toString('hex');
      const place = await backupStore.shares.reserve({ orgId, partnerId }, size);
      let isStored = false;
      try {
        await backupStore.storage.assertRoom(size);
        await backupStore.storage.write(repositoryId, { type: 'data', name }, from(sealed), {
          size,
          sha256: name,
        });
        await within(async (tx) => {
          await tx('c2c_packs').insert({
            id,
            org_id: orgId,
            name,
            encryption_key_id: encryptionKeyId,
            key_version: key.version,
            bytes: size,
          });
          await tx('c2c_stores').where('org_id', orgId).increment('stored_bytes', size);
          await tx('c2c_blobs')
            .insert(
              places.map(({ part, offset }) => ({
                id: newId(),
                org_id: orgId,
                encryption_key_id: encryptionKeyId,
                sha256: part.sha256,
                bytes: part.bytes,
                pack_id: id,
                pack_offset: offset,
              })),
            )
            // Another run has stored the same content concurrently.
            .onConflict(['org_id', 'encryption_key_id', 'sha256'])
            .ignore();
        });
        isStored = true;
      } finally {
        place.end(isStored);
      }
    }
    const all = await within((tx) => this.#known(tx, parts));
    for (const part of parts) {
      part.blobId = all.get(part.sha256.toString('hex'));
      part.content = undefined;
    }
  }

  /** The existing parts, which count as used from now on: no clean-up removes them within a day. */
  async #known(tx: Tx, parts: readonly Part[]): Promise<Map<string, string>> {
    const { orgId, encryptionKeyId } = this.#place;
    const rows = await tx('c2c_blobs')
      .where({ org_id: orgId, encryption_key_id: encryptionKeyId })
      .whereIn(
        'sha256',
        parts.map(({ sha256 }) => sha256),
      )
      .update({ used_at: tx.fn.now() })
      .returning<{ id: string; sha256: Buffer }[]>(['id', 'sha256']);
    return new Map(rows.map(({ id, sha256 }) => [sha256.toString('hex'), id]));
  }
}

const sha256Of = (...pieces: readonly Buffer[]): Buffer => {
  const hash = createHash('sha256');
  for (const piece of pieces) hash.update(piece);
  return hash.digest();
};

/** An empty content has one empty part. */
async function* cut(pieces: AsyncIterable<Buffer> | Iterable<Buffer>): AsyncGenerator<Buffer> {
  let collected: Buffer[] = [];
  let size = 0;
  let isEmpty = true;
  for await (const piece of pieces) {
    let rest = piece;
    while (size + rest.length >= PART_BYTES) {
      const taken = PART_BYTES - size;
      collected.push(rest.subarray(0, taken));
      rest = rest.subarray(taken);
      yield Buffer.concat(collected);
      isEmpty = false;
      collected = [];
      size = 0;
    }
    if (rest.length === 0) continue;
    collected.push(rest);
    size += rest.length;
  }
  if (size > 0 || isEmpty) yield Buffer.concat(collected);
}

// oxlint-disable-next-line typescript/require-await -- the storage takes pieces as they arrive
async function* from(pieces: readonly Buffer[]): AsyncGenerator<Buffer> {
  yield* pieces;
}

/** The content of a version, part by part: one part is in memory at a time, and each is verified by its hash. */
export async function* readContent(
  parts: ContentParts,
  { orgId, versionId }: { orgId: string; versionId: string },
): AsyncGenerator<Buffer, void> {
  for (let position = 0; ; position += PARTS_AT_ONCE) {
    const rows = await partsOf(parts.db, { orgId, versionId, position });
    for (const row of rows) yield await readPart(parts, orgId, row);
    if (rows.length < PARTS_AT_ONCE) return;
  }
}

async function readPart(
  { db, secrets, backupStore }: ContentParts,
  orgId: string,
  part: PartRow,
): Promise<Buffer> {
  const { key, repositoryId } = await withTenant(db, organizationScope(orgId), async (tx) => ({
    key: await encryptionKeys.readKeyMaterial(tx, { keyId: part.key_id, version: part.key_version }, secrets),
    repositoryId: await repositoryOf(tx, orgId),
  }));
  const first = Number(part.offset);
  const stream = await backupStore.storage.read(
    repositoryId,
    { type: 'data', name: part.name.trim(), trashedAt: null },
    { first, last: first + part.bytes + SEAL_BYTES - 1 },
  );
  if (stream === undefined) throw damaged();
  try {
    const content = openPart(packKey(key.material, part.pack_id), part.sha256, await buffer(stream));
    if (createHash('sha256').update(content).digest().equals(part.sha256)) return content;
  } catch (cause) {
    throw damaged(cause);
  }
  throw damaged();
}

const damaged = (cause?: unknown) =>
  new AppError('conflict', 'The stored content is damaged or missing.', {
    details: { code: 'DAMAGED' },
    cause,
  });

/** The prefix of an organization's contents in the backup store. */
async function repositoryOf(tx: Tx, orgId: string): Promise<string> {
  const find = () =>
    tx('c2c_stores').where('org_id', orgId).first<{ id: string } | undefined>({ id: 'repository_id' });
  const found = await find();
  if (found !== undefined) return found.id;
  await tx('c2c_stores').insert({ org_id: orgId, repository_id: newId() }).onConflict('org_id').ignore();
  const made = await find();
  if (made === undefined) throw new Error('an organization has no store');
  return made.id;
}

/** Format of parts in a pack: initialization vector, ciphertext, tag (AES-256-GCM). */

const IV_BYTES = 12;
const TAG_BYTES = 16;
/** The overhead of an encrypted part. */
const SEAL_BYTES = IV_BYTES + TAG_BYTES;

/** Each pack has its own key, derived from the key of the organization. */
const packKey = (material: Buffer, packId: string): Buffer =>
  Buffer.from(hkdfSync('sha256', material, packId, 'muster cloud backup pack', 32));

/** The authentication covers the identity of the content, so that parts of a pack cannot be exchanged. */
function sealPart(key: Buffer, sha256: Buffer, content: Buffer): Buffer {
  const iv = randomBytes(IV_BYTES);
  const cipher = createCipheriv('aes-256-gcm', key, iv, { authTagLength: TAG_BYTES });
  cipher.setAAD(sha256);
  return Buffer.concat([iv, cipher.update(content), cipher.final(), cipher.getAuthTag()]);
}

/** Throws if any bit has changed. */
function openPart(key: Buffer, sha256: Buffer, sealed: Buffer): Buffer {
  const decipher = createDecipheriv('aes-256-gcm', key, sealed.subarray(0, IV_BYTES), {
    authTagLength: TAG_BYTES,
  });
  decipher.setAAD(sha256);
  decipher.setAuthTag(sealed.subarray(-TAG_BYTES));
  return Buffer.concat([decipher.update(sealed.subarray(IV_BYTES, -TAG_BYTES)), decipher.final()]);
}

const CLEAN_UP = defineJob({ name: 'c2c.clean-up', input: z.object({}), result: z.object({}), inCluster: 1 });

type Parts = Pick<ContentParts, 'db' | 'backupStore'> & { jobs: Jobs; log: Logger };

/** Removes contents beyond the retention of configurations, and then unreferenced packs. */
export function cleanUpDaily(parts: Parts): void {
  parts.jobs.handle(CLEAN_UP, async ({ signal }) => {
    await cleanUp(parts, signal);
    return {};
  });
  parts.jobs.schedule(CLEAN_UP, { cron: '20 4 * * *', timeZone: 'UTC' }, {});
}

async function cleanUp(parts: Parts, signal: AbortSignal): Promise<void> {
  for (const [why, statement] of CLEAN_UP_STEPS) {
    for (let removed = REMOVED_AT_ONCE; removed >= REMOVED_AT_ONCE && !signal.aborted; ) {
      removed = await withSystem(parts.db, why, (tx) => runStep(tx, statement));
    }
  }
  await removeObjects(parts, signal);
}

/**
 * Removes packs a day after their last reference, so that running downloads can finish. The row is deleted after the
 * object.
 */
async function removeObjects({ db, backupStore, log }: Parts, signal: AbortSignal): Promise<void> {
  const packs = await withSystem(db, 'find packs that can be removed', obsoletePacks);
  for (const { id, orgId, name, repositoryId, bytes } of packs) {
    if (signal.aborted) return;
    try {
      await backupStore.storage.remove(repositoryId, { type: 'data', name, trashedAt: null });
      await withSystem(db, 'forget a pack that is gone', async (tx) => {
        const removed = await tx('c2c_packs').where('id', id).delete();
        if (removed === 0) return;
        await tx('c2c_stores').where('org_id', orgId).decrement('stored_bytes', Number(bytes));
      });
    } catch (error) {
      log.warn({ err: error, orgId, pack: name }, 'c2c.pack_not_removed');
    }
  }
}

const FILL = defineJob({ name: 'c2c.fill-search-texts', input: z.object({}), attempts: 1, inCluster: 1 });
const TEXTS_AT_ONCE = 1000;

/**
 * Indexes items from before the search existed. A migration would lock all of them for minutes. A trigger indexes all
 * others, so later rounds find nothing.
 */
export function fillSearchTexts({ jobs, db }: { jobs: Jobs; db: Db }): void {
  jobs.handle(FILL, ({ signal }) => fillAll(db, signal));
  jobs.schedule(FILL, { cron: '*/10 * * * *', timeZone: 'UTC' }, {});
}

export async function fillAll(db: Db, signal: AbortSignal): Promise<void> {
  for (let filled = TEXTS_AT_ONCE; filled === TEXTS_AT_ONCE && !signal.aborted; ) {
    filled = await withSystem(db, 'make cloud items searchable', async (tx) => {
      return fillTexts(tx, TEXTS_AT_ONCE);
    });
  }
}
