import { rm } from 'node:fs/promises';
import path from 'node:path';
import { z } from 'zod';
import type { ConnectionState } from '../connection/connection.ts';
import { isRunning, processMark } from '../../os/processes/process-mark.ts';
import { readPrivateJson, writePrivateJson } from '../../os/files/private-file.ts';

/** What a running agent leaves for `status` to read. */
export const AgentStatus = z.object({
  pid: z.number().int(),
  /** Tells this process from a later one that was given the same number; empty where the system does not say. */
  processMark: z.string(),
  startedAt: z.string(),
  server: z.string(),
  connection: z.discriminatedUnion('state', [
    z.object({ state: z.literal('connecting') }),
    z.object({ state: z.literal('connected'), since: z.string(), lastHeartbeatAt: z.string().nullable() }),
    z.object({ state: z.literal('waiting'), nextTryAt: z.string(), reason: z.string() }),
    z.object({ state: z.literal('stopped') }),
  ]),
});
export type AgentStatus = z.infer<typeof AgentStatus>;

const fileIn = (dataDir: string) => path.join(dataDir, 'status.json');

/** Writes one state after the other; of those that come while it writes, the latest. */
export class StatusFile {
  readonly #dataDir: string;
  readonly #fixed: Omit<AgentStatus, 'connection' | 'processMark'>;
  #mark: string | undefined;
  #next: ConnectionState | undefined;
  #writing: Promise<void> | undefined;

  constructor(dataDir: string, server: string) {
    this.#dataDir = dataDir;
    this.#fixed = {
      pid: process.pid,
      startedAt: new Date().toISOString(),
      server,
    };
  }

  put(connection: ConnectionState): void {
    this.#next = connection;
    this.#writing ??= this.#writeAll().finally(() => {
      this.#writing = undefined;
    });
  }

  async remove(): Promise<void> {
    this.#next = undefined;
    await this.#writing;
    await rm(fileIn(this.#dataDir), { force: true });
  }

  async #writeAll(): Promise<void> {
    while (this.#next !== undefined) {
      const connection = this.#next;
      this.#next = undefined;
      try {
        this.#mark ??= await processMark(process.pid);
        const status: AgentStatus = { ...this.#fixed, processMark: this.#mark, connection };
        await writePrivateJson(fileIn(this.#dataDir), status);
      } catch {
        // A full disk must not end the agent: `status` shows an older state, the server the true one.
        return;
      }
    }
  }
}

/** The status of an agent that runs now; `undefined` if none does, whatever a dead one left behind. */
export async function runningAgent(dataDir: string): Promise<AgentStatus | undefined> {
  const status = AgentStatus.safeParse(await readPrivateJson(fileIn(dataDir)));
  if (!status.success) return undefined;
  const { pid, processMark: mark } = status.data;
  return (await isRunning({ pid, mark })) ? status.data : undefined;
}
