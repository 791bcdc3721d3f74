import { createPublicKey, type KeyObject, sign, verify } from 'node:crypto';
import { z } from 'zod';
import type { SigningKey } from '../../../platform/secrets/key-pair.ts';
import { canonicalJson } from './canonical-json.ts';
import { sha256 } from './chain.ts';

/**
 * A signed statement about a chain: "entry `seq` has this checksum". An attacker who can write to the database can
 * recompute a whole chain but cannot sign its head. `cut`: everything up to and including `seq` was pruned.
 */
export const Checkpoint = z.strictObject({
  chainId: z.string(),
  kind: z.enum(['head', 'cut']),
  /** The number of the checkpoint within its chain, starting at 1. */
  number: z.number(),
  seq: z.number(),
  checksum: z.string(),
  /** The hash of the previous checkpoint; null for the first. */
  previous: z.string().nullable(),
  at: z.string(),
  keyId: z.string(),
  /** Ed25519 over the canonical JSON of all other fields plus `type`; base64url. */
  signature: z.string(),
});
export type Checkpoint = z.infer<typeof Checkpoint>;

export const PublicKey = z.object({
  keyId: z.uuid(),
  algorithm: z.literal('Ed25519'),
  publicKey: z.string().describe('PEM, as `openssl pkey -pubin` reads it.'),
  createdAt: z.iso.datetime(),
  retiredAt: z.iso.datetime().nullable().describe('When the key stopped signing; null while it is in use.'),
});
export type PublicKey = z.infer<typeof PublicKey>;

type Statement = Omit<Checkpoint, 'signature'>;

/** The text that is signed. Its `type` keeps the signature from being valid for anything but a checkpoint. */
const signedText = ({ chainId, kind, number, seq, checksum, previous, at, keyId }: Statement): string =>
  canonicalJson({
    type: 'muster-audit-checkpoint',
    v: 1,
    chainId,
    kind,
    number,
    seq,
    checksum,
    previous,
    at,
    keyId,
  });

export function signCheckpoint(statement: Omit<Statement, 'keyId'>, key: SigningKey): Checkpoint {
  const whole = { ...statement, keyId: key.keyId };
  const signature = sign(null, Buffer.from(signedText(whole)), key.privateKey).toString('base64url');
  return { ...whole, signature };
}

export function isSignedBy(checkpoint: Checkpoint, publicKey: KeyObject): boolean {
  return verify(
    null,
    Buffer.from(signedText(checkpoint)),
    publicKey,
    Buffer.from(checkpoint.signature, 'base64url'),
  );
}

/** The hash by which the next checkpoint refers to this one. */
export const checkpointHash = (checkpoint: Checkpoint): string =>
  sha256(signedText(checkpoint) + checkpoint.signature);

/** The short form in which people compare keys. */
export const fingerprintOf = (publicKey: string): string =>
  sha256(createPublicKey(publicKey).export({ type: 'spki', format: 'der' }).toString('base64')).slice(0, 32);
