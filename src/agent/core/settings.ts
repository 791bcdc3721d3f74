import path from 'node:path';
import { z } from 'zod';
import { readPrivateJson, writePrivateJson } from '../../os/files/private-file.ts';

/** The local settings. The server can change `autoUpdate` only; the others belong to the machine's administrator. */
const AgentSettings = z.object({
  autoUpdate: z.boolean().default(true),
  allowReboot: z.boolean().default(true),
  /** Whether the warnings and errors of this machine, and the agent's own log, are sent to the server. */
  shipLogs: z.boolean().default(true),
  /** Whether the hardware and software inventory is sent to the server. */
  sendInventory: z.boolean().default(true),
  /** Whether an unencrypted connection is allowed; set by `enroll --insecure-http`. */
  insecureHttp: z.boolean().default(false),
  /** The name that the machine goes by in place of its own; set by `enroll --hostname`. */
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
        `The settings in ${file} cannot be read: ${String(error)}. Until this is fixed, the agent does not reboot this machine, and sends neither its logs nor its inventory.`,
      );
      return new Settings(file, {
        autoUpdate: true,
        allowReboot: false,
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
