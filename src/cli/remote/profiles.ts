import { randomUUID } from 'node:crypto';
import { chmod, mkdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { z } from 'zod';
import { userConfigFolder } from '../../config/variables.ts';
import type { CommandIo } from '../io.ts';
import { clock } from '../../clock.ts';

/** Exit codes of the remote commands. `muster --help` and the operator's guide list them. */
export const EXIT = {
  /** The command worked and reports a failure: a device did not answer, or the watched job failed. */
  finding: 1,
  /** An invalid call, or a failure of another kind. */
  failed: 2,
  /** The server does not accept the key, or there is none. */
  notSignedIn: 3,
  /** The key lacks a permission. */
  forbidden: 4,
  /** The server cannot be reached, or the connection to it was lost. */
  unreachable: 5,
  /** Ctrl+C. */
  interrupted: 130,
} as const;
type ExitCode = (typeof EXIT)[keyof typeof EXIT];

/** A failure that the user can understand without a stack. */
export class RemoteFailure extends Error {
  readonly exit: ExitCode;

  constructor(exit: ExitCode, message: string) {
    super(message);
    this.name = 'RemoteFailure';
    this.exit = exit;
  }
}

/** @param code  of the REST error body, or of a refusal on the socket */
export function exitOf(code: string): ExitCode {
  switch (code.toLowerCase()) {
    case 'unauthenticated':
      return EXIT.notSignedIn;
    case 'forbidden':
    case 'mfa_required':
      return EXIT.forbidden;
    case 'device_offline':
    case 'device_timeout':
    case 'device_busy':
    case 'device_error':
      return EXIT.finding;
    default:
      return EXIT.failed;
  }
}

/** The file in which the user's sign-ins are stored. Only its owner may read it, because it contains the keys. */

const Profile = z.object({ server: z.url({ protocol: /^https?$/ }), key: z.string().min(1) });
export type Profile = z.infer<typeof Profile>;

const Profiles = z.object({ current: z.string(), profiles: z.record(z.string(), Profile) });
type Profiles = z.infer<typeof Profiles>;

export const profilesFile = ({ env }: CommandIo): string => path.join(userConfigFolder(env), 'profiles.json');

export async function readProfiles(io: CommandIo): Promise<Profiles> {
  const file = profilesFile(io);
  let text: string;
  try {
    if (process.platform !== 'win32' && ((await stat(file)).mode & 0o077) !== 0) {
      throw new RemoteFailure(
        EXIT.failed,
        `${file} holds API keys and can be read by other users. Run chmod 600 on it, and rotate the keys if others may have read them.`,
      );
    }
    text = await readFile(file, 'utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return { current: 'default', profiles: {} };
    throw error;
  }
  const parsed = Profiles.safeParse(jsonOf(text));
  if (!parsed.success) {
    throw new RemoteFailure(EXIT.failed, `${file} is damaged. Delete it, and run "muster login" again.`);
  }
  return parsed.data;
}

/** Replaces the file atomically, so that a crash leaves the old or the new one. */
export async function writeProfiles(io: CommandIo, profiles: Profiles): Promise<void> {
  const file = profilesFile(io);
  await mkdir(path.dirname(file), { recursive: true, mode: 0o700 });
  const next = `${file}.${randomUUID()}`;
  try {
    await writeFile(next, `${JSON.stringify(profiles, null, 2)}\n`, { mode: 0o600, flag: 'wx' });
    // The umask may have removed rights, but never adds any.
    await chmod(next, 0o600);
    await rename(next, file);
  } finally {
    await rm(next, { force: true });
  }
}

/** @param name  as given with --profile; absent: the current profile */
export async function profileNamed(io: CommandIo, name: string | undefined): Promise<Profile> {
  const { current, profiles } = await readProfiles(io);
  const wanted = name ?? current;
  const profile = Object.hasOwn(profiles, wanted) ? profiles[wanted] : undefined;
  if (profile !== undefined) return profile;
  const known = Object.keys(profiles);
  throw new RemoteFailure(
    EXIT.notSignedIn,
    known.length === 0
      ? 'You are not signed in. Run "muster login --server <url>".'
      : `There is no profile ${wanted}. There are: ${known.join(', ')}.`,
  );
}

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** The REST API of the server, with the key of a profile. Every failure is a `RemoteFailure`. */
export interface Api {
  get<S extends z.ZodType>(path: string, schema: S, query?: Query): Promise<z.infer<S>>;
  /** Sent once: a command that acts is not repeated by itself. */
  post<S extends z.ZodType>(path: string, schema: S, body: object): Promise<z.infer<S>>;
}
export type Query = Readonly<Record<string, string | undefined>>;

/** Longer than the server lets any request wait. */
const PATIENCE_MS = 60_000;
const Failure = z.object({
  error: z.string(),
  code: z.string(),
  details: z.object({ code: z.string(), message: z.string() }).optional().catch(undefined),
});

export function apiOf({ server, key }: Profile): Api {
  const urlOf = (path: string) => new URL(`/api/v1${path}`, server);
  return {
    async get(path, schema, query = {}) {
      const url = urlOf(path);
      for (const [name, value] of Object.entries(query)) {
        if (value !== undefined) url.searchParams.set(name, value);
      }
      return understood(schema, await answerOf(url, key), `GET ${path}`);
    },
    post: async (path, schema, body) =>
      understood(schema, await answerOf(urlOf(path), key, body), `POST ${path}`),
  };
}

function understood<S extends z.ZodType>(schema: S, body: unknown, request: string): z.infer<S> {
  const answer = schema.safeParse(body);
  if (answer.success) return answer.data;
  throw new RemoteFailure(
    EXIT.failed,
    `The answer of the server to ${request} is not understood. Is this command as new as the server?`,
  );
}

/** @param body  of a POST; a GET has none */
async function answerOf(url: URL, key: string, body?: object): Promise<unknown> {
  let response: Response;
  let text: string;
  try {
    response = await fetch(url, {
      headers: {
        authorization: `Bearer ${key}`,
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
      },
      ...(body === undefined ? {} : { method: 'POST', body: JSON.stringify(body) }),
      // The key is for this server, so redirects are not followed.
      redirect: 'manual',
      signal: clock.timeoutSignal(PATIENCE_MS),
    });
    text = await response.text();
  } catch (error) {
    throw new RemoteFailure(EXIT.unreachable, `${url.origin} does not answer: ${reasonOf(error)}`);
  }
  const answer = jsonOf(text);
  if (response.ok && answer !== undefined) return answer;
  const failure = Failure.safeParse(answer);
  if (failure.success) {
    const { error: refusal, code, details } = failure.data;
    // What the device itself has said.
    const error = details === undefined ? refusal : `${refusal} ${details.message}`;
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

/** The underlying error, without the library's wrapping text. */
export function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  return error.cause instanceof Error ? reasonOf(error.cause) : error.message;
}
