import { randomBytes } from 'node:crypto';
import { raw } from 'objection';
import type { Db } from '../../platform/db/pool.ts';
import { withSystem, type Tx } from '../../platform/db/transaction.ts';
import { type SsoProvider, SsoSession, exchangeTokenContext, ExchangeCode } from './sso.model.ts';
import type { SsoProtocol } from './sso-protocol.ts';
import { type Mac, tokenHash } from '../../platform/secrets/tokens.ts';
import type { Reply } from '../../platform/http/route.ts';
import type { PublicContext } from '../../platform/context.ts';
import { AppError } from '../../platform/errors.ts';
import type { Encryptor } from '../../platform/secrets/sealed.ts';
import { type AuthService, findCaller } from '../auth/index.ts';
import type { ExchangeRequest } from './sso.schema.ts';

export const SIGN_IN_MINUTES = 10;

export type Protocols = Readonly<Record<SsoProvider['type'], SsoProtocol>>;

export interface SignInPurpose {
  /** The path of the dashboard that the browser opens afterwards; null for its first page. */
  redirectUrl: string | null;
  /** The session of a signed-in person who links an identity; null for an ordinary sign-in. */
  linkSessionId: string | null;
}

export type StartSignIn = ReturnType<typeof createStartSignIn>;

/**
 * Begins a sign-in with an identity provider. The caller has to redirect the browser to `url` and to set the state
 * cookie. Throws `SsoFailure` if the provider cannot be used.
 */
export function createStartSignIn({ db, protocols }: { db: Db; protocols: Protocols }) {
  return async (provider: SsoProvider, purpose: SignInPurpose): Promise<{ url: string; state: string }> => {
    const state = randomBytes(32).toString('base64url');
    const { url, nonce, codeVerifier } = await protocols[provider.type].begin(provider, state);
    await withSystem(db, 'begin a sign-in with an identity provider', (tx) =>
      SsoSession.query(tx).insert({
        ...purpose,
        providerId: provider.id,
        providerVersion: provider.configVersion,
        state,
        nonce,
        codeVerifier,
        expiresAt: raw('now() + make_interval(mins => ?)', [SIGN_IN_MINUTES]),
      }),
    );
    return { url, state };
  };
}

const BROWSER_COOKIE = 'svc_sso_browser';

const VALUE = /^[\w-]{43}$/;

type Cookies = Readonly<Record<string, string | undefined>>;

/**
 * The cookie that binds the code of a sign-in to the browser that has come back from the identity provider. Without it,
 * an attacker could send a person a link with the code of the attacker's own sign-in.
 */
export type BrowserCookie = ReturnType<typeof browserCookie>;

export function browserCookie({ secureCookies }: { secureCookies: boolean }) {
  const hashIn = (cookies: Cookies): string | undefined => {
    const value = cookies[BROWSER_COOKIE];
    return value !== undefined && VALUE.test(value) ? tokenHash(value) : undefined;
  };
  return {
    /** The hash of the browser's cookie. Sets a new one if the browser has none; several sign-ins at once share it. */
    mark(reply: Reply, cookies: Cookies): string {
      const known = hashIn(cookies);
      if (known !== undefined) return known;
      const value = randomBytes(32).toString('base64url');
      reply.cookie(BROWSER_COOKIE, value, {
        path: '/api/v1/sso',
        maxAgeMs: SIGN_IN_MINUTES * 60_000,
        secure: secureCookies,
        // The identity provider's site redirects to the callback, and browsers do not send strict cookies then.
        sameSite: 'lax',
      });
      return tokenHash(value);
    },
    hashIn,
  };
}

const CODE_MINUTES = 2;

interface NewCode {
  sessionId: string;
  refreshToken: string;
  /** Identifies the browser that may exchange the code. Absent: a link, which any browser may use. */
  browserHash?: string;
}

