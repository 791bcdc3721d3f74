import { createPrivateKey } from 'node:crypto';
import type { Db } from '../../../platform/db/pool.ts';
import { withSystem, type Tx } from '../../../platform/db/transaction.ts';
import { newId } from '../../../platform/ids.ts';
import type { SealedColumn } from '../../../platform/secrets/reseal.ts';
import { sealContext, type Sealer as SecretSealer } from '../../../platform/secrets/sealed.ts';
import { newKeyPair, type PublicKey, publicKeyOf, type SigningKey } from '../chain/checkpoint.ts';

/** For `npm run rotate-secrets`. */
export const SEALED_SIGNING_KEY: SealedColumn = {
  table: 'audit_signing_keys',
  column: 'sealed_private_key',
  id: 'id',
};

const contextOf = (keyId: string) => sealContext(SEALED_SIGNING_KEY.table, SEALED_SIGNING_KEY.column, keyId);

interface KeyRow {
  id: string;
  public_key: string;
  sealed_private_key: string;
  created_at: Date;
  retired_at: Date | null;
}

/** The keys that sign chain heads. One is active; retired ones stay so that their signatures can be verified. */
export class SigningKeys {
  readonly #secrets: SecretSealer;
  #last: SigningKey | undefined;

  constructor(secrets: SecretSealer) {
    this.#secrets = secrets;
  }

  /** Creates the first key unless another server has already done so. */
  async ensure(db: Db): Promise<void> {
    await withSystem(db, 'make the key that signs the audit trail', async (tx) => {
      const known = await tx('audit_signing_keys').whereNull('retired_at').first('id');
      if (known === undefined) await this.#make(tx);
    });
  }

  /** Replaces the active key and returns the id of the new one. Running servers use it from their next batch on. */
  async rotate(db: Db): Promise<string> {
    return withSystem(db, 'replace the key that signs the audit trail', async (tx) => {
      await tx('audit_signing_keys')
        .whereNull('retired_at')
        .update({ retired_at: tx.fn.now(3) });
      return this.#make(tx);
    });
  }

  /** Returns the id of the active key, which may be one that another server created at the same moment. */
  async #make(tx: Tx): Promise<string> {
    const id = newId();
    const pair = newKeyPair();
    await tx('audit_signing_keys')
      .insert({
        id,
        public_key: pair.publicKey,
        sealed_private_key: this.#secrets.seal(pair.privateKey, contextOf(id)),
      })
      .onConflict()
      .ignore();
    const current: { id: string } = await tx('audit_signing_keys').whereNull('retired_at').first('id');
    return current.id;
  }

  /** Throws `SealBrokenError` if the key was encrypted with a secret that is no longer configured. */
  async privateKey(tx: Tx, keyId: string): Promise<SigningKey> {
    if (this.#last?.keyId === keyId) return this.#last;
    const row: KeyRow | undefined = await tx('audit_signing_keys').where({ id: keyId }).first();
    if (row === undefined) throw new Error(`the signing key ${keyId} does not exist`);
    const { text } = this.#secrets.open(row.sealed_private_key, contextOf(keyId));
    this.#last = { keyId, privateKey: createPrivateKey(text) };
    return this.#last;
  }

  /**
   * Whether this installation created the key. An attacker who can write to the database can insert a public key but
   * cannot encrypt its private half with this installation's secret.
   */
  isOurs({ id, public_key: publicKey, sealed_private_key: sealed }: KeyRow): boolean {
    try {
      return publicKeyOf(this.#secrets.open(sealed, contextOf(id)).text) === publicKey;
    } catch {
      return false;
    }
  }
}

/** All keys, including retired ones, oldest first. */
export async function signingKeyRows(tx: Tx): Promise<KeyRow[]> {
  return tx('audit_signing_keys').orderBy(['created_at', 'id']);
}

export const publicPart = (row: KeyRow): PublicKey => ({
  keyId: row.id,
  algorithm: 'Ed25519',
  publicKey: row.public_key,
  createdAt: row.created_at.toISOString(),
  retiredAt: row.retired_at?.toISOString() ?? null,
});
