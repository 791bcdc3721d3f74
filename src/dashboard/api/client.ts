import { ApiError, raw, send } from './request.ts';
import { accessToken, renewToken } from './tokens.ts';
import type { Answer, Input, Route } from './typed-route.ts';

/** Requests of the person who is signed in. */

/** Asks the person for the second factor; answers false where they decline. */
type StepUp = () => Promise<boolean>;
/** Requests that were refused before the dialog was loaded wait for it. */
const early: ((ask: StepUp) => void)[] = [];
let stepUp: StepUp = async () => (await new Promise<StepUp>((there) => early.push(there)))();

/** The frame answers a request that needs the second factor with a dialog. */
export function answerStepUpWith(ask: StepUp): void {
  stepUp = ask;
  for (const there of early.splice(0)) there(ask);
}

interface CallOptions {
  signal?: AbortSignal | undefined;
  /** Sent as `Idempotency-Key`, so that a repeated click makes no second command. */
  idempotencyKey?: string;
  /** The body, for a route that takes a file, with its SHA-256 in hexadecimal digits. */
  file?: { bytes: Blob; sha256: string };
}

/**
 * Calls a route as the signed-in person. Renews an expired token, and asks for the second factor, once each. Throws an
 * `ApiError`.
 */
export function call<R extends Route>(
  route: R,
  input: Input<R>,
  options: CallOptions = {},
): Promise<Answer<R>> {
  return authorized(route, (token) => send(route, input, { ...sendOptions(options), token }));
}

/** As `call`, for files: answers their bytes and the name that the server gives them. */
export function download<R extends Route>(
  route: R,
  input: Input<R>,
  options: CallOptions = {},
): Promise<{ blob: Blob; name: string | undefined }> {
  return authorized(route, async (token) => {
    const response = await raw(route, input, { ...sendOptions(options), token });
    return { blob: await response.blob(), name: nameIn(response.headers.get('content-disposition')) };
  });
}

const sendOptions = ({ signal, idempotencyKey, file }: CallOptions) => ({
  signal,
  ...(file === undefined ? {} : { file }),
  ...(idempotencyKey === undefined ? {} : { headers: { 'idempotency-key': idempotencyKey } }),
});

async function authorized<T>(route: Route, attempt: (token: string) => Promise<T>): Promise<T> {
  const token = await accessToken();
  if (token === undefined) throw signedOut();
  try {
    return await attempt(token);
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    if (error.status === 401) {
      const renewed = await renewToken();
      if (renewed === undefined) throw signedOut();
      // The session holds, so an action was refused for what it said, such as a wrong code: once more would count twice.
      if (!route.startsWith('GET ')) throw error;
      return attempt(renewed);
    }
    if (error.code === 'MFA_REQUIRED' && (await stepUp())) {
      const raised = await accessToken();
      if (raised !== undefined) return attempt(raised);
    }
    throw error;
  }
}

const signedOut = () =>
  new ApiError(401, { error: 'Your session has ended. Sign in again.', code: 'SIGNED_OUT' });

function nameIn(disposition: string | null): string | undefined {
  const encoded = /filename\*=UTF-8''([^;]+)/i.exec(disposition ?? '')?.[1];
  if (encoded !== undefined) return decodeURIComponent(encoded);
  return /filename="([^"]+)"/i.exec(disposition ?? '')?.[1];
}
