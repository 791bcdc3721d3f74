import { randomBytes } from 'node:crypto';
import type { Tx } from '../../../platform/db/transaction.ts';
import { hashWithSalt } from '../../../platform/secrets/passwords.ts';
import { sealContext, type Sealer } from '../../../platform/secrets/sealed.ts';
import { isTotpCode, newRecoveryCodes, recoveryCodeFrom, stepOf } from './totp.ts';

/** A person's second factor as it is stored. Whatever hashes takes no transaction: that is done before one is opened. */
export interface Factor {
  secret: string;
  /** New with each set of recovery codes, so it also tells whether a factor is still the same. */
  recoverySalt: string;
  enabled: boolean;
}

export async function factorOf(tx: Tx, sealer: Sealer, userId: string): Promise<Factor | undefined> {
  const row = await tx('user_mfa').where({ user_id: userId }).first('secret', 'recovery_salt', 'enabled_at');
  if (row === undefined) return undefined;
  const context = sealContext('user_mfa', 'secret', userId);
  const { text, stale } = sealer.open(row.secret, context);
  if (stale) {
    await tx('user_mfa')
      .where({ user_id: userId, secret: row.secret })
      .update({ secret: sealer.seal(text, context) });
  }
  return { secret: text, recoverySalt: row.recovery_salt, enabled: row.enabled_at !== null };
}

/** A code, worked out as far as it goes without the database. */
export type ReadCode = { recoverySalt: string } & ({ step: number } | { hash: string });

/** `undefined` for what cannot be a right code, whatever is stored. */
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
 * Spends a code, so that it never opens again; of two that bring it at once, one is refused. So is one that was read
 * from a factor that has been replaced since. Where it answers false its transaction must not be committed.
 */
export async function spend(tx: Tx, userId: string, code: ReadCode): Promise<boolean> {
  const factor = tx('user_mfa').where({ user_id: userId, recovery_salt: code.recoverySalt });
  if ('step' in code) {
    return (await factor.where('last_step', '<', code.step).update({ last_step: code.step, tries: 0 })) === 1;
  }
  // Locked before its codes: else two that replace them might wait for each other.
  if ((await factor.update({ tries: 0 })) !== 1) return false;
  const taken = await tx('mfa_recovery_codes')
    .where({ user_id: userId, code_hash: code.hash })
    .whereNull('used_at')
    .update({ used_at: tx.fn.now() });
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

/** In the place of those that were there. Its salt is the caller's to store. */
export async function storeRecoveryCodes(tx: Tx, userId: string, { hashes }: RecoveryCodeSet): Promise<void> {
  await tx('mfa_recovery_codes').where({ user_id: userId }).delete();
  await tx('mfa_recovery_codes').insert(hashes.map((hash) => ({ user_id: userId, code_hash: hash })));
}

/**
 * A slow hash, unlike that of our tokens: eight characters out of 32 are 40 bits, few enough to be written down and
 * typed. Whoever stole the table would try all of them (10¹²) in minutes with SHA-256, and in some 800 years of one core
 * with this one. From 64 bits on SHA-256 would do.
 */
const hashOf = (code: string, salt: string): Promise<string> => hashWithSalt(code, Buffer.from(salt, 'hex'));
