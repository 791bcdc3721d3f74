import { randomBytes } from 'node:crypto';
import { encryptObject } from './encrypt.ts';
import { type KeyFile, type KeyLabel, newKeyFile } from './new-key.ts';
import { randomPolynomial } from './polynomial.ts';

/** The second form of repositories, in which restic compresses. Every version that we work with knows it. */
const VERSION = 2;

interface Wanted {
  password: string;
  label: KeyLabel;
  /** Of a repository whose chunks are cut in the same way, so that a copy from it stores nothing twice. */
  polynomial?: string | undefined;
}

/**
 * The two objects of a new repository, as `restic init` writes them: the key first, then the configuration. restic itself
 * takes eight runs of half a second or more until the only key has a label of ours.
 */
export async function newRepository({
  password,
  label,
  polynomial = randomPolynomial(),
}: Wanted): Promise<{ key: KeyFile; config: Uint8Array }> {
  const master = { encrypt: randomBytes(32), macK: randomBytes(16), macR: randomBytes(16) };
  const config = { version: VERSION, id: randomBytes(32).toString('hex'), chunker_polynomial: polynomial };
  return {
    key: await newKeyFile(master, { password, label }),
    config: encryptObject(master, Buffer.from(JSON.stringify(config))),
  };
}
