import path from 'node:path';
import { z } from 'zod';
import { readPrivateJson, writePrivateJson } from '../os/files/private-file.ts';
import { rm } from 'node:fs/promises';
import { withLock } from '../os/files/folder-lock.ts';
import { PROGRAM } from './version.ts';

/** The local settings. The server can change `autoUpdate` only; the others belong to the machine's administrator. */
const AgentSettings = z.object({
  autoUpdate: z.boolean().default(true),
  allowReboot: z.boolean().default(true),
  /** Whether people of the server may open terminals on this machine. */
  allowTerminals: z.boolean().default(true),
  /** Whether the warnings and errors of this machine, and the agent's own log, are sent to the server. */
  shipLogs: z.boolean().default(true),
  /** Whether the hardware and software inventory is sent to the server. */
  sendInventory: z.boolean().default(true),
  /** Whether an unencrypted connection is allowed; set by `enroll --insecure-http`. */
  insecureHttp: z.boolean().default(false),
  /** The configured name of the machine, in place of its own; set by `enroll --hostname`. */
  hostname: z.string().optional(),
});
type AgentSettings = z.infer<typeof AgentSettings>;

export class Settings {
  readonly #file: string;
  #current: AgentSettings;

  private constructor(file: string, current: AgentSettings) {
    this.#file = file;
    this.#current = current;
  }

  static async load(dataDir: string, warn: (message: string) => void): Promise<Settings> {
    const file = path.join(dataDir, 'settings.json');
    try {
      return new Settings(file, AgentSettings.parse((await readPrivateJson(file)) ?? {}));
    } catch (error) {
      warn(
        `The settings in ${file} cannot be read: ${String(error)}. Until this is fixed, the agent neither reboots this machine nor opens terminals on it, and sends neither its logs nor its inventory.`,
      );
      return new Settings(file, {
        autoUpdate: true,
        allowReboot: false,
        allowTerminals: false,
        shipLogs: false,
        sendInventory: false,
        insecureHttp: false,
      });
    }
  }

  /** Reads the file again: `update auto` is another process that writes it. An unreadable file changes nothing. */
  async refresh(): Promise<void> {
    const kept = AgentSettings.safeParse(await readPrivateJson(this.#file).catch(() => undefined));
    if (kept.success) this.#current = { ...this.#current, autoUpdate: kept.data.autoUpdate };
  }

  get autoUpdate(): boolean {
    return this.#current.autoUpdate;
  }

  get allowReboot(): boolean {
    return this.#current.allowReboot;
  }

  get allowTerminals(): boolean {
    return this.#current.allowTerminals;
  }

  get shipLogs(): boolean {
    return this.#current.shipLogs;
  }

  get sendInventory(): boolean {
    return this.#current.sendInventory;
  }

  get insecureHttp(): boolean {
    return this.#current.insecureHttp;
  }

  get hostname(): string | undefined {
    return this.#current.hostname;
  }

  /** @param hostname  `undefined`: the machine's own */
  async setHostname(hostname: string | undefined): Promise<void> {
    if (hostname !== this.#current.hostname) await this.#set({ hostname });
  }

  async setAutoUpdate(autoUpdate: boolean): Promise<void> {
    await this.#set({ autoUpdate });
  }

  async setInsecureHttp(insecureHttp: boolean): Promise<void> {
    if (insecureHttp !== this.#current.insecureHttp) await this.#set({ insecureHttp });
  }

  async #set(change: { [K in keyof AgentSettings]?: AgentSettings[K] | undefined }): Promise<void> {
    const next = AgentSettings.parse({ ...this.#current, ...change });
    await writePrivateJson(this.#file, next);
    this.#current = next;
  }
}

/** A token must fit into a header; any other text would break each request. */
export const TOKEN = z.string().regex(/^[\x21-\x7E]{1,200}$/, 'must be 1 to 200 visible characters');

/** The result of the enrollment: the server, the device and its token. */
export const Credentials = z.object({
  server: z.url(),
  deviceId: z.string(),
  orgId: z.string(),
  siteId: z.string(),
  token: TOKEN,
  /** When this token came into use; left out if it is that of the enrollment. */
  tokenSince: z.string().optional(),
  /** A token that the server has issued and that the next connection uses. */
  nextToken: TOKEN.optional(),
  /** The path of the hub on the server; left out if it is the default one. */
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
 * write the same file. `change` gets the present credentials and returns `undefined` if there is nothing to change.
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

/** `undefined` if this machine is not enrolled. */
export async function loadCredentials(dataDir: string): Promise<Credentials | undefined> {
  const kept = await readPrivateJson(fileIn(dataDir));
  if (kept === undefined) return undefined;
  const credentials = Credentials.safeParse(kept);
  if (credentials.success) return credentials.data;
  const [issue] = credentials.error.issues;
  throw new Error(`${fileIn(dataDir)} cannot be used: ${issue?.path.join('.')}: ${issue?.message}.`);
}
