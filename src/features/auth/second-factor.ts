// Each code works once: an app code advances the newest accepted time step in one conditional update, and a recovery code is
// removed. Recovery codes have only 40 bits, so they are stored as argon2id hashes under one salt per person. Guesses are
// counted in a transaction of their own: five per sign-in, fifteen per person in a quarter of an hour.
import { randomBytes, randomInt } from 'node:crypto';
import { raw } from 'objection';
import type { Tx } from '../../platform/db/transaction.ts';
import { hashWithSalt, verifyPassword } from '../../platform/secrets/passwords.ts';
import { sealContext, type Encryptor } from '../../platform/secrets/sealed.ts';
import { RecoveryCode, StoredFactor } from './auth.model.ts';
import { Secret, TOTP } from 'otpauth';
import { clock } from '../../clock.ts';
import type { Context, DetachedContext } from '../../platform/context.ts';
import { AppError, invalid } from '../../platform/errors.ts';
import { User } from '../users/index.ts';
import { FRESH_MINUTES, lockOpenSession, isFreshFromProvider } from './session.service.ts';
import type { SignInLimits } from './sign-in-limits.ts';

/** A user's second factor, opened. Functions that hash take no transaction: hashing happens before one is opened. */
export interface Factor {
  secret: string;
  /** Changes with each set of recovery codes, so it also identifies the set. */
  recoverySalt: string;
  /** Whether the authenticator app is enabled. */
  enabled: boolean;
}

export async function factorOf(tx: Tx, encryptor: Encryptor, userId: string): Promise<Factor | undefined> {
  const stored = await StoredFactor.query(tx).findById(userId);
  if (stored === undefined) return undefined;
  const context = sealContext('user_mfa', 'secret', userId);
  const { text, stale } = encryptor.open(stored.secret, context);
  if (stale) {
    await StoredFactor.query(tx)
      .where({ user_id: userId, secret: stored.secret })
      .patch({ secret: encryptor.seal(text, context) });
  }
  return { secret: text, recoverySalt: stored.recoverySalt, enabled: stored.enabledAt !== null };
}

/** A code, evaluated as far as possible without the database. */
export type ReadCode = { recoverySalt: string } & ({ step: number } | { hash: string });

/**
 * `undefined` for a code that cannot be correct.
 * @param isEnabling  whether codes of an app count that is not enabled yet
 */
export async function readCode(
  { secret, recoverySalt, enabled }: Factor,
  code: string,
  isEnabling = false,
): Promise<ReadCode | undefined> {
  if (isTotpCode(code)) {
    const step = enabled || isEnabling ? stepOf(secret, code) : undefined;
    return step === undefined ? undefined : { recoverySalt, step };
  }
  const recoveryCode = recoveryCodeFrom(code);
  return recoveryCode === undefined
    ? undefined
    : { recoverySalt, hash: await hashOf(recoveryCode, recoverySalt) };
}

/**
 * Uses up a code. Of two requests with the same code, one is refused, and so is a code evaluated against a factor that has
 * been replaced since. If this returns false, the transaction must not be committed.
 */
