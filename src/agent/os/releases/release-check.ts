import { createPublicKey, verify } from 'node:crypto';
import path from 'node:path';
import { z } from 'zod';
import {
  canonicalManifest,
  ReleaseManifest,
  type UpgradableComponent,
  canonicalReleaseKey,
  RELEASE_KEYS_MAX,
  ReleaseKey,
} from '../../../protocol/index.ts';
import { readPrivateJson, writePrivateJson } from '../files/private-file.ts';
import { compareReleases, ReleaseVersion } from './layout.ts';

/** The proof of a release: the file `release.json` beside it. */
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

/** A release that this machine refuses to run. */
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
  /** The trusted public keys: PEM by key id. */
  keys: ReadonlyMap<string, string>;
  /** The lowest accepted version; `undefined`: any. */
  floor: string | undefined;
}

/**
 * All checks of a release that do not need its bytes, in this order: whether a trusted key has signed it, whether it
 * is for this machine, and whether it is new enough. Throws `ReleaseRefused`.
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

/** Whether the text was signed with the Ed25519 key; also `false` for an invalid key or signature. */
export function isSigned(text: string, signature: string, publicKey: string): boolean {
  try {
    const key = createPublicKey(publicKey);
    if (key.asymmetricKeyType !== 'ed25519') return false;
    return verify(null, Buffer.from(text), key, Buffer.from(signature, 'base64url'));
  } catch {
    return false;
  }
}

/** The keys whose releases this machine installs. Enrollment writes them; those that they have signed are added later. */

const PEM_MAX_LENGTH = 1000;

const KeyList = z.array(ReleaseKey).max(RELEASE_KEYS_MAX);
const TrustedKeys = z.object({
  keys: KeyList,
  /** Keys of a server that this machine has left: installed releases still start, and nothing new is installed. */
  former: KeyList.optional(),
});

const fileIn = (dataDir: string) => path.join(dataDir, 'upgrades', 'trusted-keys.json');

/** Replaces the trusted keys. A key that is not Ed25519 is left out, because no signature of it can be valid. */
export async function saveTrustedKeys(dataDir: string, keys: readonly ReleaseKey[]): Promise<void> {
  const usable = keys.filter(({ publicKey }) => isEd25519(publicKey)).slice(-RELEASE_KEYS_MAX);
  const before = await load(dataDir).catch(() => ({ keys: [], former: [] }));
  const isNew = ({ publicKey }: ReleaseKey) => usable.every((key) => key.publicKey !== publicKey);
  const former = [...before.former, ...before.keys].filter(isNew).slice(-RELEASE_KEYS_MAX);
  await writePrivateJson(fileIn(dataDir), { keys: usable, ...(former.length > 0 ? { former } : {}) });
}

/** Empty if the server has given none: then nothing is installed. Throws if the file cannot be used. */
export const loadTrustedKeys = async (dataDir: string): Promise<ReleaseKey[]> => (await load(dataDir)).keys;

/** The keys that verify installed releases: PEM by key id. Throws if the file cannot be used. */
export async function keysForStart(dataDir: string): Promise<ReadonlyMap<string, string>> {
  const { keys, former } = await load(dataDir);
  return pemById([...former, ...keys]);
}

export const pemById = (keys: readonly ReleaseKey[]): ReadonlyMap<string, string> =>
  new Map(keys.map(({ id, publicKey }) => [id, publicKey]));

/**
 * Adds the offered keys that trusted ones vouch for. If no key is trusted yet, all are added: an agent that was
 * enrolled before there were keys trusts its server as it did at the enrollment. Returns how many were added.
 */
export async function extendTrust(dataDir: string, offered: readonly ReleaseKey[]): Promise<number> {
  const trusted = await loadTrustedKeys(dataDir);
  const added = trusted.length === 0 ? [...offered] : vouchedFor(trusted, offered);
  if (added.length > 0) await saveTrustedKeys(dataDir, [...trusted, ...added]);
  return added.length;
}

/** The new keys that a chain of signatures from a trusted key leads to. Pure. */
export function vouchedFor(trusted: readonly ReleaseKey[], offered: readonly ReleaseKey[]): ReleaseKey[] {
  const known = new Map(trusted.map((key) => [key.id, key]));
  const added: ReleaseKey[] = [];
  for (let isGrowing = true; isGrowing; ) {
    isGrowing = false;
    for (const key of offered) {
      const voucher = key.signedBy === undefined ? undefined : known.get(key.signedBy);
      if (known.has(key.id) || voucher === undefined || key.signature === undefined) continue;
      if (!isSigned(canonicalReleaseKey(key), key.signature, voucher.publicKey)) continue;
      known.set(key.id, key);
      added.push(key);
      isGrowing = true;
    }
  }
  return added;
}

async function load(dataDir: string): Promise<{ keys: ReleaseKey[]; former: ReleaseKey[] }> {
  const kept = await readPrivateJson(fileIn(dataDir));
  if (kept === undefined) return { keys: [], former: [] };
  const parsed = TrustedKeys.safeParse(kept);
  if (parsed.success) return { keys: parsed.data.keys, former: parsed.data.former ?? [] };
  const [issue] = parsed.error.issues;
  throw new Error(`${fileIn(dataDir)} cannot be used: ${issue?.path.join('.')}: ${issue?.message}.`);
}

function isEd25519(pem: string): boolean {
  if (pem.length > PEM_MAX_LENGTH) return false;
  try {
    return createPublicKey(pem).asymmetricKeyType === 'ed25519';
  } catch {
    return false;
  }
}
