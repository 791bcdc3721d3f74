import { randomUUID } from 'node:crypto';
import { chmod, mkdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { z } from 'zod';
import { userConfigFolder } from '../../config/environment.ts';
import type { CommandIo } from '../io.ts';

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

export function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
