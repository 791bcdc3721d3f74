import { homedir, platform } from 'node:os';
import path from 'node:path';
import { z } from 'zod';
import { withLock } from '../../os/files/folder-lock.ts';
import { readPrivateJson, writePrivateJson } from '../../os/files/private-file.ts';

/** As it stands in a header: what else a server sends as a token would break each request. */
export const TOKEN = z.string().regex(/^[\x21-\x7E]{1,200}$/, 'must be 1 to 200 visible characters');

/** What enrollment gave this machine: whose server it reports to, as which device, with which token. */
export const Credentials = z.object({
  server: z.url(),
  deviceId: z.string(),
  orgId: z.string(),
  siteId: z.string(),
  token: TOKEN,
  /** Since when it is that one; left out: since the enrollment. */
  tokenSince: z.string().optional(),
  /** Given out by the server and not used yet: the next connection does. */
  nextToken: TOKEN.optional(),
  /** Where the hub listens at that server; left out: where it always does. */
  hubPath: z.string().startsWith('/').optional(),
  heartbeatSeconds: z.number().positive(),
  enrolledAt: z.string(),
});
export type Credentials = z.infer<typeof Credentials>;

export const NOT_ENROLLED =
  'This machine is not enrolled. Enroll it with: npm run agent -- enroll --server URL --key KEY';

const fileIn = (dataDir: string) => path.join(dataDir, 'credentials.json');

export async function saveCredentials(dataDir: string, credentials: Credentials): Promise<void> {
  await writePrivateJson(fileIn(dataDir), credentials);
}

/**
 * Changes what is kept by what is kept at that moment: an enrollment, a rotation and the running agent write the same
 * file, each as a process of its own. `change` answers `undefined` where there is nothing to change.
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

/** Work and results belong to one device at one server; with other credentials they mean nothing. */
export function isSameDevice(one: Credentials, other: Credentials): boolean {
  return one.server === other.server && one.deviceId === other.deviceId;
}

/** `undefined` where the machine is not enrolled. */
export async function loadCredentials(dataDir: string): Promise<Credentials | undefined> {
  const kept = await readPrivateJson(fileIn(dataDir));
  if (kept === undefined) return undefined;
  const credentials = Credentials.safeParse(kept);
  if (credentials.success) return credentials.data;
  const [issue] = credentials.error.issues;
  throw new Error(`${fileIn(dataDir)} cannot be used: ${issue?.path.join('.')}: ${issue?.message}.`);
}

/** Where the agent keeps its files unless told otherwise. */
export function defaultDataDir(): string {
  const given = process.env['MUSTER_AGENT_DIR'];
  if (given !== undefined && given !== '') return given;
  if (platform() === 'win32') {
    return path.join(process.env['ProgramData'] ?? String.raw`C:\ProgramData`, 'muster-agent');
  }
  return process.getuid?.() === 0 ? '/var/lib/muster-agent' : path.join(homedir(), '.muster-agent');
}
