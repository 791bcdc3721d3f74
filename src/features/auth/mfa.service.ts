import { randomBytes } from 'node:crypto';
import type { Context, PublicContext } from '../../platform/context.ts';
import type { Tx } from '../../platform/db/transaction.ts';
import { AppError } from '../../platform/errors.ts';
import { hashWithSalt, verifyPassword } from '../../platform/secrets/passwords.ts';
import { sealContext, type Sealer } from '../../platform/secrets/sealed.ts';
import { tokenHash } from '../../platform/secrets/tokens.ts';
import { User } from '../users/index.ts';
import type { MfaConfirmation, MfaEnabling, MfaSecret, MfaSetup, MfaVerification } from './mfa.schema.ts';
import type { SignInLimits } from './sign-in-limits.ts';
import { isTotpCode, newRecoveryCodes, newTotpSecret, otpAuthUrl, recoveryCodeFrom, stepOf } from './totp.ts';

const CHALLENGE_MINUTES = 5;
const TRIES_PER_CHALLENGE = 5;
/** Over all sign-ins of a person: whoever has the password could otherwise begin anew after each five tries. */
const TRIES_PER_WINDOW = 15;
const WINDOW_MINUTES = 15;

interface Factor {
  secret: string;
  recoverySalt: Buffer;
  enabled: boolean;
}

/** One refusal, whatever was wrong. */
export const wrongCode = () => new AppError('unauthenticated', 'The code is wrong, or its time is over.');

export type SecondFactor = ReturnType<typeof createSecondFactor>;