export async function consumeCode(tx: Tx, userId: string, code: ReadCode): Promise<boolean> {
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

/** Adds the recovery codes of a person whose first second factor is a passkey, in place of an app that was not enabled. */
export async function addRecoveryCodesAlone(
  tx: Tx,
  encryptor: Encryptor,
  userId: string,
  fresh: RecoveryCodeSet,
): Promise<void> {
  await StoredFactor.query(tx).findById(userId).whereNull('enabled_at').delete();
  await StoredFactor.query(tx).insert({
    userId,
    secret: sealedSecret(encryptor, userId, newTotpSecret()),
    recoverySalt: fresh.salt,
  });
  await storeRecoveryCodes(tx, userId, fresh);
}

export const sealedSecret = (encryptor: Encryptor, userId: string, secret: string): string =>
  encryptor.seal(secret, sealContext('user_mfa', 'secret', userId));

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

/** The same refusal for every cause. */
export const wrongCode = () => new AppError('unauthenticated', 'The code is incorrect or has expired.');

/** The proof that a caller gives before they change their second factor. */
interface Claim {
  code?: string;
  /** Present if the caller must prove to own the account, and not only to hold its session. */
  owner?: { currentPassword?: string | undefined };
}

/**
 * The proof of the caller from before the transaction. It counts if the password is still the same in it and the code
 * unused.
 */
export interface Proof {
  passwordHash: string | null;
  /** The account has no password, and the sign-in of this session stood for it. */
  bySession: boolean;
  code: ReadCode | undefined;
}

/** What must hold of the account: whether its app is enabled, or whether it has any second factor. */
type WantedState = 'app' | 'no app' | 'any factor' | 'no factor';

/** Proofs of a signed-in user about their own account. */
export function ownProofs({
  encryptor,
  ownSecrets,
}: { encryptor: Encryptor } & Pick<SignInLimits, 'ownSecrets'>) {
  /** Throws unless what is claimed is correct. Runs outside any transaction, because hashing takes time. */
  async function prove(
    ctx: DetachedContext,
    wanted: WantedState,
    { owner, code: given }: Claim,
  ): Promise<Proof> {
    const { userId } = ctx.caller;
    const { person, factor, isFresh } = await ctx.withTenant(async (within) => ({
      person: await User.query(within.tx).findById(userId),
      factor: await factorOf(within.tx, encryptor, userId),
      isFresh: owner !== undefined && (await isFreshFromProvider(within)),
    }));
    const passwordHash = person?.passwordHash ?? null;
    const bySession = owner !== undefined && owner.currentPassword === undefined;
    if (bySession) assertReplacesPassword(passwordHash, isFresh);
    assertState({ app: factor?.enabled === true, any: person?.mfaEnabled === true }, wanted);
    await ownSecrets.take(userId);
    if (
      owner?.currentPassword !== undefined &&
      !(await verifyPassword(passwordHash, owner.currentPassword))
    ) {
      throw new AppError('unauthenticated', 'The password is incorrect.');
    }
    if (given === undefined) return { passwordHash, bySession, code: undefined };
    if (factor === undefined) throw new AppError('conflict', 'No second factor is set up.');
    const code = await readCode(factor, given, wanted === 'no app');
    if (code === undefined) throw wrongCode();
    return { passwordHash, bySession, code };
  }

  /** In the transaction of the change: what was proved must still hold, until the end of the transaction. */
  async function redeem(
    ctx: Context,
    wanted: WantedState,
    { passwordHash, bySession, code }: Proof,
  ): Promise<void> {
    const { userId } = ctx.caller;
    if (code !== undefined && !(await consumeCode(ctx.tx, userId, code))) throw wrongCode();
    const [person] = await User.query(ctx.tx)
      .where({ id: userId, password_hash: passwordHash, status: 'active' })
      .forUpdate();
    if (person === undefined) throw changedElsewhere();
    const app = (await factorOf(ctx.tx, encryptor, userId))?.enabled === true;
    assertState({ app, any: person.mfaEnabled }, wanted);
    if (bySession) await lockOpenSession(ctx);
    ctx.afterCommit(() => ownSecrets.forget(userId));
  }

  return { prove, redeem };
}

/** People whose account has no password prove with a fresh sign-in that it is theirs. All others use their password. */
function assertReplacesPassword(passwordHash: string | null, isFresh: boolean): void {
  if (passwordHash !== null) throw invalid('body.currentPassword', 'is required');
  if (isFresh) return;
  throw new AppError(
    'unauthenticated',
    `Your account has no password. Sign in again with single sign-on and repeat this within ${FRESH_MINUTES} minutes.`,
  );
}

function assertState({ app, any }: { app: boolean; any: boolean }, wanted: WantedState): void {
  switch (wanted) {
    case 'app':
      if (!app) throw new AppError('conflict', 'No authenticator app is enabled.');
      return;
    case 'no app':
      if (app) throw new AppError('conflict', 'An authenticator app is enabled. Disable it first.');
      return;
    case 'any factor':
      if (!any) throw new AppError('conflict', 'No second factor is enabled.');
      return;
    case 'no factor':
      if (any) throw new AppError('conflict', 'A second factor has just been enabled. Try again.');
      return;
    default:
      return wanted satisfies never;
  }
}

const changedElsewhere = () =>
  new AppError('conflict', 'The password has just been changed elsewhere. Try again.');

/** Codes of the second factor: those of an authenticator app (RFC 6238), and recovery codes. Pure. */

const PERIOD_SECONDS = 30;

/** Clocks differ, so the previous and the next step are accepted as well. */
const WINDOW = 1;

export const newTotpSecret = (): string => new Secret({ size: 20 }).base32;

export function otpAuthUrl(secret: string, label: string): string {
  return new TOTP({ issuer: 'Muster', label, secret: Secret.fromBase32(secret) }).toString();
}

/** The time step whose code this is, or `undefined` for a wrong one. */
function stepOf(secret: string, code: string, at: number = clock.now()): number | undefined {
  const delta = TOTP.validate({
    token: code,
    secret: Secret.fromBase32(secret),
    period: PERIOD_SECONDS,
    timestamp: at,
    window: WINDOW,
  });
  return delta === null ? undefined : TOTP.counter({ period: PERIOD_SECONDS, timestamp: at }) + delta;
}

export const isTotpCode = (code: string): boolean => /^\d{6}$/.test(code);

/** 32 characters that are easy to tell apart. */
const ALPHABET = '23456789ABCDEFGHJKLMNPQRSTUVWXYZ';

const RECOVERY_CODES = 10;

function newRecoveryCodes(): string[] {
  const codes = new Set<string>();
  while (codes.size < RECOVERY_CODES) {
    const text = Array.from({ length: 8 }, () => ALPHABET[randomInt(ALPHABET.length)]).join('');
    codes.add(`${text.slice(0, 4)}-${text.slice(4)}`);
  }
  return [...codes];
}

/** A recovery code in its original form, however it was typed; `undefined` for anything else. */
function recoveryCodeFrom(typed: string): string | undefined {
  const text = typed.toUpperCase().replaceAll(/[\s-]/g, '');
  return new RegExp(`^[${ALPHABET}]{8}$`).test(text) ? `${text.slice(0, 4)}-${text.slice(4)}` : undefined;
}
