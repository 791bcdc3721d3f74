import { createHash, randomBytes } from 'node:crypto';
import { clock } from '../../clock.ts';
import type { ObjectKey } from '../reader/decrypt.ts';
import { deriveKey } from '../reader/keys.ts';
import { encryptObject } from './encrypt.ts';

/** The two names that a key carries in the clear, by which its version is recognized. */
export interface KeyLabel {
  user: string;
  host: string;
}

export interface KeyFile {
  /** Its name in the repository: the SHA-256 of its content. */
  id: string;
  content: Uint8Array;
}

/**
 * What opening the repository costs: some 60 ms and 32 MiB. restic itself takes what its machine computes in half a
 * second, each time that it opens the repository, to slow down who guesses the passwords of people. Ours have 256 random
 * bits, which nobody guesses at any cost (docs/decisions/backup-engine.md).
 */
const COST = { N: 2 ** 15, r: 8, p: 1 };
/** restic takes no other length. */
const SALT_BYTES = 64;

/** A key of a repository, by which `password` opens it. */
export async function newKeyFile(
  master: ObjectKey,
  { password, label }: { password: string; label: KeyLabel },
): Promise<KeyFile> {
  const salt = randomBytes(SALT_BYTES);
  const opening = await deriveKey(password, { ...COST, salt });
  const content = {
    mac: { k: base64(master.macK), r: base64(master.macR) },
    encrypt: base64(master.encrypt),
  };
  const file = json({
    created: clock.date().toISOString(),
    username: label.user,
    hostname: label.host,
    kdf: 'scrypt',
    ...COST,
    salt: base64(salt),
    data: base64(encryptObject(opening, json(content))),
  });
  return { id: createHash('sha256').update(file).digest('hex'), content: file };
}

const base64 = (bytes: Uint8Array) => Buffer.from(bytes).toString('base64');
const json = (value: object) => Buffer.from(JSON.stringify(value));
