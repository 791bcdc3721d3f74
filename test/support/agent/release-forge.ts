import { createHash, generateKeyPairSync, type KeyObject, randomUUID, sign } from 'node:crypto';
import { mkdir, writeFile } from 'node:fs/promises';
import path from 'node:path';
import {
  ownPlatform,
  programFile,
  RELEASE_FILE,
  releaseFolder,
} from '../../../src/agent/os/releases/layout.ts';
import type { SignedRelease } from '../../../src/agent/os/releases/release-check.ts';
import {
  canonicalManifest,
  canonicalReleaseKey,
  ReleaseKey,
  type ReleaseManifest,
  type UpgradableComponent,
} from '../../../src/protocol/index.ts';

/** A key that signs releases, as a server has one. */
export interface SigningKey extends ReleaseKey {
  privateKey: KeyObject;
}

export function signingKey(voucher?: SigningKey): SigningKey {
  const { publicKey, privateKey } = generateKeyPairSync('ed25519');
  const key = { id: randomUUID(), publicKey: publicKey.export({ type: 'spki', format: 'pem' }).toString() };
  if (voucher === undefined) return { ...key, privateKey };
  const text = Buffer.from(canonicalReleaseKey(key));
  const signature = sign(null, text, voucher.privateKey).toString('base64url');
  return { ...key, signedBy: voucher.id, signature, privateKey };
}

/** The part of a key that a server publishes. */
export const published = (key: SigningKey): ReleaseKey => ReleaseKey.parse(key);

export function signed(
  key: SigningKey,
  bytes: Buffer,
  about: Partial<ReleaseManifest> & { version: string },
): SignedRelease {
  const manifest = {
    component: 'agent',
    ...ownPlatform(),
    sha256: createHash('sha256').update(bytes).digest('hex'),
    size: bytes.length,
    ...about,
  };
  const signature = sign(null, Buffer.from(canonicalManifest(manifest)), key.privateKey);
  return { manifest, signature: signature.toString('base64url'), keyId: key.id };
}

/** Puts a release where the launcher looks for it. */
export async function install(
  programs: string,
  release: SignedRelease,
  bytes: Buffer,
  version = release.manifest.version,
  component: UpgradableComponent = 'agent',
): Promise<void> {
  const folder = releaseFolder(programs, component, version);
  await mkdir(folder, { recursive: true });
  await writeFile(programFile(programs, component, version), bytes, { mode: 0o755 });
  await writeFile(path.join(folder, RELEASE_FILE), JSON.stringify(release));
}
