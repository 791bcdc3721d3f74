import { mkdir, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { z } from 'zod';
import { processMark } from '../../os/processes/process-mark.ts';
import { hasCode, readPrivateJson, writePrivateJson } from '../../os/files/private-file.ts';
import type { Interpreter } from './interpreters.ts';
import { endLeftover } from '../../os/processes/leftover-process.ts';

/** Written beside a running script: the process that a later agent has to end. */
const RunningScript = z.object({ pid: z.number().int().positive(), mark: z.string() });
const PROCESS_FILE = 'process.json';

/** What a script needs to run. */
export interface PreparedScript {
  file: string;
  workFolder: string;
  /** Must be called when the process has started: it records the process, so that a later agent can end it. */
  started: (pid: number) => Promise<void>;
}

/** The folder of running scripts, below the agent's own folder, so that the next start finds what a killed agent left. */
export class ScriptFolder {
  readonly #root: string;
  readonly #warn: (message: string) => void;

  constructor(dataDir: string, warn: (message: string) => void) {
    this.#root = path.join(dataDir, 'scripts');
    this.#warn = warn;
  }

  /** Ends the scripts that an earlier agent has left running, and removes their files. */
  async clear(): Promise<void> {
    const names = await readdir(this.#root).catch((error: unknown) => {
      if (!hasCode(error, 'ENOENT')) {
        this.#warn(`The folder ${this.#root} could not be read: ${String(error)}`);
      }
      return [];
    });
    await Promise.all(names.map(async (name) => this.#endScriptIn(path.join(this.#root, name))));
    await this.#remove(this.#root);
  }

  /** Calls `use` with the script's file and an empty working folder. Both are removed afterwards, also after a failure. */
  async with<T>(
    { extension, head, lineEnd }: Interpreter,
    content: string,
    use: (script: PreparedScript) => Promise<T>,
  ): Promise<T> {
    await mkdir(this.#root, { recursive: true, mode: 0o700 });
    const folder = await mkdtemp(path.join(this.#root, 'run-'));
    try {
      const file = path.join(folder, `script${extension}`);
      const workFolder = path.join(folder, 'work');
      const text = lineEnd === undefined ? content : content.replace(/\r?\n/g, lineEnd);
      await writeFile(file, head + text, { mode: 0o600, flag: 'wx' });
      await mkdir(workFolder, { mode: 0o700 });
      return await use({
        file,
        workFolder,
        async started(pid) {
          await writePrivateJson(path.join(folder, PROCESS_FILE), { pid, mark: await processMark(pid) });
        },
      });
    } finally {
      await this.#remove(folder);
    }
  }

  async #endScriptIn(folder: string): Promise<void> {
    const left = RunningScript.safeParse(
      await readPrivateJson(path.join(folder, PROCESS_FILE)).catch(() => undefined),
    );
    if (!left.success || (await endLeftover(left.data))) return;
    this.#warn(`A script that an earlier agent left running (process ${left.data.pid}) could not be ended.`);
  }

  async #remove(folder: string): Promise<void> {
    try {
      await rm(folder, { recursive: true, force: true, maxRetries: 3 });
    } catch (error) {
      this.#warn(`The folder ${folder} could not be removed. The next start tries again: ${String(error)}`);
    }
  }
}
