import type { z } from 'zod';
import { clock } from '../../clock.ts';
import type { Context, PublicContext } from '../../platform/context.ts';
import type { Tx } from '../../platform/db/transaction.ts';
import { AppError } from '../../platform/errors.ts';
import { verifyPassword, hashPassword } from '../../platform/secrets/passwords.ts';
import { accessibleOrganizationIds } from '../organizations/index.ts';
import {
  type AccountEnding,
  findUserByEmail,
  joinAsExistingUser,
  User,
  joinAsNewUser,
  openInvitation,
} from '../users/index.ts';
import { ACCESS_TOKEN_SECONDS, type AccessTokens, assertAddressAllowed } from './authenticator.ts';
import type {
  LoginRequest,
  Me,
  SecondFactorRequired,
  SignedIn,
  Tokens,
  MfaVerification,
  AcceptInvitation,
} from './auth.schema.ts';
import type { SecondFactor } from './mfa.service.ts';
import { type Presented, refusedPasskey } from './passkey-ceremonies.ts';
import type { PasskeySignIn, PasskeyVerification } from './passkey.schema.ts';
import type { Passkeys } from './passkey.service.ts';
import { type Proof, wrongCode } from './second-factor.ts';
import { type PasswordPolicy, assertStrong } from './password.service.ts';
import type { SignInFailure, SignInTrail } from './sign-in-trail.ts';
import type { SignInLimits } from './sign-in-limits.ts';
import {
  endSession,
  findCaller,
  loadCaller,
  openSession,
  rotateRefreshToken,
  type SessionCaller,
  type SessionOrigin,
  sessionOf,
} from './session.service.ts';
import { tokenHash } from '../../platform/secrets/tokens.ts';

/** An answer with a refresh token, which is sent as a cookie and never in the body. */
interface WithRefreshToken<T> {
  answer: T;
  refreshToken: string;
}

/** A sign-in by password that single sign-on forbids. Its transaction is committed all the same. */
interface Refused {
  refusal: AppError;
}

export type AuthService = ReturnType<typeof authService>;

