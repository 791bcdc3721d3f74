import { z } from 'zod';
import { clock } from '../../clock.ts';
import { ask, type CommandIo, Unanswered } from '../io.ts';
import { apiOf, Refused, request, understood } from './api.ts';
import { unheld } from './hub-connection.ts';
import { visible } from './output.ts';
import { EXIT, type Profile, RemoteFailure } from './profiles.ts';

/**
 * A session of a person, for what an API key may not do. Password and code are asked for at the terminal; the session is
 * in memory only, and ends with the command.
 */
export interface PersonSession {
  /** The server with an access token that is still good for a while. */
  profile(): Promise<Profile>;
  /** Asks for another code. */
  giveFactor(): Promise<void>;
  end(): Promise<void>;
}

const Tokens = z.object({ accessToken: z.string(), expiresInSeconds: z.number() });
type Tokens = z.infer<typeof Tokens>;
const SignedIn = z.object({ mfaRequired: z.literal(false), tokens: Tokens });
const Login = z.discriminatedUnion('mfaRequired', [
  SignedIn,
  z.object({ mfaRequired: z.literal(true), tempToken: z.string() }),
]);
const Refreshed = z.object({ tokens: Tokens, refreshToken: z.string() });

const TRIES = 3;
const MARGIN_MS = 60_000;
const END_MS = 5000;

export async function signInAsPerson(
  io: CommandIo,
  { server, email }: { server: string; email: string },
): Promise<PersonSession> {
  const urlOf = (path: string) => new URL(`/api/v1${path}`, server);
  const asked = (what: string) => askedSecret(io, what);
  const post = async <S extends z.ZodType>(path: string, schema: S, body: object, key?: string) => {
    const { answer, headers } = await request(urlOf(path), { body, ...(key === undefined ? {} : { key }) });
    return { answer: understood(schema, answer, `POST ${path}`), headers };
  };

  const { answer: login, headers } = await untilAccepted(io, async () =>
    post('/auth/login', Login, { email, password: await asked(`Password of ${email} for ${server}`) }),
  );
  let refreshToken = refreshTokenIn(headers);
  let tokens: Tokens;
  if (login.mfaRequired) {
    const { tempToken } = login;
    const verified = await untilAccepted(io, async () =>
      post('/auth/mfa/verify', SignedIn, { tempToken, code: await asked(CODE) }),
    );
    ({ tokens } = verified.answer);
    refreshToken = refreshTokenIn(verified.headers);
  } else ({ tokens } = login);
  let renewAt = clock.now() + tokens.expiresInSeconds * 1000 - MARGIN_MS;
  const take = (next: Tokens) => {
    tokens = next;
    renewAt = clock.now() + next.expiresInSeconds * 1000 - MARGIN_MS;
  };

  const profile = async (): Promise<Profile> => {
    if (clock.now() >= renewAt) {
      const { answer } = await post('/auth/refresh', Refreshed, { refreshToken });
      ({ refreshToken } = answer);
      take(answer.tokens);
    }
    return { server, key: tokens.accessToken };
  };
  return {
    profile,
    async giveFactor() {
      const { key } = await profile();
      const { answer } = await untilAccepted(io, async () =>
        post('/auth/mfa/step-up', Tokens, { code: await asked(CODE) }, key),
      );
      take(answer);
    },
    async end() {
      const ending = apiOf({ server, key: tokens.accessToken }).post('/auth/logout', z.unknown(), {});
      // A session that is not ended here ends by itself.
      await Promise.race([ending, unheld(END_MS)]).catch(() => undefined);
    },
  };
}

const CODE = 'Code of your authenticator app, or a recovery code';

/** Another try for a password or a code that is not right. */
async function untilAccepted<T>({ stderr }: CommandIo, attempt: () => Promise<T>): Promise<T> {
  for (let tries = 1; ; tries++) {
    try {
      return await attempt();
    } catch (error) {
      if (!(error instanceof Refused) || error.code !== 'UNAUTHENTICATED' || tries >= TRIES) throw error;
      stderr.write(`${visible(error.message)}\n`);
    }
  }
}

async function askedSecret(io: CommandIo, what: string): Promise<string> {
  try {
    return await ask(io, visible(`${what} (not shown): `), { isSecret: true });
  } catch (error) {
    if (!(error instanceof Unanswered)) throw error;
    throw new RemoteFailure(
      error.reason === 'interrupted' ? EXIT.interrupted : EXIT.notSignedIn,
      'You are not signed in as a person.',
    );
  }
}

/** The cookie is for browsers; the token in it works in a body as well. */
function refreshTokenIn(headers: Headers): string {
  const cookie = headers.getSetCookie().find((one) => one.startsWith('svc_refresh='));
  return cookie?.slice('svc_refresh='.length).split(';')[0] ?? '';
}
