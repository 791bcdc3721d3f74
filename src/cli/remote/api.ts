import { randomUUID } from 'node:crypto';
import { z } from 'zod';
import { clock } from '../../clock.ts';
import { EXIT, exitOf, jsonOf, type Profile, RemoteFailure } from './profiles.ts';

/** The REST API of the server, with the key of a profile. Every failure is a `RemoteFailure`. */
export interface Api {
  get<S extends z.ZodType>(path: string, schema: S, query?: Query): Promise<z.infer<S>>;
  /** Sent once: a command that acts is not repeated by itself. */
  post<S extends z.ZodType>(path: string, schema: S, body: object): Promise<z.infer<S>>;
  /** For routes that take an `Idempotency-Key`: sent again when no answer comes, and takes effect once. */
  postOnce<S extends z.ZodType>(path: string, schema: S, body: object): Promise<z.infer<S>>;
}
export type Query = Readonly<Record<string, string | undefined>>;

/** Longer than the server lets any request wait. */
const PATIENCE_MS = 60_000;
/** The largest pages of the server stay far below. */
const ANSWER_MAX_BYTES = 50_000_000;
/** Pauses before a request is sent again of which it is unknown whether it has arrived. */
const AGAIN_MS = [500, 2000];

const Said = z.object({ code: z.string(), message: z.string() });

/** A device that a request for several was refused for. */
export const Refusal = z.object({ deviceId: z.string(), code: z.string(), message: z.string() });
type Refusal = z.infer<typeof Refusal>;

const Failure = z.object({
  error: z.string(),
  code: z.string(),
  // What a device itself has said, or the devices that are refused and why.
  details: z
    .union([Said, z.array(Refusal)])
    .optional()
    .catch(undefined),
});

export function apiOf({ server, key }: Profile): Api {
  const urlOf = (path: string) => new URL(`/api/v1${path}`, server);
  return {
    async get(path, schema, query = {}) {
      const url = urlOf(path);
      for (const [name, value] of Object.entries(query)) {
        if (value !== undefined) url.searchParams.set(name, value);
      }
      const { answer } = await request(url, { key });
      return understood(schema, answer, `GET ${path}`);
    },
    async post(path, schema, body) {
      const { answer } = await request(urlOf(path), { key, body });
      return understood(schema, answer, `POST ${path}`);
    },
    async postOnce(path, schema, body) {
      const sent = { key, body, idempotencyKey: randomUUID() };
      for (const pauseMs of AGAIN_MS) {
        try {
          const { answer } = await request(urlOf(path), sent);
          return understood(schema, answer, `POST ${path}`);
        } catch (error) {
          if (!(error instanceof Unanswered)) throw error;
          await clock.sleep(pauseMs);
        }
      }
      const { answer } = await request(urlOf(path), sent);
      return understood(schema, answer, `POST ${path}`);
    },
  };
}

export function understood<S extends z.ZodType>(schema: S, body: unknown, asked: string): z.infer<S> {
  const answer = schema.safeParse(body);
  if (answer.success) return answer.data;
  throw new RemoteFailure(
    EXIT.failed,
    `The answer of the server to ${asked} is not understood. Is this command as new as the server?`,
  );
}

/** No answer has come, so it is unknown whether the request was carried out. */
class Unanswered extends RemoteFailure {}

interface Sent {
  key?: string;
  /** Of a POST; a GET has none. */
  body?: object;
  idempotencyKey?: string;
}

/** A refusal of the server, with its code. */
export class Refused extends RemoteFailure {
  readonly code: string;
  /** Of a request for several devices of which none was taken. */
  readonly refusals: readonly Refusal[];

  constructor(code: string, message: string, refusals: readonly Refusal[]) {
    super(exitOf(code), message);
    this.code = code;
    this.refusals = refusals;
  }
}

export async function request(
  url: URL,
  { key, body, idempotencyKey }: Sent,
): Promise<{ answer: unknown; headers: Headers }> {
  let response: Response;
  let text: string | undefined;
  try {
    response = await fetch(url, {
      headers: {
        ...(key === undefined ? {} : { authorization: `Bearer ${key}` }),
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
        ...(idempotencyKey === undefined ? {} : { 'idempotency-key': idempotencyKey }),
      },
      ...(body === undefined ? {} : { method: 'POST', body: JSON.stringify(body) }),
      // The key is for this server, so redirects are not followed.
      redirect: 'manual',
      signal: clock.timeoutSignal(PATIENCE_MS),
    });
    text = await textOf(response);
  } catch (error) {
    const doubt = body === undefined ? '' : '. It is not known whether this was carried out.';
    throw new Unanswered(EXIT.unreachable, `${url.origin} does not answer: ${reasonOf(error)}${doubt}`);
  }
  if (text === undefined) {
    throw new RemoteFailure(
      EXIT.failed,
      `${url.origin} sends more than ${ANSWER_MAX_BYTES / 1_000_000} MB, which is no answer of a Muster server.`,
    );
  }
  const answer = jsonOf(text);
  if (response.ok && answer !== undefined) return { answer, headers: response.headers };
  const failure = Failure.safeParse(answer);
  if (failure.success) {
    const { error: refusal, code, details = [] } = failure.data;
    const refusals = Array.isArray(details) ? details : [];
    const error = Array.isArray(details) ? refusal : `${refusal} ${details.message}`;
    const retryAfter = response.headers.get('retry-after');
    const when = response.status === 429 && retryAfter !== null ? ` Try again in ${retryAfter} s.` : '';
    throw new Refused(code, `${error}${when}`, refusals);
  }
  const location = response.headers.get('location');
  throw new RemoteFailure(
    EXIT.unreachable,
    location === null
      ? `${url.origin} answers with status ${response.status}, and not as a Muster server does.`
      : `${url.origin} sends us on to ${location}. Sign in to the address of the server itself.`,
  );
}

/** Returns `undefined` for a body that is too large. */
async function textOf({ body }: Response): Promise<string | undefined> {
  if (body === null) return '';
  const parts: Uint8Array[] = [];
  let length = 0;
  for await (const part of body) {
    length += part.byteLength;
    // Leaving the loop ends the connection.
    if (length > ANSWER_MAX_BYTES) return undefined;
    parts.push(part);
  }
  return Buffer.concat(parts).toString('utf8');
}

/** The underlying error, without the library's wrapping text. */
export function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  return error.cause instanceof Error ? reasonOf(error.cause) : error.message;
}
