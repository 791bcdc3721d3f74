import path from 'node:path';
import { z } from 'zod';
import { readPrivateJson, writePrivateJson } from './private-file.ts';

/** What may be set on this machine. `allowReboot` is for its administrator alone: the server cannot change it. */
const AgentSettings = z.object({
  autoUpdate: z.boolean().default(true),
  allowReboot: z.boolean().default(true),
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
        `The settings in ${file} cannot be read: ${String(error)}. Until they can, nothing reboots this machine.`,
      );
      return new Settings(file, { autoUpdate: true, allowReboot: false });
    }
  }

  get autoUpdate(): boolean {
    return this.#current.autoUpdate;
  }

  get allowReboot(): boolean {
    return this.#current.allowReboot;
  }

  async setAutoUpdate(autoUpdate: boolean): Promise<void> {
    const next = { ...this.#current, autoUpdate };
    await writePrivateJson(this.#file, next);
    this.#current = next;
  }
}
