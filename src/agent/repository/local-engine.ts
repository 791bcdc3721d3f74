import { mkdir, readdir, rm } from 'node:fs/promises';
import path from 'node:path';
import { z } from 'zod';
import { clock } from '../../clock.ts';
import { type Engine, EngineProbe, openEngine, type RunOptions, EngineError } from '../../engine/index.ts';
import { AgentErrorCode } from '../../protocol/index.ts';
import { AgentError } from '../core/agent-error.ts';
import { hasCode, readPrivateJson, writePrivateJson } from '../os/files/private-file.ts';
import type { Network } from '../os/network/network.ts';
import { endLeftover, processMark } from '../os/process-group.ts';

/** Written while restic runs: the process that a later agent has to end if this one is killed. */
const RunningEngine = z.object({ pid: z.number().int().positive(), mark: z.string() });

/** How long restic has to remove its locks: less than the agent waits for a command when it stops. */
const KILL_AFTER_MS = 8000;
export const STOP_MS = 10_000;

export interface LocalEngineOptions {
  /** A private folder of the agent. */
  folder: string;
  warn: (message: string) => void;
  environment?: NodeJS.ProcessEnv;
}

/** Limits of the command: restic is stopped when it is cancelled or its time has expired. */
export interface EngineUse {
  signal: AbortSignal;
  timeoutSeconds: number;
}

/** restic on this machine, for the commands of this agent. */
export class LocalEngine {
  readonly #probe = new EngineProbe();
  readonly #processes: string;
  readonly #folder: string;
  readonly #warn: (message: string) => void;
  readonly #environment: NodeJS.ProcessEnv;

  constructor({ folder, warn, environment = process.env }: LocalEngineOptions) {
    this.#folder = path.join(folder, 'engine');
    this.#processes = path.join(folder, 'processes');
    this.#warn = warn;
    this.#environment = environment;
  }

  /** Ends processes of an earlier agent, with enough time to remove their locks. */
  async clear(): Promise<void> {
    const names = await readdir(this.#processes).catch((error: unknown) => {
      if (!hasCode(error, 'ENOENT')) {
        this.#warn(`The folder ${this.#processes} could not be read: ${String(error)}`);
      }
      return [];
    });
    await Promise.all(
      names.map(async (name) => {
        const file = path.join(this.#processes, name);
        const left = RunningEngine.safeParse(await readPrivateJson(file).catch(() => undefined));
        const hasEnded =
          !left.success || (await endLeftover(left.data, { signal: 'SIGINT', ms: KILL_AFTER_MS }));
        if (hasEnded) return rm(file, { force: true });
        this.#warn(`restic (process ${left.data.pid}), left by an earlier agent, could not be ended.`);
      }),
    );
  }

  /** Looks for restic each time, because it may be installed while the agent runs. Throws `EngineError`. */
  async open(): Promise<Engine> {
    const PATH = this.#environment['PATH'];
    const { SystemRoot, TEMP } = this.#environment;
    const program = await this.#probe.find({ searchPath: PATH });
    await mkdir(this.#folder, { recursive: true, mode: 0o700 });
    const host = { PATH, SystemRoot, TEMP };
    return openEngine(program, { folder: this.#folder, host, killAfterMs: KILL_AFTER_MS });
  }

  /** Calls `work` with restic. Rejects with `AgentError`, also if the time has expired. */
  async use<T>(
    { signal, timeoutSeconds }: EngineUse,
    work: (engine: Engine, options: RunOptions & { signal: AbortSignal }) => Promise<T>,
  ): Promise<T> {
    const timeout = clock.timeoutSignal(timeoutSeconds * 1000);
    const started: Promise<string>[] = [];
    try {
      const engine = await this.open();
      return await work(engine, {
        signal: AbortSignal.any([signal, timeout]),
        onStart: (pid) => void started.push(this.#record(pid)),
      });
    } catch (error) {
      if (timeout.aborted && !signal.aborted) throw timedOut(timeoutSeconds);
      throw asAgentError(error, this.#warn);
    } finally {
      for (const file of await Promise.all(started)) await rm(file, { force: true });
    }
  }

  async #record(pid: number): Promise<string> {
    const file = path.join(this.#processes, `${pid}.json`);
    try {
      await writePrivateJson(file, { pid, mark: await processMark(pid) });
    } catch (error) {
      this.#warn(`Process ${pid} of restic could not be recorded: ${String(error)}`);
    }
    return file;
  }
}

/** Dependencies of all backup commands. */
export interface BackupParts {
  engine: LocalEngine;
  /** The address of the server that this machine is enrolled at. */
  server: string;
  network: Network;
  /** All files of the agent. They are never part of a backup, because they contain its token. */
  dataDir: string;
  /** A private subfolder for restic's cache and for files that are being restored. */
  folder: string;
  /** Whether files are read from shadow copies of their volumes; by default on Windows. */
  hasShadowCopies?: boolean;
  warn: (message: string) => void;
}

/** Error codes of restore targets, beside the codes of the engine. */
type TargetCode = 'TARGET_NOT_EMPTY' | 'TARGET_UNSAFE' | 'TARGET_NOT_WRITABLE' | 'TARGET_FULL';

export const targetError = (code: TargetCode, message: string) => new AgentError(code, message);

/**
 * The failure as the command reports it. The output of restic may contain addresses and is meant for the log of this
 * machine, so it goes to `warn`.
 */
function asAgentError(error: unknown, warn: (message: string) => void): unknown {
  if (!(error instanceof EngineError)) return error;
  if (error.detail !== undefined && error.code !== 'CANCELLED') {
    warn(`A backup command has failed (${error.code}): ${error.detail}`);
  }
  return new AgentError(error.code, error.message);
}

export const timedOut = (seconds: number) =>
  new AgentError(AgentErrorCode.timedOut, `The operation took longer than ${seconds} s and was stopped.`);

/** The system denies the agent write access. */
export const isWriteRefused = (error: unknown) =>
  ['EACCES', 'EPERM', 'EROFS'].some((code) => hasCode(error, code));
