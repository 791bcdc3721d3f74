import { clock } from '../../clock.ts';
import type { PublicContext } from '../../platform/context.ts';
import type { Tx } from '../../platform/db/transaction.ts';
import { databaseAppError } from '../../platform/db/database-errors.ts';
import { AppError } from '../../platform/errors.ts';
import { Redirect } from '../../platform/http/file-answer.ts';
import type { Reply } from '../../platform/http/route.ts';
import { finishLink } from './link-identity.ts';
import { SsoProvider, SsoSession, loginUrlOf } from './sso.model.ts';
import { signInOrProvision, type ProvisioningParts } from './provision-user.ts';
import type { BrowserCookie, Protocols, StateCookie, StartSignIn } from './sign-in-state.ts';
import { loginPageUrl, profilePageUrl, SsoFailure, type SsoFailureReason } from './sso-failure.ts';
import type { AssertedIdentity } from './sso-protocol.ts';
import type { SsoLimits } from './sso-limits.ts';
import type { AuditTrail } from '../../platform/http/audit.ts';
import { ownerOf, recordSuccess, activeProviderOf, type ProviderOwner } from './sso.queries.ts';

export interface LoginParts {
  startSignIn: StartSignIn;
  stateCookie: StateCookie;
  audit: AuditTrail;
  baseUrl: () => string;
}

const NO_PROVIDER = {
  organization: 'No active SSO provider for this organization',
  partner: 'No active SSO provider for this partner',
};

/** Redirects the browser to the identity provider, or to the login page if the provider cannot be used. */
export async function beginLogin(
  { ctx, reply }: { ctx: PublicContext; reply: Reply },
  owner: ProviderOwner,
  redirect: string | undefined,
  { startSignIn, stateCookie, audit, baseUrl }: LoginParts,
): Promise<Redirect> {
  const provider = await ctx.withSystem('find the provider of a sign-in', (tx) =>
    activeProviderOf(tx, owner),
  );
  if (provider === undefined) {
    throw new AppError('not_found', 'orgId' in owner ? NO_PROVIDER.organization : NO_PROVIDER.partner);
  }
  try {
    const { url, state } = await startSignIn(provider, {
      redirectUrl: redirect ?? null,
      linkSessionId: null,
    });
    stateCookie.set(reply, state);
    return new Redirect(url);
  } catch (error) {
    const failure = failureOf(error);
    const about = { requestId: ctx.requestId, providerId: provider.id };
    if (failure.reason === 'internal') ctx.log.error({ ...about, err: error }, 'sso.login_failed');
    else ctx.log.info({ ...about, detail: failure.message }, 'sso.login_refused');
    await noteFailure(ctx, audit, provider, failure);
    return new Redirect(loginPageUrl(baseUrl(), failure));
  }
}

/**
 * The data that a login page needs of an organization. The result is the same for an organization that does not exist.
 */
export async function checkSso(ctx: PublicContext, orgId: string, baseUrl: string) {
  const provider = await ctx.withSystem('whether an organization has single sign-on', (tx) =>
    activeProviderOf(tx, { orgId }),
  );
  if (provider === undefined) return { ssoEnabled: false, provider: null, enforceSSO: false, loginUrl: null };
  const { id, name, type, enforceSso } = provider;
  return {
    ssoEnabled: true,
    provider: { id, name, type },
    enforceSSO: enforceSso,
    loginUrl: `${baseUrl}${loginUrlOf(provider)}`,
  };
}

export interface CallbackParts extends ProvisioningParts {
  protocols: Protocols;
  stateCookie: StateCookie;
  browsers: BrowserCookie;
  ssoLimits: Pick<SsoLimits, 'callback'>;
  baseUrl: () => string;
}

interface CallbackInput {
  ctx: PublicContext;
  /** Unchecked: values may be missing, or arrays. */
  query: Readonly<Record<string, unknown>>;
  cookies: Readonly<Record<string, string | undefined>>;
  reply: Reply;
}

