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
  wrongCode,
} from './second-factor.ts';
import { randomBytes } from 'node:crypto';
import { raw } from 'objection';
import type { Context, DetachedContext, PublicContext } from '../../platform/context.ts';
import type { Tx } from '../../platform/db/transaction.ts';
import { AppError } from '../../platform/errors.ts';
import { sealContext, type Encryptor } from '../../platform/secrets/sealed.ts';
import { tokenHash } from '../../platform/secrets/tokens.ts';
import { type BreakGlassGuard, User } from '../users/index.ts';
import type {
  MfaConfirmation,
  MfaEnabling,
  MfaSecret,
  MfaSetup,
  MfaStepUp,
  MfaVerification,
} from './auth.schema.ts';
import { addSecondFactor } from './session.service.ts';
import type { SignInLimits } from './sign-in-limits.ts';
import { MfaChallenge, StoredFactor } from './auth.model.ts';
import { countTry } from './auth.queries.ts';

const CHALLENGE_MINUTES = 5;

export interface Renewal {
  proof: Proof;
  fresh: RecoveryCodeSet;
}

/** An attempt at a second factor, for a challenge that was found. */
interface Attempt {
  userId: string;
  /** The hash of the challenge's token. */
  hash: string;
  read: ReadCode | undefined;
  /** The token hash of the invitation that this sign-in accepts. */
  invitation: string | undefined;
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

  return {
    /** Creates a secret and recovery codes. They take effect with `enable`; until then each call replaces the last. */
    async setUp(ctx: DetachedContext, input: MfaSetup): Promise<MfaSecret> {
      const { userId, email } = ctx.caller;
      const proof = await prove(ctx, 'not enabled', { owner: input });
      const secret = newTotpSecret();
      const fresh = await newRecoveryCodeSet();
      await ctx.withTenant(async (within) => {
        const { tx } = within;
        await redeem(within, 'not enabled', proof);
        // A factor that was enabled a moment ago stays, and makes the insert fail.
        await StoredFactor.query(tx).findById(userId).whereNull('enabled_at').delete();
        await StoredFactor.query(tx).insert({
          userId,
          secret: encryptor.seal(secret, sealContext('user_mfa', 'secret', userId)),
          recoverySalt: fresh.salt,
        });
        await storeRecoveryCodes(tx, userId, fresh);
      });
      return { secret, otpAuthUrl: otpAuthUrl(secret, email), recoveryCodes: fresh.codes };
    },

    async proveForEnabling(ctx: DetachedContext, input: MfaEnabling): Promise<Proof> {
      // A recovery code would not prove that the app works.
      return prove(ctx, 'not enabled', { code: isTotpCode(input.code) ? input.code : '' });
    },

    /** The session in which it is set up has proved it, and need not wait for the next code. */
    async enable(ctx: Context, proof: Proof) {
      await redeem(ctx, 'not enabled', proof);
      await StoredFactor.query(ctx.tx)
        .findById(ctx.caller.userId)
        .patch({ enabledAt: raw('now()') });
      await User.query(ctx.tx).findById(ctx.caller.userId).patch({ mfaEnabled: true });
      await addSecondFactor(ctx);
      ctx.recordChange({ mfaEnabled: false }, { mfaEnabled: true });
      return { success: true as const };
    },

    proveForDisabling: (ctx: DetachedContext, input: MfaConfirmation) =>
      prove(ctx, 'enabled', { owner: input, code: input.code }),

    async disable(ctx: Context, proof: Proof) {
      await redeem(ctx, 'enabled', proof);
      const { userId, orgId, partnerId } = ctx.caller;
      await StoredFactor.query(ctx.tx).deleteById(userId);
      await User.query(ctx.tx).findById(userId).patch({ mfaEnabled: false });
      ctx.recordChange({ mfaEnabled: true }, { mfaEnabled: false });
      await breakGlassGuard.assertRemains(ctx.tx, { id: userId, orgId, partnerId });
      return { success: true as const };
    },

    async proveForRenewal(ctx: DetachedContext, input: MfaConfirmation): Promise<Renewal> {
      return {
        proof: await prove(ctx, 'enabled', { owner: input, code: input.code }),
        fresh: await newRecoveryCodeSet(),
      };
    },

    async renewRecoveryCodes(ctx: Context, { proof, fresh }: Renewal) {
      const { userId } = ctx.caller;
      await redeem(ctx, 'enabled', proof);
      const before = await unusedRecoveryCodes(ctx.tx, userId);
      await StoredFactor.query(ctx.tx).findById(userId).patch({ recoverySalt: fresh.salt });
      await storeRecoveryCodes(ctx.tx, userId, fresh);
      ctx.recordChange({ unusedCodes: `earlier: ${before}` }, { unusedCodes: `new: ${fresh.codes.length}` });
      return { recoveryCodes: fresh.codes };
    },

    proveForStepUp: (ctx: DetachedContext, input: MfaStepUp) => prove(ctx, 'enabled', input),

    /** Makes the caller's session one that has a second factor, as if it had been opened with it. */
    async stepUp(ctx: Context, proof: Proof): Promise<{ sessionId: string }> {
      await redeem(ctx, 'enabled', proof);
      return { sessionId: await addSecondFactor(ctx) };
    },

    /** Issues a token, after a correct password, that opens a session together with a code. */
    async challenge(tx: Tx, userId: string, invitation?: string): Promise<string> {
      const token = randomBytes(32).toString('base64url');
      await MfaChallenge.query(tx).where('user_id', userId).whereRaw('expires_at < now()').delete();
      await MfaChallenge.query(tx).insert({
        tokenHash: tokenHash(token),
        userId,
        expiresAt: raw(`now() + interval '${CHALLENGE_MINUTES} minutes'`),
        invitationTokenHash: invitation ?? null,
      });
      return token;
    },

    /** Counts an attempt at a challenge and evaluates its code. */
    async attempt(ctx: PublicContext, { tempToken, code }: MfaVerification): Promise<Attempt> {
      const hash = tokenHash(tempToken);
      // Counted in a transaction of its own, so that a wrong code does not roll the count back.
      const attempt = await ctx.withSystem('count an attempt at a second factor', async (tx) => {
        const counted = await countTry(tx, hash);
        return counted && { ...counted, factor: await factorOf(tx, encryptor, counted.userId) };
      });
      if (attempt === undefined) throw wrongCode();
      const { userId, invitation, retryAfterMs, factor } = attempt;
      if (retryAfterMs > 0) {
        throw new AppError('rate_limited', 'Too many attempts. Try again later.', { retryAfterMs });
      }
      const read = factor?.enabled === true ? await readCode(factor, code) : undefined;
      return { userId, hash, read, invitation };
    },

    /** Completes the challenge; `proceed` runs in the transaction that uses up the challenge and the code. */
    async meet<T>(
      ctx: PublicContext,
      { userId, hash, read }: Attempt,
      proceed: (tx: Tx) => Promise<T>,
    ): Promise<T> {
      return ctx.withSystem('finish a sign-in with a second factor', async (tx) => {
        const fits = read !== undefined && (await consumeCode(tx, userId, read));
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
    },
  };
}
