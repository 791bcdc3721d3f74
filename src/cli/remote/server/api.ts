import { z } from 'zod';
import { clock } from '../../../clock.ts';
import { EXIT, exitOf, RemoteFailure } from './failure.ts';
import type { Profile } from './profiles.ts';

/** The REST interface of the server, with the key of a profile. Every failure is a `RemoteFailure`. */
export interface Api {
  get<S extends z.ZodType>(path: string, schema: S, query?: Query): Promise<z.infer<S>>;
}
export type Query = Readonly<Record<string, string | undefined>>;

/** Longer than anything that the server lets a request wait for. */
const PATIENCE_MS = 60_000;
const Failure = z.object({ error: z.string(), code: z.string() });

export function apiOf({ server, key }: Profile): Api {
  return {
    async get(path, schema, query = {}) {
      const url = new URL(`/api/v1${path}`, server);
      for (const [name, value] of Object.entries(query)) {
        if (value !== undefined) url.searchParams.set(name, value);
      }
      const answer = schema.safeParse(await answerOf(url, key));
      if (answer.success) return answer.data;
      throw new RemoteFailure(
        EXIT.failed,
        `The answer of ${url.origin} to GET ${path} is not understood. Is this command as new as the server?`,
      );
    },
  };
}

async function answerOf(url: URL, key: string): Promise<unknown> {
  let response: Response;
  let text: string;
  try {
    response = await fetch(url, {
      headers: { authorization: `Bearer ${key}` },
      // The key is for this server, not for where it may point.
      redirect: 'manual',
      signal: clock.timeoutSignal(PATIENCE_MS),
    });
    text = await response.text();
  } catch (error) {
    throw new RemoteFailure(EXIT.unreachable, `${url.origin} does not answer: ${reasonOf(error)}`);
  }
  const body = jsonOf(text);
  if (response.ok && body !== undefined) return body;
  const failure = Failure.safeParse(body);
  if (failure.success) {
    const { error, code } = failure.data;
    const retryAfter = response.headers.get('retry-after');
    const when = response.status === 429 && retryAfter !== null ? ` Try again in ${retryAfter} s.` : '';
    throw new RemoteFailure(exitOf(code), `${error}${when}`);
  }
  const location = response.headers.get('location');
  throw new RemoteFailure(
    EXIT.unreachable,
    location === null
      ? `${url.origin} answers with status ${response.status}, and not as a Muster server does.`
      : `${url.origin} sends us on to ${location}. Sign in to the address of the server itself.`,
  );
}

/** What went wrong below, without the words of the library around it. */
export function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  return error.cause instanceof Error ? reasonOf(error.cause) : error.message;
}

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
