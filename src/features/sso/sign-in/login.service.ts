import type { PublicContext } from '../../../platform/context.ts';
import { AppError } from '../../../platform/errors.ts';
import { Redirect } from '../../../platform/http/browser-answer.ts';
import type { AuditTrail } from '../../../platform/http/audit.ts';
import type { Reply } from '../../../platform/http/route.ts';
import { loginUrlOf } from '../providers/login-url.ts';
import { activeProviderOf, type ProviderOwner } from '../providers/provider.queries.ts';
import { failureOf } from './callback.service.ts';
import { noteFailure } from './sso-trail.ts';
import { loginPageUrl } from '../flow/login-page.ts';
import type { StartSignIn } from '../flow/start-sign-in.ts';
import type { StateCookie } from '../flow/state-cookie.ts';

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