export function createSecondFactor({
  sealer,
  limits: { ownSecrets },
}: {
  sealer: Sealer;
  limits: Pick<SignInLimits, 'ownSecrets'>;
}) {
  async function factorOf(tx: Tx, userId: string): Promise<Factor | undefined> {
    const row = await tx('user_mfa')
      .where({ user_id: userId })
      .first('secret', 'recovery_salt', 'enabled_at');
    if (row === undefined) return undefined;
    const context = sealContext('user_mfa', 'secret', userId);
    const { text, stale } = sealer.open(row.secret, context);
    if (stale) {
      await tx('user_mfa')
        .where({ user_id: userId, secret: row.secret })
        .update({ secret: sealer.seal(text, context) });
    }
    return {
      secret: text,
      recoverySalt: Buffer.from(row.recovery_salt, 'hex'),
      enabled: row.enabled_at !== null,
    };
  }

  /** Spends a code, so that it never opens again; of two that bring it at once, one is refused. */
  async function spend(tx: Tx, userId: string, factor: Factor, code: string): Promise<boolean> {
    if (isTotpCode(code)) {
      const step = stepOf(factor.secret, code);
      if (step === undefined) return false;
      const taken = await tx('user_mfa')
        .where({ user_id: userId })
        .where('last_step', '<', step)
        .update({ last_step: step, tries: 0 });
      return taken === 1;
    }
    const recoveryCode = recoveryCodeFrom(code);
    if (recoveryCode === undefined) return false;
    const hash = await hashWithSalt(recoveryCode, factor.recoverySalt);
    const taken = await tx('mfa_recovery_codes')
      .where({ user_id: userId, code_hash: hash })
      .whereNull('used_at')
      .update({ used_at: tx.fn.now() });
    if (taken === 1) await tx('user_mfa').where({ user_id: userId }).update({ tries: 0 });
    return taken === 1;
  }

  async function storeRecoveryCodes(tx: Tx, userId: string, salt: Buffer): Promise<string[]> {
    const codes = newRecoveryCodes();
    const hashes = await Promise.all(codes.map((code) => hashWithSalt(code, salt)));
    await tx('mfa_recovery_codes').where({ user_id: userId }).delete();
    await tx('mfa_recovery_codes').insert(hashes.map((hash) => ({ user_id: userId, code_hash: hash })));
    return codes;
  }

  /** Throws unless the caller knows their password, and the code where one is asked for. */
  async function confirm(ctx: Context, input: { currentPassword?: string; code?: string }): Promise<void> {
    const { userId } = ctx.caller;
    await ownSecrets.take(userId);
    if (input.currentPassword !== undefined) {
      const user = await User.query(ctx.tx).findById(userId);
      if (!(await verifyPassword(user?.passwordHash, input.currentPassword))) {
        throw new AppError('unauthenticated', 'The password is wrong.');
      }
    }
    if (input.code !== undefined) {
      const factor = await factorOf(ctx.tx, userId);
      if (factor === undefined) throw new AppError('conflict', 'No second factor is set up.');
      if (!(await spend(ctx.tx, userId, factor, input.code))) throw wrongCode();
    }
    await ownSecrets.forget(userId);
  }

  const isEnabled = async (ctx: Context) => (await factorOf(ctx.tx, ctx.caller.userId))?.enabled === true;
  const assertEnabled = async (ctx: Context) => {
    if (!(await isEnabled(ctx))) throw new AppError('conflict', 'No second factor is enabled.');
  };
  const assertNotEnabled = async (ctx: Context) => {
    if (await isEnabled(ctx)) throw new AppError('conflict', 'A second factor is enabled. Disable it first.');
  };

  return {
    /** A fresh secret and recovery codes. They count from `enable` on; until then each call replaces the last. */
    async setUp(ctx: Context, input: MfaSetup): Promise<MfaSecret> {
      const { userId, email } = ctx.caller;
      await confirm(ctx, input);
      await assertNotEnabled(ctx);
      const secret = newTotpSecret();
      const salt = randomBytes(16);
      // One that was enabled a moment ago stays, and the insert finds it in its way.
      await ctx.tx('user_mfa').where({ user_id: userId, enabled_at: null }).delete();
      await ctx.tx('user_mfa').insert({
        user_id: userId,
        secret: sealer.seal(secret, sealContext('user_mfa', 'secret', userId)),
        recovery_salt: salt.toString('hex'),
      });
      const recoveryCodes = await storeRecoveryCodes(ctx.tx, userId, salt);
      return { secret, otpAuthUrl: otpAuthUrl(secret, email), recoveryCodes };
    },

    async enable(ctx: Context, { code }: MfaEnabling) {
      await assertNotEnabled(ctx);
      // A recovery code would not show that the app works.
      if (!isTotpCode(code)) throw wrongCode();
      await confirm(ctx, { code });
      await ctx.tx('user_mfa').where({ user_id: ctx.caller.userId }).update({ enabled_at: ctx.tx.fn.now() });
      await User.query(ctx.tx).findById(ctx.caller.userId).patch({ mfaEnabled: true });
      return { success: true as const };
    },

    async disable(ctx: Context, input: MfaConfirmation) {
      await assertEnabled(ctx);
      await confirm(ctx, input);
      await ctx.tx('user_mfa').where({ user_id: ctx.caller.userId }).delete();
      await User.query(ctx.tx).findById(ctx.caller.userId).patch({ mfaEnabled: false });
      return { success: true as const };
    },

    async renewRecoveryCodes(ctx: Context, input: MfaConfirmation) {
      await assertEnabled(ctx);
      await confirm(ctx, input);
      const factor = await factorOf(ctx.tx, ctx.caller.userId);
      if (factor === undefined) throw new AppError('conflict', 'No second factor is enabled.');
      return { recoveryCodes: await storeRecoveryCodes(ctx.tx, ctx.caller.userId, factor.recoverySalt) };
    },

    /** After a right password: a token that opens a session together with a code. */
    async challenge(tx: Tx, userId: string): Promise<string> {
      const token = randomBytes(32).toString('base64url');
      await tx('mfa_challenges').where({ user_id: userId }).where('expires_at', '<', tx.fn.now()).delete();
      await tx('mfa_challenges').insert({
        token_hash: tokenHash(token),
        user_id: userId,
        expires_at: tx.raw(`now() + interval '${CHALLENGE_MINUTES} minutes'`),
      });
      return token;
    },

    /** Meets a challenge with a code; `proceed` runs in the transaction that spends both. */
    async meet<T>(
      ctx: PublicContext,
      { tempToken, code }: MfaVerification,
      proceed: (tx: Tx, userId: string) => Promise<T>,
    ): Promise<T> {
      const hash = tokenHash(tempToken);
      // Counted in a transaction of its own: a wrong code must not take its try back.
      const attempt = await ctx.withSystem('count a try at a second factor', (tx) => countTry(tx, hash));
      if (attempt === undefined) throw wrongCode();
      if (attempt.retryAfterMs > 0) {
        throw new AppError('rate_limited', 'Too many tries. Wait a while.', {
          retryAfterMs: attempt.retryAfterMs,
        });
      }
      return ctx.withSystem('finish a sign-in with a second factor', async (tx) => {
        const factor = await factorOf(tx, attempt.userId);
        const fits = factor?.enabled === true && (await spend(tx, attempt.userId, factor, code));
        const met = await tx('mfa_challenges')
          .where({ token_hash: hash })
          .whereNull('used_at')
          .update({ used_at: tx.fn.now() });
        if (!fits || met !== 1) {
          ctx.log.info({ requestId: ctx.requestId, ip: ctx.client.ip }, 'auth.second_factor_refused');
          throw wrongCode();
        }
        return proceed(tx, attempt.userId);
      });
    },
  };
}

/** `undefined`: unknown, used up or too late. */
async function countTry(tx: Tx, hash: string): Promise<{ userId: string; retryAfterMs: number } | undefined> {
  const claimed = await tx.raw(
    `update mfa_challenges set tries = tries + 1
    where token_hash = ? and used_at is null and expires_at > now() and tries < ${TRIES_PER_CHALLENGE}
    returning user_id`,
    [hash],
  );
  const userId: unknown = claimed.rows[0]?.user_id;
  if (typeof userId !== 'string') return undefined;
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
  return { userId, retryAfterMs: over ? Math.max(1, Math.ceil(Number(window.ms))) : 0 };
}
