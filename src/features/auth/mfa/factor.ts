import { randomBytes } from 'node:crypto';
import { raw } from 'objection';
import type { Tx } from '../../../platform/db/transaction.ts';
import { hashWithSalt } from '../../../platform/secrets/passwords.ts';
import { sealContext, type Sealer } from '../../../platform/secrets/sealed.ts';
import { RecoveryCode, StoredFactor } from './second-factor.model.ts';
import { isTotpCode, newRecoveryCodes, recoveryCodeFrom, stepOf } from './totp.ts';

/** A user's second factor, opened. Functions that hash take no transaction: hashing happens before one is opened. */
export interface Factor {
  secret: string;
  /** Changes with each set of recovery codes, so it also identifies the set. */
  recoverySalt: string;
  enabled: boolean;
}

export async function factorOf(tx: Tx, sealer: Sealer, userId: string): Promise<Factor | undefined> {
  const stored = await StoredFactor.query(tx).findById(userId);
  if (stored === undefined) return undefined;
  const context = sealContext('user_mfa', 'secret', userId);
  const { text, stale } = sealer.open(stored.secret, context);
  if (stale) {
    await StoredFactor.query(tx)
      .where({ user_id: userId, secret: stored.secret })
      .patch({ secret: sealer.seal(text, context) });
  }
  return { secret: text, recoverySalt: stored.recoverySalt, enabled: stored.enabledAt !== null };
}

/** A code, evaluated as far as possible without the database. */
export type ReadCode = { recoverySalt: string } & ({ step: number } | { hash: string });

/** `undefined` for a code that cannot be correct. */
export async function readCode(
  { secret, recoverySalt }: Factor,
  code: string,
): Promise<ReadCode | undefined> {
  if (isTotpCode(code)) {
    const step = stepOf(secret, code);
    return step === undefined ? undefined : { recoverySalt, step };
  }
  const recoveryCode = recoveryCodeFrom(code);
  return recoveryCode === undefined
    ? undefined
    : { recoverySalt, hash: await hashOf(recoveryCode, recoverySalt) };
}

/**
 * Uses up a code. Of two requests with the same code, one is refused, and so is a code evaluated against a factor that has
 * been replaced since. Where this returns false, the transaction must not be committed.
 */
export async function spend(tx: Tx, userId: string, code: ReadCode): Promise<boolean> {
  const factor = StoredFactor.query(tx).where({ user_id: userId, recovery_salt: code.recoverySalt });
  if ('step' in code) {
    const { step } = code;
    return (await factor.where('last_step', '<', step).patch({ lastStep: String(step), tries: 0 })) === 1;
  }
  // The factor is locked before its codes, so that two requests that replace them never deadlock.
  if ((await factor.patch({ tries: 0 })) !== 1) return false;
  const taken = await RecoveryCode.query(tx)
    .findById([userId, code.hash])
    .whereNull('used_at')
    .patch({ usedAt: raw('now()') });
  return taken === 1;
}

export interface RecoveryCodeSet {
  salt: string;
  codes: string[];
  hashes: string[];
}

export async function newRecoveryCodeSet(): Promise<RecoveryCodeSet> {
  const salt = randomBytes(16).toString('hex');
  const codes = newRecoveryCodes();
  return { salt, codes, hashes: await Promise.all(codes.map((code) => hashOf(code, salt))) };
}

export const unusedRecoveryCodes = (tx: Tx, userId: string): Promise<number> =>
  RecoveryCode.query(tx).where('user_id', userId).whereNull('used_at').resultSize();

/** Replaces the stored codes. The caller stores the salt. */
export async function storeRecoveryCodes(tx: Tx, userId: string, { hashes }: RecoveryCodeSet): Promise<void> {
  await RecoveryCode.query(tx).where('user_id', userId).delete();
  await RecoveryCode.query(tx).insert(hashes.map((codeHash) => ({ userId, codeHash })));
}

/**
 * A slow hash, unlike the one of our tokens: eight characters out of 32 are 40 bits, few enough to write down and type. With
 * a stolen table, trying all 10¹² codes takes minutes with SHA-256, and some 800 years of one core with this hash. From 64
 * bits on SHA-256 would be enough.
 */
const hashOf = (code: string, salt: string): Promise<string> => hashWithSalt(code, Buffer.from(salt, 'hex'));
