import { createPublicKey } from 'node:crypto';
import path from 'node:path';
import { z } from 'zod';
import { canonicalReleaseKey, RELEASE_KEYS_MAX, ReleaseKey } from '../../../protocol/index.ts';
import { readPrivateJson, writePrivateJson } from '../files/private-file.ts';
import { isSigned } from './release-check.ts';

/** The keys whose releases this machine installs. Enrollment writes them; those that they have signed are added later. */

const PEM_MAX_LENGTH = 1000;

const KeyList = z.array(ReleaseKey).max(RELEASE_KEYS_MAX);
const TrustedKeys = z.object({
  keys: KeyList,
  /** Those of a server that this machine has left: what is installed still starts, and nothing new is installed. */
  former: KeyList.optional(),
});

const fileIn = (dataDir: string) => path.join(dataDir, 'upgrades', 'trusted-keys.json');

/** Replaces the trusted keys. One that is no Ed25519 key is left out, because no signature of it can hold. */
export async function saveTrustedKeys(dataDir: string, keys: readonly ReleaseKey[]): Promise<void> {
  const usable = keys.filter(({ publicKey }) => isEd25519(publicKey)).slice(-RELEASE_KEYS_MAX);
  const before = await load(dataDir).catch(() => ({ keys: [], former: [] }));
  const isNew = ({ publicKey }: ReleaseKey) => usable.every((key) => key.publicKey !== publicKey);
  const former = [...before.former, ...before.keys].filter(isNew).slice(-RELEASE_KEYS_MAX);
  await writePrivateJson(fileIn(dataDir), { keys: usable, ...(former.length > 0 ? { former } : {}) });
}

/** Empty where the server has given none: then nothing is installed. Throws where the file cannot be used. */
export const loadTrustedKeys = async (dataDir: string): Promise<ReleaseKey[]> => (await load(dataDir)).keys;

/** The keys that count for what is already installed: PEM by key id. Throws where the file cannot be used. */
export async function keysForStart(dataDir: string): Promise<ReadonlyMap<string, string>> {
  const { keys, former } = await load(dataDir);
  return pemById([...former, ...keys]);
}

export const pemById = (keys: readonly ReleaseKey[]): ReadonlyMap<string, string> =>
  new Map(keys.map(({ id, publicKey }) => [id, publicKey]));

/**
 * Adds those of the offered keys that trusted ones vouch for. Where no key is trusted yet, all are added: an agent that
 * was enrolled before there were keys trusts its server as it did at the enrollment. Returns how many were added.
 */
export async function extendTrust(dataDir: string, offered: readonly ReleaseKey[]): Promise<number> {
  const trusted = await loadTrustedKeys(dataDir);
  const added = trusted.length === 0 ? [...offered] : vouchedFor(trusted, offered);
  if (added.length > 0) await saveTrustedKeys(dataDir, [...trusted, ...added]);
  return added.length;
}

/** The keys that are not trusted yet and that a chain of signatures leads to. Pure. */
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
