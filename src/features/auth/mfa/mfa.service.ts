import { randomBytes } from 'node:crypto';
import type { Context, DetachedContext, PublicContext } from '../../../platform/context.ts';
import type { Tx } from '../../../platform/db/transaction.ts';
import { AppError } from '../../../platform/errors.ts';
import { verifyPassword } from '../../../platform/secrets/passwords.ts';
import { sealContext, type Sealer } from '../../../platform/secrets/sealed.ts';
import { tokenHash } from '../../../platform/secrets/tokens.ts';
import { User } from '../../users/index.ts';
import {
  factorOf,
  newRecoveryCodeSet,
  type ReadCode,
  readCode,
  type RecoveryCodeSet,
  spend,
  storeRecoveryCodes,
} from './factor.ts';
import type { MfaConfirmation, MfaEnabling, MfaSecret, MfaSetup, MfaVerification } from './mfa.schema.ts';
import type { SignInLimits } from '../sign-in-limits.ts';
import { isTotpCode, newTotpSecret, otpAuthUrl } from './totp.ts';

const CHALLENGE_MINUTES = 5;
const TRIES_PER_CHALLENGE = 5;
/** Over all sign-ins of a person: whoever has the password could otherwise begin anew after each five tries. */
const TRIES_PER_WINDOW = 15;
const WINDOW_MINUTES = 15;

/** One refusal, whatever was wrong. */
export const wrongCode = () => new AppError('unauthenticated', 'The code is incorrect or has expired.');
const changedElsewhere = () =>
  new AppError('conflict', 'The password has just been changed elsewhere. Try again.');

/** What the caller has proved before the transaction. It counts where the password is the same in it, and the code
 * not spent. */
export interface Proof {
  passwordHash: string | null;
  code: ReadCode | undefined;
}

export interface Renewal {
  proof: Proof;
  fresh: RecoveryCodeSet;
}

/** A try at a second factor, of somebody whose challenge was found. */
interface Attempt {
  userId: string;
  /** Of the challenge's token. */
  hash: string;
  read: ReadCode | undefined;
  /** Of the invitation that the sign-in accepts: the hash of its token. */
  invitation: string | undefined;
}

export type SecondFactor = ReturnType<typeof createSecondFactor>;