export function authService({
  accessTokens,
  secondFactor,
  passkeys,
  limits,
  trail,
  ending,
  passwordPolicy,
}: {
  accessTokens: AccessTokens;
  secondFactor: SecondFactor;
  passkeys: Passkeys;
  limits: SignInLimits;
  trail: SignInTrail;
  ending: Pick<AccountEnding, 'revokeKeysOf' | 'noteLeft'>;
  passwordPolicy: PasswordPolicy;
}) {
  const tokensFor = (caller: SessionCaller): Tokens => ({
    accessToken: accessTokens.issue(caller),
    expiresInSeconds: ACCESS_TOKEN_SECONDS,
  });

  /** The last step of every sign-in. A refusal in it rolls the session back with everything else. */
  const open = async (
    tx: Tx,
    ctx: PublicContext,
    userId: string,
    how: SessionOrigin,
  ): Promise<{ caller: SessionCaller; refreshToken: string }> => {
    const { sessionId, refreshToken } = await openSession(tx, userId, ctx.client, how);
    await User.query(tx).findById(userId).patch({ lastLoginAt: clock.date() });
    const caller = await findCaller(tx, sessionId);
    if (caller === undefined) throw noMembership();
    assertAddressAllowed(caller, ctx.client, ctx.log, 'sign-in');
    await trail.opened(tx, ctx, caller, how.provider);
    return { caller, refreshToken };
  };

  /**
   * Ends a sign-in by password or passkey: single sign-on that is enforced forbids both. A person who accepts an
   * invitation into a tenant that requires single sign-on becomes its member, and then signs in with the identity provider.
   */
  const signIn = async (
    tx: Tx,
    ctx: PublicContext,
    user: User,
    { mfa, invitation }: { mfa: boolean; invitation: string | undefined },
  ): Promise<WithRefreshToken<SignedIn> | Refused> => {
    await assertUnchanged(tx, user);
    if (invitation !== undefined) await joinAsExistingUser(tx, invitation, ctx, user, ending);
    const decision = await passwordPolicy.decide(tx, user.id);
    if (!decision.allowed) return { refusal: decision.refusal };
    const { caller, refreshToken } = await open(tx, ctx, user.id, { mfa });
    await decision.recordUse?.(ctx, caller);
    const { id, email, name, mfaEnabled } = user;
    return {
      answer: { user: { id, email, name, mfaEnabled }, tokens: tokensFor(caller), mfaRequired: false },
      refreshToken,
    };
  };

  /** Runs a step of a known user's sign-in and audits its failure. */
  const noted = async <T>(
    ctx: PublicContext,
    userId: string,
    failure: SignInFailure,
    proceed: () => Promise<T | Refused>,
  ): Promise<T> => {
    try {
      const result = await proceed();
      if (isRefused(result)) throw result.refusal;
      trail.committed();
      return result;
    } catch (error) {
      trail.refused(ctx, userId, failure, error);
      throw error;
    }
  };

  return {
    /**
     * Refuses with the same answer and the same work whether the user is unknown or disabled, or the password wrong.
     * @param invitation  the token hash of an invitation that this sign-in accepts once it succeeds
     */
    async login(
      ctx: PublicContext,
      { email, password }: LoginRequest,
      invitation?: string,
    ): Promise<WithRefreshToken<SignedIn> | { answer: SecondFactorRequired }> {
      const uncount = await limits.beforeTry(email, ctx.client, ctx.withSystem);
      const user = await ctx.withSystem('find the user who is signing in', (tx) =>
        findUserByEmail(tx, email),
      );
      // Hashing takes time, so it happens outside any transaction.
      const fits = await verifyPassword(user?.status === 'active' ? user.passwordHash : null, password);
      if (user === undefined || !fits) {
        ctx.log.info({ requestId: ctx.requestId, ip: ctx.client.ip }, 'auth.login_refused');
        const refusal = wrongPassword();
        if (user !== undefined) trail.refused(ctx, user.id, 'password', refusal);
        throw refusal;
      }
      await uncount();
      return noted(ctx, user.id, 'password', () =>
        ctx.withSystem('open a session, or ask for the second factor', async (tx) => {
          if (!user.mfaEnabled) return signIn(tx, ctx, user, { mfa: false, invitation });
          await assertUnchanged(tx, user);
          const decision = await passwordPolicy.decide(tx, user.id);
          if (!decision.allowed) return { refusal: decision.refusal };
          const pending = await secondFactor.challenge(tx, user.id, invitation);
          return { answer: { mfaRequired: true, ...pending, user: null, tokens: null } };
        }),
      );
    },

    /** The second half of a sign-in. */
    async verifySecondFactor(
      ctx: PublicContext,
      input: MfaVerification,
    ): Promise<WithRefreshToken<SignedIn>> {
      const attempt = await secondFactor.attempt(ctx, input);
      return noted(ctx, attempt.userId, 'second_factor', () =>
        secondFactor.meet(ctx, attempt, async (tx) => {
          const user = await User.query(tx).findById(attempt.userId);
          if (user?.status !== 'active') throw wrongCode();
          return signIn(tx, ctx, user, { mfa: true, invitation: attempt.invitation });
        }),
      );
    },

    /** The second half of a sign-in, by a passkey. */
    async verifyPasskey(ctx: PublicContext, input: PasskeyVerification): Promise<WithRefreshToken<SignedIn>> {
      const attempt = await passkeys.countSecondFactor(ctx, input);
      return noted(ctx, attempt.userId, 'second_factor', () =>
        passkeys.meet(ctx, attempt, input.credential, async (tx) =>
          signIn(tx, ctx, await activeUser(tx, attempt.userId), {
            mfa: true,
            invitation: attempt.invitation,
          }),
        ),
      );
    },

    /** A passkey alone counts as both factors: the authenticator has verified its user. */
    async signInByPasskey(ctx: PublicContext, input: PasskeySignIn): Promise<WithRefreshToken<SignedIn>> {
      const { presented, uncount } = await passkeys.presentSignIn(ctx, input);
      const { userId } = presented.passkey;
      return noted(ctx, userId, 'passkey', async () => {
        await passkeys.proveSignIn(ctx, input, presented);
        await uncount();
        return ctx.withSystem('open a session by a passkey', async (tx) => {
          const user = await activeUser(tx, userId);
          if (!(await passkeys.isStillUsable(tx, presented))) throw refusedPasskey();
          return signIn(tx, ctx, user, { mfa: true, invitation: undefined });
        });
      });
    },

    /** The access token of the caller's session, which has a second factor from now on. */
    async stepUp(ctx: Context, proof: Proof): Promise<Tokens> {
      const { sessionId } = await secondFactor.stepUp(ctx, proof);
      return tokensFor({ ...ctx.caller, sessionId, mfa: true });
    },

    async stepUpByPasskey(ctx: Context, presented: Presented): Promise<Tokens> {
      const { sessionId } = await passkeys.stepUp(ctx, presented);
      return tokensFor({ ...ctx.caller, sessionId, mfa: true });
    },

    /**
     * Opens a session for a person whom an identity provider has identified, in the transaction of that sign-in.
     * @throws AppError  `unauthenticated` without a membership, `partner_inactive`, `ip_not_allowed_at_sign_in`
     */
    openForProvider: open,

    /** The access token of a session that has just been opened. Throws `unauthenticated` if it has ended. */
    async tokensOf(tx: Tx, ctx: PublicContext, sessionId: string): Promise<Tokens> {
      const caller = await loadCaller(tx, sessionId);
      assertAddressAllowed(caller, ctx.client, ctx.log, 'sign-in');
      return tokensFor(caller);
    },

    async refresh(
      ctx: PublicContext,
      presented: string | undefined,
    ): Promise<WithRefreshToken<{ tokens: Tokens }>> {
      const refused = new AppError('unauthenticated', 'The session has ended. Sign in again.');
      if (presented === undefined) throw refused;
      const rotation = await ctx.withSystem('exchange a refresh token', async (tx) => {
        const result = await rotateRefreshToken(tx, presented);
        if (result.outcome !== 'rotated') return result;
        const caller = await loadCaller(tx, result.sessionId);
        assertAddressAllowed(caller, ctx.client, ctx.log, 'sign-in');
        return { ...result, caller };
      });
      if (rotation.outcome === 'reused') {
        ctx.log.warn({ requestId: ctx.requestId, ip: ctx.client.ip }, 'auth.refresh_token_reused');
      }
      if (!('caller' in rotation)) throw refused;
      return { answer: { tokens: tokensFor(rotation.caller) }, refreshToken: rotation.refreshToken };
    },

    /** Ends the sessions of the cookie and of the access token. Signing out twice is no error. */
    async logout(
      ctx: PublicContext,
      presented: { refreshToken: string | undefined; accessToken: string | undefined },
    ): Promise<{ success: true }> {
      const { refreshToken, accessToken } = presented;
      await ctx.withSystem('end a session', async (tx) => {
        const sessions = [
          refreshToken === undefined ? undefined : await sessionOf(tx, refreshToken),
          accessToken === undefined ? undefined : accessTokens.sessionOf(accessToken),
        ];
        for (const sessionId of sessions) {
          if (sessionId === undefined) continue;
          await trail.ending(tx, ctx, sessionId);
          await endSession(tx, sessionId, 'signed_out');
        }
      });
      trail.committed();
      return { success: true };
    },
  };
}

