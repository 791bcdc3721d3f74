import path from 'node:path';
import { z } from 'zod';
import { readPrivateJson, writePrivateJson } from '../../agent/os/files/private-file.ts';
import { endLeftover } from '../../agent/os/processes/leftover-process.ts';
import { processMark } from '../../agent/os/processes/process-mark.ts';
import { upgradesIn } from '../../agent/os/upgrades/upgrade-files.ts';

const Known = z.object({ pid: z.number().int().positive(), mark: z.string() });

/** The process that a killed watchdog has left running: it must end before another agent starts in the same folder. */
export class LeftoverAgent {
  readonly #file: string;
  #writing: Promise<void> = Promise.resolve();

  constructor(dataDir: string) {
    this.#file = path.join(upgradesIn(dataDir), 'agent-process.json');
  }

  record(pid: number): void {
    // An agent whose watchdog is killed before this is written ends by itself, because its channel is closed.
    this.#writing = this.#writing
      .then(async () => writePrivateJson(this.#file, { pid, mark: await processMark(pid) }))
      .catch(() => {});
  }

  async end(): Promise<void> {
    await this.#writing;
    const known = Known.safeParse(await readPrivateJson(this.#file).catch(() => undefined)).data;
    if (known !== undefined) await endLeftover(known);
  }
}
