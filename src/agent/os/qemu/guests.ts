import { mkdir, readdir, rm } from 'node:fs/promises';
import path from 'node:path';
import { readPrivateJson, writePrivateJson } from '../files/private-file.ts';
import { GuestDefinition } from './guest-definition.ts';

/** The machines that this agent has defined: a file for each in its folder, beside the folder of its disks. */
export class Guests {
  readonly folder: string;
  readonly #warn: (message: string) => void;

  constructor(folder: string, warn: (message: string) => void) {
    this.folder = folder;
    this.#warn = warn;
  }

  /** Where the disks of a machine are, unless it was given another folder. */
  folderOf(id: string): string {
    return path.join(this.folder, id);
  }

  async list(): Promise<GuestDefinition[]> {
    const names = await readdir(this.folder).catch(() => []);
    const found: GuestDefinition[] = [];
    for (const name of names.filter((each) => each.endsWith('.json')).sort()) {
      const guest = await this.read(name.slice(0, -'.json'.length));
      if (guest !== undefined) found.push(guest);
    }
    return found;
  }

  async read(id: string): Promise<GuestDefinition | undefined> {
    const file = this.#file(id);
    const value = await readPrivateJson(file).catch((error: unknown) => {
      this.#warn(`The machine in ${file} cannot be read: ${String(error)}`);
    });
    if (value === undefined) return undefined;
    const parsed = GuestDefinition.safeParse(value);
    if (parsed.success && parsed.data.id === id) return parsed.data;
    this.#warn(`The machine in ${file} is not one that this agent can have written.`);
    return undefined;
  }

  async write(guest: GuestDefinition): Promise<void> {
    await mkdir(this.folder, { recursive: true, mode: 0o700 });
    await writePrivateJson(this.#file(guest.id), GuestDefinition.parse(guest));
  }

  /** Forgets a machine that does not run, with its disks. The definition goes last, so that this can be repeated. */
  async remove({ id, folder }: Pick<GuestDefinition, 'id' | 'folder'>): Promise<void> {
    await rm(folder, { recursive: true, force: true, maxRetries: 3 });
    await rm(this.#file(id), { force: true });
  }

  #file(id: string): string {
    return path.join(this.folder, `${path.basename(id)}.json`);
  }
}
