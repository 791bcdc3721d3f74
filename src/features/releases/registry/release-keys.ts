import { sign, verify } from 'node:crypto';
import type { Tx } from '../../../platform/db/transaction.ts';
import type { SealedColumn } from '../../../platform/secrets/reseal.ts';
import type { Sealer } from '../../../platform/secrets/sealed.ts';
import { keyRows, StoredSigningKeys } from '../../../platform/secrets/stored-signing-keys.ts';
import type { Target } from './platform.ts';

/** For `npm run rotate-secrets`. */
export const SEALED_RELEASE_KEY: SealedColumn = {
  table: 'release_signing_keys',
  column: 'sealed_private_key',
  id: 'id',
};

/** What the signature of a release vouches for. */
export interface Manifest extends Target {
  version: string;
  sha256: string;
  size: number;
}

/** The text that is signed: RFC 8785, which sorts the keys. A test compares it with the package `canonicalize`. */
export const canonicalManifest = ({ architecture, component, os, sha256, size, version }: Manifest): string =>
  JSON.stringify({ architecture, component, os, sha256, size, version });

export interface Signature {
  /** Ed25519; base64url. */
  signature: string;
  keyId: string;
}

/** The keys that sign releases. Agents know their public halves, and install nothing that none of them has signed. */
export class ReleaseKeys extends StoredSigningKeys {
  constructor(secrets: Sealer) {
    super(secrets, SEALED_RELEASE_KEY);
  }

  async sign(tx: Tx, manifest: Manifest): Promise<Signature> {
    const { keyId, privateKey } = await this.activeKey(tx);
    const signature = sign(null, Buffer.from(canonicalManifest(manifest)), privateKey).toString('base64url');
    return { keyId, signature };
  }

  /** The public keys that this installation has made, retired ones among them: PEM by key id. */
  async publicKeys(tx: Tx): Promise<ReadonlyMap<string, string>> {
    const rows = await keyRows(tx, SEALED_RELEASE_KEY.table);
    return new Map(rows.filter((row) => this.isOurs(row)).map((row) => [row.id, row.public_key]));
  }

  /** Answers what says of a release whether its signature is that of one of these keys. */
  async verifier(tx: Tx): Promise<(release: Manifest & Signature) => boolean> {
    const keys = await this.publicKeys(tx);
    return (release) => {
      const key = keys.get(release.keyId);
      if (key === undefined) return false;
      const signature = Buffer.from(release.signature, 'base64url');
      return verify(null, Buffer.from(canonicalManifest(release)), key, signature);
    };
  }
}