/** Stores the refresh token of a new session, and returns a code that can be exchanged for it once. */
export async function newExchangeCode(
  tx: Tx,
  encryptor: Encryptor,
  { sessionId, refreshToken, browserHash }: NewCode,
  minutes = CODE_MINUTES,
): Promise<string> {
  const code = randomBytes(32).toString('base64url');
  const codeHash = tokenHash(code);
  await ExchangeCode.query(tx).insert({
    codeHash,
    sessionId,
    browserHash: browserHash ?? null,
    refreshToken: encryptor.seal(refreshToken, exchangeTokenContext(codeHash)),
    expiresAt: raw('now() + make_interval(mins => ?)', [minutes]),
  });
  return code;
}

interface Exchange extends ExchangeRequest {
  /** The browser that sends the request; absent for an API client, which has no session that could be replaced. */
  browser?: { hash: string | undefined };
}

/** Exchanges a code for the tokens of its session. Of two requests with the same code, one is refused. */
export async function exchangeCode(
  ctx: PublicContext,
  { code, signedInAs, browser }: Exchange,
  { auth, secrets }: { auth: Pick<AuthService, 'tokensOf'>; secrets: Encryptor },
) {
  const codeHash = tokenHash(code);
  return ctx.withSystem('exchange the code of a sign-in', async (tx) => {
    const found = await ExchangeCode.query(tx).findById(codeHash).whereRaw('expires_at > now()').forUpdate();
    if (found === undefined) throw refusedCode('Invalid or expired token exchange code');
    const { sessionId, browserHash } = found;
    if (browser !== undefined && browserHash !== null && browser.hash !== browserHash) {
      throw refusedCode('This sign-in was begun in another browser. Begin it again in this one.');
    }
    const tokens = await auth.tokensOf(tx, ctx, sessionId);
    if (signedInAs !== undefined) await assertSamePerson(tx, sessionId, signedInAs);
    await found.$query(tx).delete();
    const { text: refreshToken } = secrets.open(found.refreshToken, exchangeTokenContext(codeHash));
    return { ...tokens, refreshToken };
  });
}

/** The code stays as it is, so that the person can be asked and the request be repeated. */
async function assertSamePerson(tx: Tx, sessionId: string, signedInAs: string): Promise<void> {
  const caller = await findCaller(tx, sessionId);
  if (caller === undefined || caller.userId === signedInAs) return;
  throw new AppError('conflict', `This would sign you in as ${caller.email}.`, {
    details: { code: 'OTHER_PERSON', email: caller.email },
  });
}

const refusedCode = (message: string) =>
  new AppError('validation_failed', message, { details: [{ path: 'body.code', message }] });

const STATE_COOKIE = 'svc_sso_state';

const CALLBACK_PATH = '/api/v1/sso/callback';

/**
 * The cookie that binds a sign-in to the browser that began it (SPEC 4.8). It contains a signature of the state.
 * Without this cookie, an attacker could send a person a link that signs the person in to the attacker's account.
 */
export type StateCookie = ReturnType<typeof stateCookie>;

export function stateCookie({ mac, secureCookies }: { mac: Mac; secureCookies: boolean }) {
  const write = (reply: Reply, value: string, minutes: number) =>
    reply.cookie(STATE_COOKIE, value, {
      path: CALLBACK_PATH,
      maxAgeMs: minutes * 60_000,
      secure: secureCookies,
      // The identity provider's site redirects to the callback, and browsers do not send strict cookies then.
      sameSite: 'lax',
    });
  return {
    set: (reply: Reply, state: string) => write(reply, mac.sign(state), SIGN_IN_MINUTES),
    clear: (reply: Reply) => write(reply, '', 0),
    /** Whether the cookies come from the browser that began the sign-in with this state. */
    isFrom: (cookies: Readonly<Record<string, string | undefined>>, state: string) =>
      mac.isSignatureOf(state, cookies[STATE_COOKIE] ?? ''),
  };
}
