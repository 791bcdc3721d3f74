import passport from 'passport';
import OpenIdStrategy from 'passport-openidconnect';
import { SsoFailure } from '../flow/sso-failure.ts';
import type { OidcSettings } from './oidc-settings.ts';

/**
 * The strategy receives this URL instead of the provider's. It parses URLs with an older algorithm, which finds a
 * different host in some URLs than the guarded fetch does.
 */
const PLACEHOLDER = 'https://provider.invalid/';

/**
 * The only file that imports passport-openidconnect. The strategy builds the authorization request and reads the
 * callback. It trusts unsigned ID tokens and has no limits of time and size (docs/decisions/sso-oidc.md), so it must
 * not send or verify anything: `exchange` does all that follows the code, and its result ends the strategy.
 */
class Adapter<T> extends OpenIdStrategy {
  readonly #extraParams: Record<string, string>;

  constructor(settings: OidcSettings, { callbackUrl, store, extraParams, exchange }: AdapterOptions<T>) {
    super(
      {
        issuer: settings.issuer,
        authorizationURL: PLACEHOLDER,
        tokenURL: PLACEHOLDER,
        userInfoURL: '',
        clientID: settings.clientId,
        clientSecret: '',
        callbackURL: callbackUrl,
        scope: settings.scopes.length === 0 ? undefined : settings.scopes,
        store,
        skipUserProfile: true,
      },
      (_issuer: string, _profile: unknown, done: (error: Error) => void) =>
        done(new Error('The adapter has read an ID token by itself.')),
    );
    this.#extraParams = extraParams;
    Object.assign(this._oauth2, {
      getOAuthAccessToken: (code: string) => {
        exchange(code).then(
          (result) => this.success(result),
          (error: unknown) => this.error(error instanceof Error ? error : new Error(String(error))),
        );
      },
      _request: () => {
        throw new Error('The adapter has no access to the network.');
      },
    });
  }

  override authorizationParams(): object {
    return this.#extraParams;
  }
}

interface AdapterOptions<T> {
  callbackUrl: string;
  store: OpenIdStrategy.SessionStore;
  extraParams: Record<string, string>;
  exchange: (code: string) => Promise<T>;
}

/** The URL at the provider to which the browser is redirected. */
export async function authorizationUrl(
  settings: OidcSettings,
  callbackUrl: string,
  {
    state,
    ...extraParams
  }: { state: string; nonce: string; code_challenge: string; code_challenge_method: 'S256' },
): Promise<string> {
  const adapter = new Adapter(settings, {
    callbackUrl,
    store: {
      store: (_request, _context, _appState, _meta, done) => done(null, state),
      verify: (_request, _state, done) => done(null, false),
    },
    extraParams,
    exchange: () => Promise.reject(new Error('There is no code yet.')),
  });
  const outcome = await run<never>(adapter, {});
  if (!('redirect' in outcome)) throw new Error('The adapter sent the browser nowhere.');
  const url = new URL(settings.authorizationUrl);
  url.hash = '';
  for (const [name, value] of new URL(outcome.redirect).searchParams) url.searchParams.set(name, value);
  return url.href;
}

/** Passes the code of a callback to `exchange`, once, if the callback belongs to the sign-in. */
export async function takeAnswer<T>(
  settings: OidcSettings,
  callbackUrl: string,
  answer: { code: string; state: string },
  { signIn, exchange }: { signIn: { state: string; nonce: string }; exchange: (code: string) => Promise<T> },
): Promise<T> {
  let isUsed = false;
  const adapter = new Adapter(settings, {
    callbackUrl,
    store: {
      store: (_request, _context, _appState, _meta, done) => done(new Error('Nothing is stored here.')),
      verify(_request, state, done) {
        const isRight = !isUsed && state === signIn.state;
        isUsed = true;
        done(null, isRight ? { nonce: signIn.nonce } : false);
      },
    },
    extraParams: {},
    exchange,
  });
  const outcome = await run<T>(adapter, answer);
  if (!('result' in outcome)) throw new SsoFailure('answer_invalid', 'the adapter began another sign-in');
  return outcome.result;
}

/**
 * Runs a strategy, and returns its result as a promise. Each strategy is run once, because Passport stores its
 * callbacks on the instance. All errors of the strategy, also those in callbacks, reject the promise.
 */
function run<T>(
  strategy: Adapter<T>,
  query: Record<string, string>,
): Promise<{ redirect: string } | { result: T }> {
  return new Promise((resolve, reject) => {
    const ended = (error: unknown, result?: T | false) => {
      if (error) reject(error);
      else if (result === undefined || result === false) {
        reject(new SsoFailure('answer_invalid', 'the adapter refused the answer'));
      } else resolve({ result });
    };
    const handle: Handler = new passport.Passport().authenticate(strategy, { session: false }, ended);
    const response = {
      setHeader: (name: string, value: string) => name === 'Location' && resolve({ redirect: value }),
      end: () => undefined,
    };
    handle({ query }, response, ended);
  });
}

type Handler = (request: object, response: object, next: (error?: unknown) => void) => void;
