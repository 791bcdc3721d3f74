import {
  type ReadCode,
  factorOf,
  newRecoveryCodeSet,
  readCode,
  type RecoveryCodeSet,
  consumeCode,
  storeRecoveryCodes,
  unusedRecoveryCodes,
  isTotpCode,
  newTotpSecret,
  otpAuthUrl,
  ownProofs,
  type Proof,
  sealedSecret,
  wrongCode,
} from './second-factor.ts';
import { randomBytes } from 'node:crypto';
import { raw } from 'objection';
import type { Context, DetachedContext, PublicContext } from '../../platform/context.ts';
import type { Tx } from '../../platform/db/transaction.ts';
import { AppError } from '../../platform/errors.ts';
import type { Encryptor } from '../../platform/secrets/sealed.ts';
import { tokenHash } from '../../platform/secrets/tokens.ts';
import { type BreakGlassGuard, User } from '../users/index.ts';
import type {
  MfaConfirmation,
  MfaEnabling,
  MfaSecret,
  MfaSetup,
  MfaStepUp,
  MfaVerification,
  SecondFactorRequired,
  SecondFactors,
} from './auth.schema.ts';
import { addSecondFactor, assertFreshSecondFactor } from './session.service.ts';
import type { SignInLimits } from './sign-in-limits.ts';
import { MfaChallenge, StoredFactor, StoredPasskey } from './auth.model.ts';
import { countTry } from './auth.queries.ts';

const CHALLENGE_MINUTES = 5;

export interface Renewal {
  proof: Proof;
  fresh: RecoveryCodeSet;
}

/** An attempt at the second factor of a sign-in that was found. */
export interface Attempt {
  userId: string;
  /** The hash of the challenge's token. */
  hash: string;
  /** The token hash of the invitation that this sign-in accepts. */
  invitation: string | undefined;
}

/** The same with a code. */
interface CodeAttempt extends Attempt {
  read: ReadCode | undefined;
}

export type SecondFactor = ReturnType<typeof createSecondFactor>;

