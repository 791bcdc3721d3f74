import { randomUUID } from 'node:crypto';
import { chmod, mkdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { z } from 'zod';
import { userConfigFolder } from '../../../config/user-folder.ts';
import type { CommandIo } from '../../io.ts';
import { EXIT, RemoteFailure } from './failure.ts';

/** Where the user has signed in: a file of theirs that nobody else can read, because it holds the keys. */

const Profile = z.object({ server: z.url({ protocol: /^https?$/ }), key: z.string().min(1) });
export type Profile = z.infer<typeof Profile>;

const Profiles = z.object({ current: z.string(), profiles: z.record(z.string(), Profile) });
export type Profiles = z.infer<typeof Profiles>;

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

/** Replaces the file as a whole, so that a crash leaves the old or the new one. */
export async function writeProfiles(io: CommandIo, profiles: Profiles): Promise<void> {
  const file = profilesFile(io);
  await mkdir(path.dirname(file), { recursive: true, mode: 0o700 });
  const next = `${file}.${randomUUID()}`;
  try {
    await writeFile(next, `${JSON.stringify(profiles, null, 2)}\n`, { mode: 0o600, flag: 'wx' });
    // The umask may have taken more than wanted, but never adds anything.
    await chmod(next, 0o600);
    await rename(next, file);
  } finally {
    await rm(next, { force: true });
  }
}

/** @param name  as given with --profile; the current one where it is absent */
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