const STATE = /^[\w-]{20,64}$/;
/** Two first sign-ins of one person may conflict; the repeated one then finds the account of the other. */
const TRIES = 3;
const SUCCESS_NOTED_FOR_MS = 60_000;

/**
 * Finishes a sign-in after the browser has returned (SPEC 4.8). Always responds with a redirect, because the
 * request comes from a browser.
 */
export async function finishSignIn(input: CallbackInput, parts: CallbackParts): Promise<Redirect> {
  const { ctx } = input;
  const progress: Progress = {};
  try {
    return await proceed(input, parts, progress);
  } catch (error) {
    const failure = failureOf(error);
    const { provider, session } = progress;
    const about = { requestId: ctx.requestId, providerId: provider?.id, reason: failure.reason };
    if (failure.reason === 'internal') ctx.log.error({ ...about, err: error }, 'sso.callback_failed');
    else ctx.log.info({ ...about, detail: failure.message }, 'sso.sign_in_refused');
    if (provider !== undefined) await noteFailure(ctx, parts.audit, provider, failure);
    const isLink = session !== undefined && session.linkSessionId !== null;
    return new Redirect((isLink ? profilePageUrl : loginPageUrl)(parts.baseUrl(), failure));
  }
}

/** The facts that were read before a sign-in failed, for the log and the audit entry. */
interface Progress {
  provider?: SsoProvider;
  session?: SsoSession;
}

async function proceed(
  { ctx, query, cookies, reply }: CallbackInput,
  parts: CallbackParts,
  progress: Progress,
): Promise<Redirect> {
  await parts.ssoLimits.callback(ctx.client);
  const { state } = query;
  // The cookie is checked first, so that no browser can consume the sign-in of another one.
  if (typeof state !== 'string' || !STATE.test(state) || !parts.stateCookie.isFrom(cookies, state)) {
    throw new SsoFailure('session_unknown');
  }
  const begun = await consume(ctx, state);
  if (begun === undefined) throw new SsoFailure('session_unknown');
  const { session, provider } = Object.assign(progress, begun);
  parts.stateCookie.clear(reply);
  assertUnchanged(provider, session);
  const identity = await parts.protocols[provider.type].finish(ctx, provider, session, query);
  const identified = { provider, session, identity };
  return session.linkSessionId === null
    ? signedIn(ctx, { ...identified, browserHash: parts.browsers.mark(reply, cookies) }, parts)
    : linked(ctx, { ...identified, linkSessionId: session.linkSessionId }, parts);
}

/** Deletes the stored sign-in and returns it. Of several callbacks at once, only one receives it. */
async function consume(
  ctx: PublicContext,
  state: string,
): Promise<{ session: SsoSession; provider: SsoProvider } | undefined> {
  return ctx.withSystem('use up a sign-in with an identity provider', async (tx) => {
    const [session] = await SsoSession.query(tx)
      .where('state', state)
      .whereRaw('expires_at > now()')
      .delete()
      .returning('*');
    if (session === undefined) return undefined;
    // The provider exists, because deleting it deletes its sign-ins.
    return { session, provider: await SsoProvider.query(tx).findById(session.providerId).throwIfNotFound() };
  });
}

/** Throws if the provider was deactivated or changed since the sign-in began. */
function assertUnchanged(provider: SsoProvider, { providerVersion }: SsoSession): void {
  if (provider.status !== 'active' || provider.configVersion !== providerVersion) {
    throw new SsoFailure('provider_changed', `${provider.status}, version ${provider.configVersion}`);
  }
}

/**
 * Reads the provider again, because the requests to it may have taken seconds, and keeps it as it is until the
 * transaction ends: a request that switches it off must see the session that is opened here, to end it.
 */
async function lockUnchangedProvider(tx: Tx, { id }: SsoProvider, session: SsoSession): Promise<void> {
  const now = await SsoProvider.query(tx).findById(id).forShare();
  if (now === undefined) throw new SsoFailure('provider_changed');
  assertUnchanged(now, session);
}