export function createSecondFactor({
  encryptor,
  limits: { ownSecrets },
  breakGlassGuard,
}: {
  encryptor: Encryptor;
  limits: Pick<SignInLimits, 'ownSecrets'>;
  breakGlassGuard: BreakGlassGuard;
}) {
  const { prove, redeem } = ownProofs({ encryptor, ownSecrets });

  /** A proof with a code, or with the password alone where the session has a fresh second factor. */
  async function proveConfirmed(
    ctx: DetachedContext,
    wanted: 'app' | 'any factor',
    { currentPassword, code }: MfaConfirmation,
  ): Promise<Proof> {
    if (code === undefined) await ctx.withTenant(assertFreshSecondFactor);
    return prove(ctx, wanted, { owner: { currentPassword }, ...(code === undefined ? {} : { code }) });
  }

  /** Counts an attempt at a challenge. Throws `unauthenticated` if it is not open, and `rate_limited`. */
  async function count(ctx: PublicContext, tempToken: string): Promise<Attempt> {
    const hash = tokenHash(tempToken);
    // In a transaction of its own, so that a wrong answer does not roll the count back.
    const counted = await ctx.withSystem('count an attempt at a second factor', (tx) => countTry(tx, hash));
    if (counted === undefined) throw wrongCode();
    const { userId, invitation, retryAfterMs } = counted;
    if (retryAfterMs > 0) {
      throw new AppError('rate_limited', 'Too many attempts. Try again later.', { retryAfterMs });
    }
    return { userId, hash, invitation };
  }

  /**
   * Completes the challenge. `isProved` and `proceed` run in the transaction that uses up the challenge.
   */
  async function meetWith<T>(
    ctx: PublicContext,
    { hash }: Attempt,
    isProved: (tx: Tx) => Promise<boolean>,
    proceed: (tx: Tx) => Promise<T>,
  ): Promise<T> {
    return ctx.withSystem('finish a sign-in with a second factor', async (tx) => {
      const fits = await isProved(tx);
      const met = await MfaChallenge.query(tx)
        .findById(hash)
        .whereNull('used_at')
        .patch({ usedAt: raw('now()') });
      if (!fits || met !== 1) {
        ctx.log.info({ requestId: ctx.requestId, ip: ctx.client.ip }, 'auth.second_factor_refused');
        throw wrongCode();
      }
      return proceed(tx);
    });
  }

  return {
    count,
    meetWith,

    /** Which second factors the caller has. */
    async describe({ tx, caller: { userId } }: Context): Promise<SecondFactors> {
      const { mfaEnabled } = await User.query(tx).findById(userId).throwIfNotFound();
      const factor = await StoredFactor.query(tx).findById(userId);
      return {
        mfaEnabled,
        app: factor !== undefined && factor.enabledAt !== null,
        passkeys: await StoredPasskey.query(tx).where('user_id', userId).resultSize(),
        recoveryCodes: mfaEnabled ? await unusedRecoveryCodes(tx, userId) : 0,
      };
    },

    /**
     * Creates a secret and recovery codes. They take effect with `enable`; until then each call replaces the last. A person
     * with passkeys has recovery codes already, which stay.
     */
    async setUp(ctx: DetachedContext, input: MfaSetup): Promise<MfaSecret> {
      const { userId, email } = ctx.caller;
      const proof = await prove(ctx, 'no app', { owner: input });
      const secret = newTotpSecret();
      const fresh = await newRecoveryCodeSet();
      const recoveryCodes = await ctx.withTenant(async (within) => {
        const { tx } = within;
        await redeem(within, 'no app', proof);
        const sealed = sealedSecret(encryptor, userId, secret);
        const pending = StoredFactor.query(tx).findById(userId).whereNull('enabled_at');
        if ((await User.query(tx).findById(userId).throwIfNotFound()).mfaEnabled) {
          await assertFreshSecondFactor(within);
          await pending.patch({ secret: sealed, lastStep: '0' });
          return [];
        }
        // A factor that was enabled a moment ago stays, and makes the insert fail.
        await pending.delete();
        await StoredFactor.query(tx).insert({ userId, secret: sealed, recoverySalt: fresh.salt });
        await storeRecoveryCodes(tx, userId, fresh);
        return fresh.codes;
      });
      return { secret, otpAuthUrl: otpAuthUrl(secret, email), recoveryCodes };
    },

    async proveForEnabling(ctx: DetachedContext, input: MfaEnabling): Promise<Proof> {
      // A recovery code would not prove that the app works.
      return prove(ctx, 'no app', { code: isTotpCode(input.code) ? input.code : '' });
    },

    /** The session in which it is set up has proved it, and need not wait for the next code. */
    async enable(ctx: Context, proof: Proof) {
      await redeem(ctx, 'no app', proof);
      const { userId } = ctx.caller;
      const { mfaEnabled } = await User.query(ctx.tx).findById(userId).throwIfNotFound();
      await StoredFactor.query(ctx.tx)
        .findById(userId)
        .patch({ enabledAt: raw('now()') });
      await User.query(ctx.tx).findById(userId).patch({ mfaEnabled: true });
      await addSecondFactor(ctx);
      ctx.recordChange({ mfaEnabled, app: false }, { mfaEnabled: true, app: true });
      return { success: true as const };
    },

    proveForDisabling: (ctx: DetachedContext, input: MfaConfirmation) => proveConfirmed(ctx, 'app', input),

    /** The recovery codes stay with the passkeys, if there are any. */
    async disable(ctx: Context, proof: Proof) {
      await redeem(ctx, 'app', proof);
      const { userId, orgId, partnerId } = ctx.caller;
      const mfaEnabled = (await StoredPasskey.query(ctx.tx).where('user_id', userId).resultSize()) > 0;
      const factor = StoredFactor.query(ctx.tx).findById(userId);
      if (mfaEnabled) {
        await factor.patch({ secret: sealedSecret(encryptor, userId, newTotpSecret()), enabledAt: null });
      } else await factor.delete();
      await User.query(ctx.tx).findById(userId).patch({ mfaEnabled });
      ctx.recordChange({ mfaEnabled: true, app: true }, { mfaEnabled, app: false });
      await breakGlassGuard.assertRemains(ctx.tx, { id: userId, orgId, partnerId });
      return { success: true as const };
    },

    async proveForRenewal(ctx: DetachedContext, input: MfaConfirmation): Promise<Renewal> {
      return { proof: await proveConfirmed(ctx, 'any factor', input), fresh: await newRecoveryCodeSet() };
    },

    async renewRecoveryCodes(ctx: Context, { proof, fresh }: Renewal) {
      const { userId } = ctx.caller;
      await redeem(ctx, 'any factor', proof);
      const before = await unusedRecoveryCodes(ctx.tx, userId);
      await StoredFactor.query(ctx.tx).findById(userId).patch({ recoverySalt: fresh.salt });
      await storeRecoveryCodes(ctx.tx, userId, fresh);
      ctx.recordChange({ unusedCodes: `earlier: ${before}` }, { unusedCodes: `new: ${fresh.codes.length}` });
      return { recoveryCodes: fresh.codes };
    },

    proveForStepUp: (ctx: DetachedContext, input: MfaStepUp) => prove(ctx, 'any factor', input),

    /** Makes the caller's session one that has a second factor, as if it had been opened with it. */
    async stepUp(ctx: Context, proof: Proof): Promise<{ sessionId: string }> {
      await redeem(ctx, 'any factor', proof);
      return { sessionId: await addSecondFactor(ctx) };
    },

    /** Issues a token, after a correct password, that opens a session together with a second factor. */
    async challenge(
      tx: Tx,
      userId: string,
      invitation?: string,
    ): Promise<Pick<SecondFactorRequired, 'tempToken' | 'methods'>> {
      const token = randomBytes(32).toString('base64url');
      await MfaChallenge.query(tx).where('user_id', userId).whereRaw('expires_at < now()').delete();
      await MfaChallenge.query(tx).insert({
        tokenHash: tokenHash(token),
        userId,
        expiresAt: raw(`now() + interval '${CHALLENGE_MINUTES} minutes'`),
        invitationTokenHash: invitation ?? null,
      });
      const app = (await StoredFactor.query(tx).findById(userId))?.enabledAt != null;
      const passkey = (await usablePasskeys(tx, userId)).length > 0;
      return {
        tempToken: token,
        methods: [
          ...(app ? (['app'] as const) : []),
          'recovery_code',
          ...(passkey ? (['passkey'] as const) : []),
        ],
      };
    },

    /** Counts an attempt at a challenge and evaluates its code. */
    async attempt(ctx: PublicContext, { tempToken, code }: MfaVerification): Promise<CodeAttempt> {
      const counted = await count(ctx, tempToken);
      const { userId } = counted;
      const factor = await ctx.withSystem('read a second factor', async (tx) =>
        (await User.query(tx).findById(userId))?.mfaEnabled === true
          ? factorOf(tx, encryptor, userId)
          : undefined,
      );
      return { ...counted, read: factor && (await readCode(factor, code)) };
    },

    /** Completes the challenge with a code; `proceed` runs in the transaction that uses both up. */
    meet: <T>(ctx: PublicContext, attempt: CodeAttempt, proceed: (tx: Tx) => Promise<T>): Promise<T> =>
      meetWith(
        ctx,
        attempt,
        async (tx) => attempt.read !== undefined && consumeCode(tx, attempt.userId, attempt.read),
        proceed,
      ),
  };
}

/** The passkeys that can still be used, the oldest first. */
export const usablePasskeys = (tx: Tx, userId: string) =>
  StoredPasskey.query(tx).where('user_id', userId).whereNull('suspect_at').orderBy(['created_at', 'id']);
