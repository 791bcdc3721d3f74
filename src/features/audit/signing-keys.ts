import type { Db } from '../../platform/db/pool.ts';
import { type Tx, withSystem } from '../../platform/db/transaction.ts';
import type { SealedColumn } from '../../platform/secrets/secrets.queries.ts';
import type { Encryptor } from '../../platform/secrets/sealed.ts';
import { type KeyRow, keyRows, StoredSigningKeys } from '../../platform/secrets/stored-signing-keys.ts';
import type { PublicKey } from './chain.ts';

/** For `npm run rotate-secrets`. */
export const SEALED_SIGNING_KEY: SealedColumn = {
  table: 'audit_signing_keys',
  column: 'sealed_private_key',
  id: 'id',
};

/** The keys that sign chain heads. */
export class SigningKeys extends StoredSigningKeys {
  constructor(secrets: Encryptor) {
    super(secrets, SEALED_SIGNING_KEY);
  }

  async rotate(db: Db): Promise<string> {
    return withSystem(db, 'replace a key that signs', (tx) => this.replace(tx));
  }
}

/** All keys, including retired ones, oldest first. */
export const signingKeyRows = (tx: Tx): Promise<KeyRow[]> => keyRows(tx, SEALED_SIGNING_KEY.table);

export const publicPart = (row: KeyRow): PublicKey => ({
  keyId: row.id,
  algorithm: 'Ed25519',
  publicKey: row.public_key,
  createdAt: row.created_at.toISOString(),
  retiredAt: row.retired_at?.toISOString() ?? null,
});
