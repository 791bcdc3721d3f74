import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import type { Interpreter } from './interpreters.ts';

/** Where scripts lie while they run: below the agent's own folder, so that a start finds what a killed agent left. */
export class ScriptFolder {
  readonly #root: string;
  readonly #warn: (message: string) => void;

  constructor(dataDir: string, warn: (message: string) => void) {
    this.#root = path.join(dataDir, 'scripts');
    this.#warn = warn;
  }

  async clear(): Promise<void> {
    await this.#remove(this.#root);
  }

  /** Gives `use` the script's file and an empty folder to work in; both are gone afterwards, however it ends. */
  async with<T>(
    { extension, head }: Interpreter,
    content: string,
    use: (file: string, workFolder: string) => Promise<T>,
  ): Promise<T> {
    await mkdir(this.#root, { recursive: true, mode: 0o700 });
    const folder = await mkdtemp(path.join(this.#root, 'run-'));
    try {
      const file = path.join(folder, `script${extension}`);
      const workFolder = path.join(folder, 'work');
      await writeFile(file, head + content, { mode: 0o600, flag: 'wx' });
      await mkdir(workFolder, { mode: 0o700 });
      return await use(file, workFolder);
    } finally {
      await this.#remove(folder);
    }
  }

  async #remove(folder: string): Promise<void> {
    try {
      await rm(folder, { recursive: true, force: true, maxRetries: 3 });
    } catch (error) {
      this.#warn(`The folder ${folder} could not be removed; the next start tries again: ${String(error)}`);
    }
  }
}
