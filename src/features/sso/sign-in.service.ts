import { clock } from '../../../clock.ts';
import type { PublicContext } from '../../../platform/context.ts';
import type { Tx } from '../../../platform/db/transaction.ts';
import { databaseAppError } from '../../../platform/db/database-errors.ts';
import { AppError } from '../../../platform/errors.ts';
import { Redirect } from '../../../platform/http/browser-answer.ts';
import type { Reply } from '../../../platform/http/route.ts';
import { finishLink } from '../links/link-identity.ts';
import { SsoProvider } from '../providers/provider.model.ts';
import { admitPerson, type AdmissionParts } from './admit-person.ts';
import type { BrowserCookie } from '../flow/browser-cookie.ts';
import { loginPageUrl, profilePageUrl } from '../flow/login-page.ts';
import { SsoFailure, type SsoFailureReason } from '../flow/sso-failure.ts';
import type { AssertedIdentity } from '../flow/sso-protocol.ts';
import { SsoSession } from '../flow/sso-session.model.ts';
import type { SsoLimits } from '../flow/sso-limits.ts';
import { noteFailure } from './sso-trail.ts';
import type { Protocols } from '../flow/start-sign-in.ts';
import type { StateCookie } from '../flow/state-cookie.ts';

export interface CallbackParts extends AdmissionParts {
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

/** What was read before a sign-in failed, for the log and the audit entry. */
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
  // The cookie is checked first, so that nobody can consume the sign-in of another browser.
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
 * transaction ends: whoever switches it off must see the session that is opened here, to end it.
 */
async function holdProvider(tx: Tx, { id }: SsoProvider, session: SsoSession): Promise<void> {
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
      await holdProvider(tx, provider, session);
      return admitPerson(tx, ctx, { provider, identity, browserHash }, parts);
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
    await holdProvider(tx, provider, session);
    return finishLink(tx, ctx, { provider, linkSessionId, identity }, parts);
  });
  parts.audit.committed();
  return new Redirect(profilePageUrl(parts.baseUrl()));
}

/**
 * Records that a sign-in with the provider worked. At most once a minute, so that many sign-ins do not wait for one
 * row.
 */
async function noteSuccess(
  ctx: PublicContext,
  { id, configVersion, lastSuccessAt }: SsoProvider,
): Promise<void> {
  if (lastSuccessAt !== null && clock.now() - lastSuccessAt.getTime() < SUCCESS_NOTED_FOR_MS) return;
  await ctx.withSystem('note that a provider works', (tx) =>
    tx('sso_providers').where({ id, config_version: configVersion }).update({ last_success_at: tx.fn.now() }),
  );
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
