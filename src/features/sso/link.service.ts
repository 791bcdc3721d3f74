import type { RateLimiter } from '../../platform/cluster/rate-limits.ts';
import type { Context, DetachedContext } from '../../platform/context.ts';
import { AppError, notFound } from '../../platform/errors.ts';
import type { Reply } from '../../platform/http/route.ts';
import { User } from '../users/index.ts';
import { SsoProvider, SsoIdentity } from './sso.model.ts';
import { SsoFailure } from './sso-failure.ts';

export interface LinkStartParts {
  startSignIn: (
    provider: SsoProvider,
    purpose: { redirectUrl: null; linkSessionId: string | null },
  ) => Promise<{ url: string; state: string }>;
  stateCookie: { set(reply: Reply, state: string): void };
  ssoLimits: { linkStarts: Pick<RateLimiter, 'take'> };
}

/** The active providers of the caller's own organization or partner. */
function ownProviders({ tx, caller: { orgId, partnerId } }: Context) {
  const providers = SsoProvider.query(tx).where('status', 'active').orderBy(['created_at', 'id']);
  if (orgId !== null) return providers.where('org_id', orgId);
  return partnerId === null ? providers.whereRaw('false') : providers.where('partner_id', partnerId);
}

const ownIdentities = ({ tx, caller: { userId } }: Context) =>
  SsoIdentity.query(tx).where('user_id', userId).withGraphFetched('provider').orderBy(['created_at', 'id']);

export async function linkOptions(ctx: Context) {
  const linked = new Set((await ownIdentities(ctx)).map(({ providerId }) => providerId));
  const providers = await ownProviders(ctx);
  return { data: providers.map(({ id, name, type }) => ({ id, name, type, linked: linked.has(id) })) };
}

/** Begins a sign-in that ends with a link to the caller's account. */
export async function startLink(
  { ctx, reply }: { ctx: DetachedContext; reply: Reply },
  providerId: string,
  { startSignIn, stateCookie, ssoLimits }: LinkStartParts,
): Promise<{ url: string }> {
  await ssoLimits.linkStarts.take(ctx.caller.userId);
  const provider = await ctx.withTenant((inner) => ownProviders(inner).findById(providerId));
  if (provider === undefined) throw notFound('Provider');
  try {
    const purpose = { redirectUrl: null, linkSessionId: ctx.caller.sessionId };
    const { url, state } = await startSignIn(provider, purpose);
    stateCookie.set(reply, state);
    return { url };
  } catch (error) {
    if (!(error instanceof SsoFailure)) throw error;
    ctx.log.info({ requestId: ctx.requestId, providerId, detail: error.message }, 'sso.link_not_started');
    throw new AppError('conflict', 'This provider cannot be used at the moment.', {
      details: { reason: error.reason },
      cause: error,
    });
  }
}

export async function listIdentities(ctx: Context) {
  const identities = await ownIdentities(ctx);
  return {
    data: identities.map((identity) => Object.assign(identity, { provider: identity.provider ?? null })),
  };
}

/** Removes a link of the caller, unless they could not sign in afterwards. */
export async function deleteIdentity(ctx: Context, id: string) {
  // The lock makes a second removal wait, so that two removals at once cannot delete the last two links.
  const user = await User.query(ctx.tx).findById(ctx.caller.userId).forNoKeyUpdate();
  const links = await ownIdentities(ctx);
  const link = links.find((one) => one.id === id);
  if (user === undefined || link === undefined) throw notFound('Identity');
  const isLast = !links.some((one) => one.id !== id && one.provider?.status === 'active');
  if (isLast) assertPasswordCounts(user, await ownProviders(ctx).where('enforce_sso', true));
  await link.$query(ctx.tx).delete();
  const { providerId, provider = null } = link;
  return { success: true as const, user, providerId, provider };
}

/** Throws if the user could not sign in with a password. */
function assertPasswordCounts({ id, passwordHash }: User, enforced: readonly SsoProvider[]): void {
  if (passwordHash === null) {
    throw new AppError(
      'conflict',
      'This link is the only way to sign in to your account. Set a password or link another provider before you remove it.',
    );
  }
  const isNamed = enforced.some(({ breakGlassUserIds }) => breakGlassUserIds.includes(id));
  if (enforced.length > 0 && !isNamed) {
    throw new AppError(
      'conflict',
      'This link is the only way to sign in to your account, because single sign-on is enforced for you. Link another provider before you remove it.',
    );
  }
}
