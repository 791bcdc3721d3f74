import { randomBytes } from 'node:crypto';
import {
  type ObjectKey,
  unpackBlob,
  unpackJson,
  encryptObject,
  type ObjectSource,
  type ObjectType,
} from '../../../../../src/engine/repository/object-encoding.ts';
import { openMasterKey } from '../../../../../src/engine/repository/keys.ts';
import type { IssuedCredential } from '../../../../../src/features/backup-store/credentials.ts';
import { sha256 } from '../../../../support/engine/repository-forge.ts';
import { request } from '../../../../support/backup/store-support.ts';

/**
 * Somebody who has taken a device over: with the credential of a job, and with the password of the repository, which
 * every device knows. What they write is well encrypted; only the store stands between them and the past.
 */

interface Blob {
  id: string;
  type: 'data' | 'tree';
  offset: number;
  length: number;
  uncompressed_length?: number;
}
interface Pack {
  id: string;
  blobs: Blob[];
}

interface Tree {
  nodes: { subtree?: string | null; content?: string[] | null }[] | null;
}

const FOLDER: Readonly<Record<ObjectType, string>> = {
  index: 'index',
  key: 'keys',
  snapshot: 'snapshots',
  data: 'data',
};
const JSON_MAX = 2 ** 26;

export interface Attacker {
  key: ObjectKey;
  /** The status of the answer. */
  send(method: string, place: string, body?: Buffer): Promise<number>;
  names(type: ObjectType): Promise<string[]>;
  /** Stores it under its hash, and answers that; throws unless it is taken. */
  put(type: 'data' | 'index' | 'snapshots', object: Buffer): Promise<string>;
  putIndex(packs: readonly Pack[]): Promise<string>;
  putSnapshot(content: Record<string, unknown>): Promise<string>;
  readSnapshot(id: string): Promise<Record<string, unknown>>;
  /** What the index says of every pack. */
  packs(): Promise<Pack[]>;
  /** Those that a snapshot needs: a pack of nothing else is one that restic keeps as it is. */
  blobsOf(snapshotId: string): Promise<Blob[]>;
  /**
   * A pack whose header says that it holds these blobs, and which holds something else; and a snapshot `like` another one that needs the one
   * file that the pack does hold, so that restic rather keeps this pack than the real ones.
   */
  putLyingPack(blobs: readonly Blob[], like: string): Promise<Pack>;
}

export async function attackerWith(
  url: string,
  repositoryId: string,
  credential: IssuedCredential,
  password: string,
): Promise<Attacker> {
  const call = (method: string, place: string, body?: Buffer) =>
    request(url, repositoryId, credential, [method, place], { body });
  const get = async (place: string) => {
    const { status, body } = await call('GET', place);
    if (status !== 200) throw new Error(`GET ${place}: ${status}`);
    return body;
  };
  const names = async (type: ObjectType) => JSON.parse(String(await get(`${FOLDER[type]}/`))) as string[];
  const source: ObjectSource = {
    async *list(type) {
      for (const name of await names(type)) yield { name, size: 1000 };
    },
    get: (type, name) => get(`${FOLDER[type]}/${name}`),
  };
  const key = await openMasterKey(source, { password });
  const put: Attacker['put'] = async (type, object) => {
    const name = sha256(object);
    const { status, body } = await call('POST', `${type}/${name}`, object);
    if (status !== 200) throw new Error(`POST ${type}: ${status} ${String(body)}`);
    return name;
  };
  const seal = (value: unknown) => encryptObject(key, Buffer.from(JSON.stringify(value)));
  const putSnapshot: Attacker['putSnapshot'] = (content) => put('snapshots', seal(content));
  const readSnapshot: Attacker['readSnapshot'] = async (id) =>
    JSON.parse(unpackJson(key, await get(`snapshots/${id}`), JSON_MAX)) as Record<string, unknown>;
  const packs: Attacker['packs'] = async () => {
    const found: Pack[] = [];
    for (const name of await names('index')) {
      const { packs: some } = JSON.parse(unpackJson(key, await get(`index/${name}`), JSON_MAX)) as {
        packs: Pack[];
      };
      found.push(...some);
    }
    return found;
  };
  const putIndex: Attacker['putIndex'] = (some) => put('index', seal({ packs: some }));
  const putPack = async (wanted: readonly { blob: Blob; content: Buffer }[]): Promise<Pack> => {
    const parts: Buffer[] = [];
    const said: Blob[] = [];
    const header: Buffer[] = [];
    let offset = 0;
    for (const { blob, content } of wanted) {
      const { id, type, uncompressed_length: plain } = blob;
      const sealed = encryptObject(key, content);
      const { length } = sealed;
      parts.push(sealed);
      said.push({ id, type, offset, length, ...(plain === undefined ? {} : { uncompressed_length: plain }) });
      const entry = Buffer.alloc(plain === undefined ? 5 : 9);
      entry.writeUInt8((type === 'data' ? 0 : 1) + (plain === undefined ? 0 : 2), 0);
      entry.writeUInt32LE(length, 1);
      if (plain !== undefined) entry.writeUInt32LE(plain, 5);
      header.push(entry, Buffer.from(id, 'hex'));
      offset += length;
    }
    const sealedHeader = encryptObject(key, Buffer.concat(header));
    const length = Buffer.alloc(4);
    length.writeUInt32LE(sealedHeader.length);
    return { id: await put('data', Buffer.concat([...parts, sealedHeader, length])), blobs: said };
  };
  return {
    key,
    names,
    put,
    send: async (method, place, body) => (await call(method, place, body)).status,
    putIndex,
    putSnapshot,
    readSnapshot,
    packs,
    async blobsOf(snapshotId) {
      const places = new Map(
        (await packs()).flatMap(({ id, blobs }) => blobs.map((blob) => [blob.id, { pack: id, blob }])),
      );
      const used = new Map<string, Blob>();
      const visit = async (id: string): Promise<void> => {
        const place = places.get(id);
        if (place === undefined || used.has(id)) return;
        const { pack, blob } = place;
        used.set(id, blob);
        if (blob.type === 'data') return;
        const bytes = (await get(`data/${pack}`)).subarray(blob.offset, blob.offset + blob.length);
        const tree = JSON.parse(
          String(unpackBlob(key, bytes, { id, length: blob.uncompressed_length })),
        ) as Tree;
        for (const { subtree, content } of tree.nodes ?? []) {
          for (const each of [...(subtree == null ? [] : [subtree]), ...(content ?? [])]) await visit(each);
        }
      };
      await visit(String((await readSnapshot(snapshotId))['tree']));
      return [...used.values()];
    },
    async putLyingPack(blobs, like) {
      const file = randomBytes(100);
      const own: Blob = { id: sha256(file), type: 'data', offset: 0, length: 0 };
      const node = { name: 'own', type: 'file', mode: 0o600, size: file.length, content: [own.id] };
      const folder = Buffer.from(`${JSON.stringify({ nodes: [node] })}\n`);
      const tree: Blob = { id: sha256(folder), type: 'tree', offset: 0, length: 0 };
      const honest = await putPack([{ blob: tree, content: folder }]);
      await putIndex([honest]);
      await putSnapshot({ ...(await readSnapshot(like)), tree: tree.id });
      // Of one kind only: restic writes packs of both kinds anew, and would notice.
      const data = blobs.filter(({ type }) => type === 'data');
      return putPack([
        { blob: own, content: file },
        ...data.map((blob) => ({ blob, content: randomBytes(64) })),
      ]);
    },
  };
}