const isRefused = (result: unknown): result is Refused =>
  typeof result === 'object' && result !== null && 'refusal' in result;

const wrongPassword = () =>
  new AppError('unauthenticated', 'The e-mail address or the password is incorrect.');

/**
 * Throws if the checked password has been replaced meanwhile, and locks it until the end of the transaction: a password
 * reset must see every session that was opened with the earlier password, to end them all.
 */
async function assertUnchanged(tx: Tx, { id, passwordHash }: User): Promise<void> {
  const same = await User.query(tx)
    .where({ id, password_hash: passwordHash, status: 'active' })
    .forUpdate()
    .first();
  if (same === undefined) throw wrongPassword();
}

/** The person of a passkey, locked as by `assertUnchanged`. */
async function activeUser(tx: Tx, userId: string): Promise<User> {
  const user = await User.query(tx).where({ id: userId, status: 'active' }).forUpdate().first();
  if (user === undefined) throw refusedPasskey();
  return user;
}

const noMembership = () =>
  new AppError(
    'unauthenticated',
    'This account is not a member of a provider or an organization. Ask for an invitation.',
  );

export async function describeMe(ctx: Context): Promise<z.infer<typeof Me>> {
  const { caller } = ctx;
  return {
    user: { id: caller.userId, email: caller.email, name: caller.name },
    scope: caller.scope,
    ...(caller.partnerId === null ? {} : { partnerId: caller.partnerId }),
    ...(caller.orgId === null ? {} : { orgId: caller.orgId }),
    role: { id: caller.roleId, name: caller.roleName },
    permissions: [...caller.permissions].sort(),
    accessibleOrgIds: await accessibleOrganizationIds(ctx),
    clientIp: ctx.client.ip,
  };
}

export async function previewInvitation(ctx: PublicContext, token: string) {
  const { email, name, partnerName, orgName } = await ctx.withSystem('show an invitation', (tx) =>
    openInvitation(tx, token),
  );
  return {
    email,
    name,
    ...(partnerName === null ? {} : { partnerName }),
    ...(orgName === null ? {} : { orgName }),
  };
}

export interface AcceptanceParts {
  auth: Pick<AuthService, 'login'>;
  ending: AccountEnding;
}

/**
 * Ends with an ordinary sign-in. The user of an existing account proves it with the password, and the second factor if
 * there is one: the inviter knows a link as well and must not get into the account with it.
 */
export async function acceptInvitation(
  ctx: PublicContext,
  { token, password }: AcceptInvitation,
  { auth, ending }: AcceptanceParts,
) {
  const { email, account } = await ctx.withSystem('read an invitation', (tx) => openInvitation(tx, token));
  const isNewUser =
    account === undefined || (account.isClaimable && !(await verifyPassword(account.passwordHash, password)));
  if (!isNewUser) return auth.login(ctx, { email, password }, tokenHash(token));
  assertStrong(password, 'password');
  const passwordHash = await hashPassword(password);
  await ctx.withSystem('accept an invitation', (tx) =>
    joinAsNewUser(tx, ctx, { token, passwordHash }, ending),
  );
  return auth.login(ctx, { email, password });
}
