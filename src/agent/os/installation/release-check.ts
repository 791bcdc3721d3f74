import { createPublicKey, verify } from 'node:crypto';
import { z } from 'zod';
import { canonicalManifest, ReleaseManifest, type UpgradableComponent } from '../../../protocol/index.ts';
import { compareReleases, ReleaseVersion } from './release-version.ts';

/** What vouches for a release: the file `release.json` beside it. */
export const SignedRelease = z.object({
  manifest: ReleaseManifest.extend({ version: ReleaseVersion }),
  /** Ed25519 over the canonical manifest; base64url. */
  signature: z.string().max(200),
  keyId: z.string().max(100),
});
export type SignedRelease = z.infer<typeof SignedRelease>;

export type ReleaseFault =
  | 'UNKNOWN_KEY'
  | 'SIGNATURE_INVALID'
  | 'WRONG_COMPONENT'
  | 'WRONG_PLATFORM'
  | 'DOWNGRADE'
  | 'NOT_INSTALLED'
  | 'SIZE_MISMATCH'
  | 'CHECKSUM_MISMATCH';

/** A release that this machine does not run. */
export class ReleaseRefused extends Error {
  readonly code: ReleaseFault;

  constructor(code: ReleaseFault, message: string) {
    super(message);
    this.name = 'ReleaseRefused';
    this.code = code;
  }
}

export interface Expected {
  component: UpgradableComponent;
  platform: { os: string; architecture: string };
  /** The public keys that count: PEM by key id. */
  keys: ReadonlyMap<string, string>;
  /** No version below this one is accepted; `undefined`: any. */
  floor: string | undefined;
}

/**
 * Everything that can be said about a release without its bytes, in this order: whether somebody trusted vouches for it,
 * whether it is for this machine, and whether it is no older than allowed. Throws `ReleaseRefused`.
 */
export function checkRelease(release: SignedRelease, { component, platform, keys, floor }: Expected): void {
  const { manifest, signature, keyId } = release;
  const key = keys.get(keyId);
  if (key === undefined) {
    throw new ReleaseRefused(
      'UNKNOWN_KEY',
      'The release is signed with a key that this machine does not trust.',
    );
  }
  if (!isSigned(canonicalManifest(manifest), signature, key)) {
    throw new ReleaseRefused('SIGNATURE_INVALID', 'The signature of the release does not hold.');
  }
  if (manifest.component !== component) {
    throw new ReleaseRefused('WRONG_COMPONENT', `The release is for another component than ${component}.`);
  }
  if (manifest.os !== platform.os || manifest.architecture !== platform.architecture) {
    throw new ReleaseRefused(
      'WRONG_PLATFORM',
      `The release is for ${manifest.os} ${manifest.architecture}, and this machine is ${platform.os} ${platform.architecture}.`,
    );
  }
  if (floor !== undefined && compareReleases(manifest.version, floor) < 0) {
    throw new ReleaseRefused(
      'DOWNGRADE',
      `The release ${manifest.version} is older than ${floor}, which this machine has already run.`,
    );
  }
}

/** Whether the text was signed with the Ed25519 key; `false` also for a key or a signature that is none. */
export function isSigned(text: string, signature: string, publicKey: string): boolean {
  try {
    const key = createPublicKey(publicKey);
    if (key.asymmetricKeyType !== 'ed25519') return false;
    return verify(null, Buffer.from(text), key, Buffer.from(signature, 'base64url'));
  } catch {
    return false;
  }
}
