import { rm } from 'node:fs/promises';
import path from 'node:path';
import { z } from 'zod';
import { clock } from '../../clock.ts';
import { readPrivateJson, writePrivateJson } from '../os/files/private-file.ts';
import { isRunning, processMark } from '../os/process-group.ts';
import type { ConnectionState } from './connection-options.ts';
import { AGENT_VERSION } from './version.ts';

/** The status that a running agent writes for the `status` command. */
export const AgentStatus = z.object({
  pid: z.number().int(),
  /** Distinguishes this process from a later one with the same number; empty if the system does not report it. */
  processMark: z.string(),
  startedAt: z.string(),
  /** Absent in the file of an earlier release. */
  agentVersion: z.string().optional(),
  /** Absent if no watchdog runs the agent. */
  watchdogVersion: z.string().optional(),
  server: z.string(),
  connection: z.discriminatedUnion('state', [
    z.object({ state: z.literal('connecting') }),
    z.object({
      state: z.literal('connected'),
      since: z.string(),
      lastHeartbeatAt: z.string().nullable(),
      isPending: z.literal(true).optional(),
    }),
    z.object({
      state: z.literal('http_only'),
      since: z.string(),
      lastHeartbeatAt: z.string(),
      reason: z.string(),
    }),
    z.object({ state: z.literal('waiting'), nextTryAt: z.string(), reason: z.string() }),
    z.object({ state: z.literal('stopped') }),
  ]),
});
export type AgentStatus = z.infer<typeof AgentStatus>;

const fileIn = (dataDir: string) => path.join(dataDir, 'status.json');

/** Writes the states one after another. While one is being written, only the latest of the next ones is kept. */
export class StatusFile {
  readonly #dataDir: string;
  readonly #fixed: Omit<AgentStatus, 'connection' | 'processMark'>;
  #mark: string | undefined;
  #next: ConnectionState | undefined;
  #writing: Promise<void> | undefined;

  constructor(dataDir: string, server: string, watchdogVersion?: string) {
    this.#dataDir = dataDir;
    this.#fixed = {
      pid: process.pid,
      startedAt: clock.date().toISOString(),
      server,
      agentVersion: AGENT_VERSION,
      ...(watchdogVersion === undefined ? {} : { watchdogVersion }),
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
        // A full disk must not stop the agent. `status` then shows an older state; the server shows the current one.
        return;
      }
    }
  }
}

/** The status of the running agent; `undefined` if none runs, even if a killed one has left its file. */
export async function runningAgent(dataDir: string): Promise<AgentStatus | undefined> {
  const status = AgentStatus.safeParse(await readPrivateJson(fileIn(dataDir)));
  if (!status.success) return undefined;
  const { pid, processMark: mark } = status.data;
  return (await isRunning({ pid, mark })) ? status.data : undefined;
}
