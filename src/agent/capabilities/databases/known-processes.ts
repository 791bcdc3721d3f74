import { readdir, rm } from 'node:fs/promises';
import path from 'node:path';
import { z } from 'zod';
import { readPrivateJson, writePrivateJson } from '../../os/files/private-file.ts';
import { endLeftover } from '../../os/processes/leftover-process.ts';
import { processMark } from '../../os/processes/process-mark.ts';

const Known = z.object({ pid: z.number().int().positive(), mark: z.string() });

/** How long a server that recovers a folder has to stop in good order. */
const STOP_MS = 10_000;

/** Processes of the agent that do not end with it: a server that recovers a folder. A later agent ends them. */
export class KnownProcesses {
  readonly #folder: string;

  /** @param folder  a private folder of the agent */
  constructor(folder: string) {
    this.#folder = path.join(folder, 'database-processes');
  }

  /** Returns what forgets it. */
  async record(pid: number): Promise<() => Promise<void>> {
    const file = path.join(this.#folder, `${pid}.json`);
    await writePrivateJson(file, { pid, mark: await processMark(pid) });
    return () => rm(file, { force: true });
  }

  /** Ends those of an earlier agent. */
  async clear(): Promise<void> {
    const names = await readdir(this.#folder).catch(() => []);
    for (const name of names) {
      const file = path.join(this.#folder, name);
      const left = Known.safeParse(await readPrivateJson(file).catch(() => undefined));
      if (!left.success || (await endLeftover(left.data, { signal: 'SIGINT', ms: STOP_MS }))) {
        await rm(file, { force: true });
      }
    }
  }
}