export function createSecondFactor({
  sealer,
  limits: { ownSecrets },
}: {
  sealer: Sealer;
  limits: Pick<SignInLimits, 'ownSecrets'>;
}) {
  /** Throws unless the caller knows their password and the code, whichever is asked for. Outside of any transaction,
   * as hashing takes a while. */
  async function prove(
    ctx: DetachedContext,
    wanted: 'enabled' | 'not enabled',
    input: { currentPassword?: string; code?: string },
  ): Promise<Proof> {
    const { userId } = ctx.caller;
    const { passwordHash, factor } = await ctx.withTenant(async ({ tx }) => ({
      passwordHash: (await User.query(tx).findById(userId))?.passwordHash ?? null,
      factor: await factorOf(tx, sealer, userId),
    }));
    assertState(factor?.enabled === true, wanted);
    await ownSecrets.take(userId);
    if (input.currentPassword !== undefined && !(await verifyPassword(passwordHash, input.currentPassword))) {
      throw new AppError('unauthenticated', 'The password is wrong.');
    }
    if (input.code === undefined) return { passwordHash, code: undefined };
    if (factor === undefined) throw new AppError('conflict', 'No second factor is set up.');
    const code = await readCode(factor, input.code);
    if (code === undefined) throw wrongCode();
    return { passwordHash, code };
  }

  function assertState(enabled: boolean, wanted: 'enabled' | 'not enabled'): void {
    if (enabled && wanted === 'not enabled') {
      throw new AppError('conflict', 'A second factor is enabled. Disable it first.');
    }
    if (!enabled && wanted === 'enabled') throw new AppError('conflict', 'No second factor is enabled.');
  }

  /** In the transaction of the deed: what was proved must hold still, and until its end. */
  async function redeem(
    ctx: Context,
    wanted: 'enabled' | 'not enabled',
    { passwordHash, code }: Proof,
  ): Promise<void> {
    const { userId } = ctx.caller;
    if (code !== undefined && !(await spend(ctx.tx, userId, code))) throw wrongCode();
    assertState((await factorOf(ctx.tx, sealer, userId))?.enabled === true, wanted);
    const [person] = await User.query(ctx.tx)
      .where({ id: userId, password_hash: passwordHash, status: 'active' })
      .forUpdate();
    if (person === undefined) throw changedElsewhere();
    ctx.afterCommit(() => ownSecrets.forget(userId));
  }

  return {
    /** A fresh secret and recovery codes. They count from `enable` on; until then each call replaces the last. */
    async setUp(ctx: DetachedContext, input: MfaSetup): Promise<MfaSecret> {
      const { userId, email } = ctx.caller;
      const proof = await prove(ctx, 'not enabled', input);
      const secret = newTotpSecret();
      const fresh = await newRecoveryCodeSet();
      await ctx.withTenant(async (within) => {
        const { tx } = within;
        await redeem(within, 'not enabled', proof);
        // One that was enabled a moment ago stays, and the insert finds it in its way.
        await tx('user_mfa').where({ user_id: userId, enabled_at: null }).delete();
        await tx('user_mfa').insert({
          user_id: userId,
          secret: sealer.seal(secret, sealContext('user_mfa', 'secret', userId)),
          recovery_salt: fresh.salt,
        });
        await storeRecoveryCodes(tx, userId, fresh);
      });
      return { secret, otpAuthUrl: otpAuthUrl(secret, email), recoveryCodes: fresh.codes };
    },

    async proveForEnabling(ctx: DetachedContext, input: MfaEnabling): Promise<Proof> {
      // A recovery code would not show that the app works.
      return prove(ctx, 'not enabled', { code: isTotpCode(input.code) ? input.code : '' });
    },

    async enable(ctx: Context, proof: Proof) {
      await redeem(ctx, 'not enabled', proof);
      await ctx.tx('user_mfa').where({ user_id: ctx.caller.userId }).update({ enabled_at: ctx.tx.fn.now() });
      await User.query(ctx.tx).findById(ctx.caller.userId).patch({ mfaEnabled: true });
      return { success: true as const };
    },

    proveForDisabling: (ctx: DetachedContext, input: MfaConfirmation) => prove(ctx, 'enabled', input),

    async disable(ctx: Context, proof: Proof) {
      await redeem(ctx, 'enabled', proof);
      await ctx.tx('user_mfa').where({ user_id: ctx.caller.userId }).delete();
      await User.query(ctx.tx).findById(ctx.caller.userId).patch({ mfaEnabled: false });
      return { success: true as const };
    },

    async proveForRenewal(ctx: DetachedContext, input: MfaConfirmation): Promise<Renewal> {
      return { proof: await prove(ctx, 'enabled', input), fresh: await newRecoveryCodeSet() };
    },

    async renewRecoveryCodes(ctx: Context, { proof, fresh }: Renewal) {
      const { userId } = ctx.caller;
      await redeem(ctx, 'enabled', proof);
      await ctx.tx('user_mfa').where({ user_id: userId }).update({ recovery_salt: fresh.salt });
      await storeRecoveryCodes(ctx.tx, userId, fresh);
      return { recoveryCodes: fresh.codes };
    },

    /** After a right password: a token that opens a session together with a code. */
    async challenge(tx: Tx, userId: string, invitation?: string): Promise<string> {
      const token = randomBytes(32).toString('base64url');
      await tx('mfa_challenges').where({ user_id: userId }).where('expires_at', '<', tx.fn.now()).delete();
      await tx('mfa_challenges').insert({
        token_hash: tokenHash(token),
        user_id: userId,
        expires_at: tx.raw(`now() + interval '${CHALLENGE_MINUTES} minutes'`),
        invitation_token_hash: invitation ?? null,
      });
      return token;
    },

    /** Counts a try to meet a challenge, and reads its code. Answers whose challenge it is. */
    async attempt(ctx: PublicContext, { tempToken, code }: MfaVerification): Promise<Attempt> {
      const hash = tokenHash(tempToken);
      // Counted in a transaction of its own: a wrong code must not take its try back.
      const attempt = await ctx.withSystem('count a try at a second factor', async (tx) => {
        const counted = await countTry(tx, hash);
        return counted && { ...counted, factor: await factorOf(tx, sealer, counted.userId) };
      });
      if (attempt === undefined) throw wrongCode();
      const { userId, invitation, retryAfterMs, factor } = attempt;
      if (retryAfterMs > 0) {
        throw new AppError('rate_limited', 'Too many tries. Wait a while.', { retryAfterMs });
      }
      const read = factor?.enabled === true ? await readCode(factor, code) : undefined;
      return { userId, hash, read, invitation };
    },

    /** Meets the challenge; `proceed` runs in the transaction that spends both. */
    async meet<T>(
      ctx: PublicContext,
      { userId, hash, read }: Attempt,
      proceed: (tx: Tx) => Promise<T>,
    ): Promise<T> {
      return ctx.withSystem('finish a sign-in with a second factor', async (tx) => {
        const fits = read !== undefined && (await spend(tx, userId, read));
        const met = await tx('mfa_challenges')
          .where({ token_hash: hash })
          .whereNull('used_at')
          .update({ used_at: tx.fn.now() });
        if (!fits || met !== 1) {
          ctx.log.info({ requestId: ctx.requestId, ip: ctx.client.ip }, 'auth.second_factor_refused');
          throw wrongCode();
        }
        return proceed(tx);
      });
    },
  };
}

/** `undefined`: unknown, used up or too late. */
async function countTry(
  tx: Tx,
  hash: string,
): Promise<(Pick<Attempt, 'userId' | 'invitation'> & { retryAfterMs: number }) | undefined> {
  const claimed = await tx.raw(
    `update mfa_challenges set tries = tries + 1
    where token_hash = ? and used_at is null and expires_at > now() and tries < ${TRIES_PER_CHALLENGE}
    returning user_id, invitation_token_hash`,
    [hash],
  );
  const challenge = claimed.rows[0] as { user_id: string; invitation_token_hash: string | null } | undefined;
  if (challenge === undefined) return undefined;
  const userId = challenge.user_id;
  const counted = await tx.raw(
    `update user_mfa set tries = case when tries_since > now() - w.length then tries + 1 else 1 end,
      tries_since = case when tries_since > now() - w.length then tries_since else now() end
    from (select interval '${WINDOW_MINUTES} minutes' as length) w
    where user_id = ?
    returning tries, extract(epoch from tries_since + w.length - now()) * 1000 as ms`,
    [userId],
  );
  const window = counted.rows[0] as { tries: number; ms: string } | undefined;
  const over = window !== undefined && window.tries > TRIES_PER_WINDOW;
  return {
    userId,
    invitation: challenge.invitation_token_hash ?? undefined,
    retryAfterMs: over ? Math.max(1, Math.ceil(Number(window.ms))) : 0,
  };
}
