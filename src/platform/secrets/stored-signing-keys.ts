import { statementTime, type SealedColumn } from './secrets.queries.ts';
import { createPrivateKey, createPublicKey, generateKeyPairSync, type KeyObject } from 'node:crypto';
import type { Db } from '../db/pool.ts';
import { type Tx, withSystem } from '../db/transaction.ts';
import { newId } from '../ids.ts';
import { sealContext, type Encryptor } from './sealed.ts';

/** Ed25519 key pairs in PEM form. */
interface KeyPair {
  publicKey: string;
  privateKey: string;
}

/** A private key that is ready to sign, and the id under which others find the public one. */
export interface SigningKey {
  keyId: string;
  privateKey: KeyObject;
}

export const newKeyPair = (): KeyPair =>
  generateKeyPairSync('ed25519', {
    publicKeyEncoding: { type: 'spki', format: 'pem' },
    privateKeyEncoding: { type: 'pkcs8', format: 'pem' },
  });

/** The public key that belongs to a private one, both as PEM. */
const publicKeyOf = (privateKey: string): string =>
  createPublicKey(createPrivateKey(privateKey)).export({ type: 'spki', format: 'pem' }).toString();

export interface KeyRow {
  id: string;
  public_key: string;
  sealed_private_key: string;
  created_at: Date;
  retired_at: Date | null;
}

/** All keys of a table, including retired ones, oldest first. */
export async function keyRows<Row extends KeyRow = KeyRow>(tx: Tx, table: string): Promise<Row[]> {
  return tx(table).orderBy(['created_at', 'id']);
}

/**
 * The keys that sign one kind of thing, in a table of their own whose private column is sealed. One is active; retired
 * ones stay so that their signatures can be verified.
 */
export class StoredSigningKeys {
  readonly #secrets: Encryptor;
  readonly #column: SealedColumn;
  #last: SigningKey | undefined;

  constructor(secrets: Encryptor, column: SealedColumn) {
    this.#secrets = secrets;
    this.#column = column;
  }

  /** Creates the first key unless another server has already done so. */
  async ensure(db: Db): Promise<void> {
    await withSystem(db, 'make the first key that signs', async (tx) => {
      const known = await tx(this.#table).whereNull('retired_at').first('id');
      if (known === undefined) await this.#make(tx);
    });
  }

  /** Replaces the active key and returns the id of the new one. Running servers use it for what they sign next. */
  async replace(tx: Tx): Promise<string> {
    await tx(this.#table)
      .whereNull('retired_at')
      .update({ retired_at: statementTime(tx) });
    return this.#make(tx);
  }

  /** Throws `SealBrokenError` if the key was encrypted with a secret that is no longer configured. */
  async privateKey(tx: Tx, keyId: string): Promise<SigningKey> {
    if (this.#last?.keyId === keyId) return this.#last;
    const row: KeyRow | undefined = await tx(this.#table).where({ id: keyId }).first();
    if (row === undefined) throw new Error(`the signing key ${keyId} does not exist`);
    const { text } = this.#secrets.open(row.sealed_private_key, this.#contextOf(keyId));
    this.#last = { keyId, privateKey: createPrivateKey(text) };
    return this.#last;
  }

  /** The key that signs now. */
  async activeKey(tx: Tx): Promise<SigningKey> {
    return this.privateKey(tx, await this.#activeId(tx));
  }

  /**
   * Whether this installation created the key. An attacker who can write to the database can insert a public key but
   * cannot encrypt its private half with this installation's secret.
   */
  isOurs({ id, public_key: publicKey, sealed_private_key: sealed }: KeyRow): boolean {
    try {
      return publicKeyOf(this.#secrets.open(sealed, this.#contextOf(id)).text) === publicKey;
    } catch {
      return false;
    }
  }

  /** Returns the id of the active key, which may be one that another server created at the same moment. */
  async #make(tx: Tx): Promise<string> {
    const id = newId();
    const pair = newKeyPair();
    await tx(this.#table)
      .insert({
        id,
        public_key: pair.publicKey,
        sealed_private_key: this.#secrets.seal(pair.privateKey, this.#contextOf(id)),
        // Not when the transaction began: it may have waited for one that made the key before.
        created_at: statementTime(tx),
      })
      .onConflict()
      .ignore();
    return this.#activeId(tx);
  }

  async #activeId(tx: Tx): Promise<string> {
    const active: { id: string } | undefined = await tx(this.#table).whereNull('retired_at').first('id');
    if (active === undefined) throw new Error(`${this.#table} has no active key`);
    return active.id;
  }

  get #table(): string {
    return this.#column.table;
  }

  #contextOf(keyId: string): string {
    return sealContext(this.#table, this.#column.column, keyId);
  }
}
