import { createHash } from 'node:crypto';
import { organizationScope } from '../../groups/index.ts';
import { readKeyMaterial } from '../../backup/index.ts';
import { type Tx, withTenant } from '../../../platform/db/transaction.ts';
import { newId } from '../../../platform/ids.ts';
import { type ContentParts, type ContentPlace, PART_BYTES } from './content.ts';
import { packKey, sealPart } from './sealed-part.ts';
import { repositoryOf } from './stores.ts';

/** What waits is written when it is so much. */
const PACK_BYTES = 8 << 20;

/** A part that is stored, or will be with the next `flush`. */
interface Part {
  sha256: Buffer;
  bytes: number;
  /** Until it is stored. */
  content: Buffer | undefined;
  blobId: string | undefined;
}

export interface StoredContent {
  sha256: Buffer;
  bytes: number;
  /** After `flush`. */
  blobIds(): string[];
}

/**
 * Writes contents in packs. A part that the organization has already, under the same key, is not stored again; so a large
 * file whose download broke off continues where it was. At most `PACK_BYTES`, and one part of each content that is being
 * read, are in memory.
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

  /** Resolves when everything that was given so far is stored. */
  async flush(): Promise<void> {
    const parts = this.#waiting;
    this.#waiting = [];
    this.#waitingBytes = 0;
    // One after another: content that comes twice is found by the second.
    const written = this.#writing.then(() => (parts.length === 0 ? undefined : this.#write(parts)));
    // Those who wait for `written` hear of the failure. The next ones try by themselves.
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
        key: await readKeyMaterial(tx, { keyId: encryptionKeyId }, secrets),
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
            // Another run has stored the same content at this moment.
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

  /** The parts that are there, which are used from now on: no clean-up removes them within a day. */
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
