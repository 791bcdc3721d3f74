import { sign, verify } from 'node:crypto';
import type { Tx } from '../../platform/db/transaction.ts';
import type { SealedColumn } from '../../platform/secrets/secrets.queries.ts';
import type { Encryptor } from '../../platform/secrets/sealed.ts';
import { type KeyRow, keyRows, StoredSigningKeys } from '../../platform/secrets/stored-signing-keys.ts';
import {
  canonicalManifest,
  canonicalReleaseKey,
  RELEASE_KEYS_MAX,
  type ReleaseKey,
} from '../../protocol/index.ts';
import type { Target } from './release-name.ts';
import { lockReleases } from './release.queries.ts';

/** For `npm run rotate-secrets`. */
export const SEALED_RELEASE_KEY: SealedColumn = {
  table: 'release_signing_keys',
  column: 'sealed_private_key',
  id: 'id',
};

/** The fields that the signature of a release covers. */
export interface Manifest extends Target {
  version: string;
  sha256: string;
  size: number;
}

/** The most verified signatures that are remembered, half a kilobyte each. */
const VERIFIED_MAX = 5000;

interface ReleaseKeyRow extends KeyRow {
  signed_by: string | null;
  signature: string | null;
}

export interface Signature {
  /** Ed25519; base64url. */
  signature: string;
  keyId: string;
}

/** The keys that sign releases. Agents know their public halves, and install nothing that none of them has signed. */
export class ReleaseKeys extends StoredSigningKeys {
  /** Whether a row is ours, by its content: to open a seal takes longer than to read the row. */
  #judged = new Map<string, boolean>();
  /** Whether a signature holds, by all that it depends on: to verify one takes some hundred microseconds. */
  readonly #verified = new Map<string, boolean>();

  constructor(secrets: Encryptor) {
    super(secrets, SEALED_RELEASE_KEY);
  }

  async sign(tx: Tx, manifest: Manifest): Promise<Signature> {
    const { keyId, privateKey } = await this.activeKey(tx);
    const signature = sign(null, Buffer.from(canonicalManifest(manifest)), privateKey).toString('base64url');
    return { keyId, signature };
  }

  /**
   * Replaces the key that signs. The present one signs the new one, so that devices that trust it trust the new one as well.
   * @param vouched  false: begins a new chain, if the present key is lost; enrolled devices do not trust it
   */
  async rotate(tx: Tx, { vouched }: { vouched: boolean }): Promise<ReleaseKey> {
    // No release is signed meanwhile, and rotations come one after another: a chain has no branches.
    await lockReleases(tx);
    const present = vouched ? await this.activeKey(tx) : undefined;
    const id = await this.replace(tx);
    const [{ public_key: publicKey }] = await tx(SEALED_RELEASE_KEY.table).where({ id }).select('public_key');
    if (present === undefined) return { id, publicKey };
    const text = canonicalReleaseKey({ id, publicKey });
    const signature = sign(null, Buffer.from(text), present.privateKey).toString('base64url');
    await tx(SEALED_RELEASE_KEY.table).where({ id }).update({ signed_by: present.keyId, signature });
    return { id, publicKey, signedBy: present.keyId, signature };
  }

  /** The keys that this installation has made, retired ones among them, oldest first. */
  async published(tx: Tx): Promise<ReleaseKey[]> {
    const rows = await this.#ownRows(tx);
    return rows
      .slice(-RELEASE_KEYS_MAX)
      .map(({ id, public_key: publicKey, signed_by: signedBy, signature }) => ({
        id,
        publicKey,
        ...(signedBy === null || signature === null ? {} : { signedBy, signature }),
      }));
  }

  /** The same as PEM by key id. */
  async publicKeys(tx: Tx): Promise<ReadonlyMap<string, string>> {
    const rows = await this.#ownRows(tx);
    return new Map(rows.map((row) => [row.id, row.public_key]));
  }

  /** Returns a function that tells whether the signature of a release is by one of these keys. */
  async verifier(tx: Tx): Promise<(release: Manifest & Signature) => boolean> {
    const keys = await this.publicKeys(tx);
    return (release) => {
      const key = keys.get(release.keyId);
      return key !== undefined && this.#holds(canonicalManifest(release), key, release.signature);
    };
  }

  #holds(text: string, key: string, signature: string): boolean {
    const question = [key, signature, text].join('\n');
    const known = this.#verified.get(question);
    if (known !== undefined) return known;
    if (this.#verified.size >= VERIFIED_MAX) this.#verified.clear();
    const holds = verify(null, Buffer.from(text), key, Buffer.from(signature, 'base64url'));
    this.#verified.set(question, holds);
    return holds;
  }
  async #ownRows(tx: Tx): Promise<ReleaseKeyRow[]> {
    const rows = await keyRows<ReleaseKeyRow>(tx, SEALED_RELEASE_KEY.table);
    const judged = rows.map((row) => {
      const content = [row.id, row.public_key, row.sealed_private_key].join(' ');
      return { row, content, isOurs: this.#judged.get(content) ?? this.isOurs(row) };
    });
    this.#judged = new Map(judged.map(({ content, isOurs }) => [content, isOurs]));
    return judged.filter(({ isOurs }) => isOurs).map(({ row }) => row);
  }
}