interface Identified {
  provider: SsoProvider;
  session: SsoSession;
  identity: AssertedIdentity;
}

async function signedIn(
  ctx: PublicContext,
  { provider, session, identity, browserHash }: Identified & { browserHash: string },
  parts: CallbackParts,
): Promise<Redirect> {
  const code = await retried(() =>
    ctx.withSystem('sign in a person whom an identity provider has identified', async (tx) => {
      await lockUnchangedProvider(tx, provider, session);
      return signInOrProvision(tx, ctx, { provider, identity, browserHash }, parts);
    }),
  );
  parts.audit.committed();
  await noteSuccess(ctx, provider);
  return new Redirect(`${parts.baseUrl()}${session.redirectUrl ?? '/'}#ssoCode=${code}`);
}

async function linked(
  ctx: PublicContext,
  { provider, session, identity, linkSessionId }: Identified & { linkSessionId: string },
  parts: CallbackParts,
): Promise<Redirect> {
  await ctx.withSystem('link an identity to an account', async (tx) => {
    await lockUnchangedProvider(tx, provider, session);
    return finishLink(tx, ctx, { provider, linkSessionId, identity }, parts);
  });
  parts.audit.committed();
  return new Redirect(profilePageUrl(parts.baseUrl()));
}

/**
 * Records that a sign-in with the provider worked. At most once a minute, so that many sign-ins do not wait for one
 * row.
 */
async function noteSuccess(ctx: PublicContext, provider: SsoProvider): Promise<void> {
  const { lastSuccessAt } = provider;
  if (lastSuccessAt !== null && clock.now() - lastSuccessAt.getTime() < SUCCESS_NOTED_FOR_MS) return;
  await ctx.withSystem('note that a provider works', (tx) => recordSuccess(tx, provider));
}

async function retried<T>(work: () => Promise<T>): Promise<T> {
  for (let tries = 1; ; tries++) {
    try {
      return await work();
    } catch (error) {
      if (tries === TRIES || databaseAppError(error)?.code !== 'conflict') throw error;
    }
  }
}

const REASONS: Partial<Record<AppError['code'], SsoFailureReason>> = {
  unauthenticated: 'not_a_member',
  partner_inactive: 'partner_inactive',
  ip_not_allowed_at_sign_in: 'address_not_allowed',
  rate_limited: 'rate_limited',
};

/** Converts any error to a failure that may be shown to the person. */
export function failureOf(error: unknown): SsoFailure {
  if (error instanceof SsoFailure) return error;
  const reason = error instanceof AppError ? REASONS[error.code] : undefined;
  return new SsoFailure(reason ?? 'internal', undefined, { cause: error });
}

/**
 * Records a failed sign-in in the audit trail of the provider's owner, also if the person is unknown. It never throws,
 * so that the person learns why the sign-in failed even if the entry cannot be written.
 */
export async function noteFailure(
  ctx: PublicContext,
  audit: AuditTrail,
  provider: SsoProvider,
  failure: SsoFailure,
): Promise<void> {
  try {
    await ctx.withSystem('audit a refused sign-in', (tx) => recordFailure(tx, ctx, audit, provider, failure));
    audit.committed();
  } catch (error) {
    ctx.log.error({ err: error, requestId: ctx.requestId }, 'audit.refused_sign_in_not_written');
  }
}

async function recordFailure(
  tx: Tx,
  ctx: PublicContext,
  audit: AuditTrail,
  provider: SsoProvider,
  { reason, error }: SsoFailure,
): Promise<void> {
  const { orgId, partnerId } = await ownerOf(tx, provider);
  await audit.record(tx, {
    action: 'user.login.failed',
    resourceType: 'sso_provider',
    resourceId: provider.id,
    resourceName: provider.name,
    details: { reason, error, provider: { id: provider.id, name: provider.name } },
    actor: { kind: 'system', orgId, partnerId },
    state: ctx,
    result: 'failure',
    errorMessage: reason,
  });
}
