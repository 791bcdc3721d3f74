import { createHash, randomBytes, scryptSync } from 'node:crypto';
import { chmod, mkdir, readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import {
  encryptObject,
  type ObjectKey,
  folderSource,
} from '../../../src/engine/repository/object-encoding.ts';
import { openMasterKey } from '../../../src/engine/repository/keys.ts';

/** Writes objects of a repository as a device could that knows its key. */

export const sha256 = (bytes: Uint8Array) => createHash('sha256').update(bytes).digest('hex');

export const masterKeyOf = (folder: string, password: string) =>
  openMasterKey(folderSource(folder), { password });

/** Adds an object under the hash of its content, and returns that. */
export async function putObject(folder: string, type: string, object: Uint8Array): Promise<string> {
  const name = sha256(object);
  const within = path.join(folder, type, ...(type === 'data' ? [name.slice(0, 2)] : []));
  await mkdir(within, { recursive: true });
  await writeFile(path.join(within, name), object);
  return name;
}

/** A pack of one folder and an index of it. Returns the id of the folder. */
export async function putTree(folder: string, key: ObjectKey, nodes: readonly object[]): Promise<string> {
  const plain = Buffer.from(`${JSON.stringify({ nodes })}\n`);
  const blob = encryptObject(key, plain);
  const pack = await putObject(folder, 'data', blob);
  const id = sha256(plain);
  await putIndex(folder, key, [{ id: pack, blobs: [{ id, type: 'tree', offset: 0, length: blob.length }] }]);
  return id;
}

export const putIndex = (folder: string, key: ObjectKey, packs: readonly object[]) =>
  putObject(folder, 'index', encryptObject(key, Buffer.from(JSON.stringify({ packs }))));

export const putSnapshot = (folder: string, key: ObjectKey, tree: string) =>
  putObject(
    folder,
    'snapshots',
    encryptObject(key, Buffer.from(JSON.stringify({ time: '2026-01-01T00:00:00Z', tree, paths: ['/'] }))),
  );

/** A key file with a cost of our choice. `change` makes it another one, or a malformed one. */
function keyObject(
  key: ObjectKey,
  password: string,
  change: Record<string, unknown> = {},
  cost = { N: 2, r: 1, p: 1 },
): Buffer {
  const base64 = (bytes: Uint8Array) => Buffer.from(bytes).toString('base64');
  const salt = randomBytes(64);
  const derived = scryptSync(password, salt, 64, { ...cost, maxmem: 2 ** 28 });
  const user = {
    encrypt: derived.subarray(0, 32),
    macK: derived.subarray(32, 48),
    macR: derived.subarray(48),
  };
  const master = {
    mac: { k: base64(key.macK), r: base64(key.macR) },
    encrypt: base64(key.encrypt),
  };
  const data = base64(encryptObject(user, Buffer.from(JSON.stringify(master))));
  const file = { kdf: 'scrypt', ...cost, salt: base64(salt), data, ...change };
  return Buffer.from(JSON.stringify({ username: 'u', hostname: 'h', ...file }));
}

export const putKey = (folder: string, ...of: Parameters<typeof keyObject>): Promise<string> =>
  putObject(folder, 'keys', keyObject(...of));

/**
 * What restic writes for a new repository, made at once: restic itself computes for seconds, and half a second each time
 * it opens the repository.
 */
export function forgeRepository(
  password: string,
  label: { user: string; host: string },
): { config: Buffer; keyId: string; keyFile: Buffer } {
  const key = { encrypt: randomBytes(32), macK: randomBytes(16), macR: randomBytes(16) };
  // Chunks are cut by a polynomial that has to be irreducible.
  const config = { version: 2, id: randomBytes(32).toString('hex'), chunker_polynomial: '3da3358b4dc173' };
  const keyFile = keyObject(key, password, {
    created: new Date().toISOString(),
    username: label.user,
    hostname: label.host,
  });
  return {
    config: encryptObject(key, Buffer.from(JSON.stringify(config))),
    keyId: sha256(keyFile),
    keyFile,
  };
}

/** Changes one byte of a file. */
export async function damage(file: string, at: number): Promise<void> {
  const bytes = await readFile(file);
  bytes.writeUInt8(bytes.readUInt8(at) ^ 1, at);
  await chmod(file, 0o600);
  await writeFile(file, bytes);
}
