import { rm } from 'node:fs/promises';
import path from 'node:path';
import { z } from 'zod';
import { withLock } from '../../os/files/folder-lock.ts';
import { PROGRAM } from '../program-name.ts';
import { readPrivateJson, writePrivateJson } from '../../os/files/private-file.ts';

/** A token must fit into a header; any other text would break each request. */
export const TOKEN = z.string().regex(/^[\x21-\x7E]{1,200}$/, 'must be 1 to 200 visible characters');

/** The result of the enrollment: the server, the device and its token. */
export const Credentials = z.object({
  server: z.url(),
  deviceId: z.string(),
  orgId: z.string(),
  siteId: z.string(),
  token: TOKEN,
  /** When this token came into use; left out where it is that of the enrollment. */
  tokenSince: z.string().optional(),
  /** A token that the server has issued and that the next connection uses. */
  nextToken: TOKEN.optional(),
  /** The path of the hub on the server; left out where it is the default one. */
  hubPath: z.string().startsWith('/').optional(),
  heartbeatSeconds: z.number().positive(),
  enrolledAt: z.string(),
});
export type Credentials = z.infer<typeof Credentials>;

export const NOT_ENROLLED = `This machine is not enrolled. Enroll it with: ${PROGRAM} enroll --server URL --key KEY`;

const fileIn = (dataDir: string) => path.join(dataDir, 'credentials.json');

export async function saveCredentials(dataDir: string, credentials: Credentials): Promise<void> {
  await writePrivateJson(fileIn(dataDir), credentials);
}

/**
 * Changes the credentials under a lock, because enrollment, rotation and the running agent are separate processes that
 * write the same file. `change` gets the present credentials and returns `undefined` where there is nothing to change.
 */
export async function changeCredentials(
  dataDir: string,
  change: (kept: Credentials | undefined) => Credentials | undefined,
): Promise<void> {
  await withLock(dataDir, 'credentials', async () => {
    const next = change(await loadCredentials(dataDir));
    if (next !== undefined) await saveCredentials(dataDir, next);
  });
}

/** The present token comes first, because using the new one would end the connection of the present one. */
export function tokensOf({ token, nextToken }: Credentials): string[] {
  return nextToken === undefined ? [token] : [token, nextToken];
}

export async function removeCredentials(dataDir: string): Promise<void> {
  await withLock(dataDir, 'credentials', async () => rm(fileIn(dataDir), { force: true }));
}

/** Commands and results belong to one device of one server. */
export function isSameDevice(one: Credentials, other: Credentials): boolean {
  return one.server === other.server && one.deviceId === other.deviceId;
}

/** `undefined` where this machine is not enrolled. */
export async function loadCredentials(dataDir: string): Promise<Credentials | undefined> {
  const kept = await readPrivateJson(fileIn(dataDir));
  if (kept === undefined) return undefined;
  const credentials = Credentials.safeParse(kept);
  if (credentials.success) return credentials.data;
  const [issue] = credentials.error.issues;
  throw new Error(`${fileIn(dataDir)} cannot be used: ${issue?.path.join('.')}: ${issue?.message}.`);
}
