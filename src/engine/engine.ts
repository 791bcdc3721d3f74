import { mkdir } from 'node:fs/promises';
import path from 'node:path';
import type { HostEnvironment } from './process/environment.ts';
import { openSecretFolder, type SecretPlace, usualSecretPlace } from './process/secret-files.ts';
import type { EngineProgram } from './program/probe.ts';

/** restic on this machine, ready to run. */
export interface Engine {
  readonly program: EngineProgram;
  readonly host: HostEnvironment;
  readonly cacheFolder: string;
  readonly secretFolder: string;
  readonly secretPlace: SecretPlace;
  /** How long restic has after SIGINT to remove its locks, before it is killed. */
  readonly killAfterMs: number;
  /** How long a backup asks a destination again and again that takes nothing. */
  readonly giveUpAfterMs: number;
}

export interface EngineOptions {
  /** A folder that only this process and its successors use: for restic's cache and, outside Linux, for secrets. */
  folder: string;
  host: HostEnvironment;
  secretPlace?: SecretPlace;
  killAfterMs?: number;
  giveUpAfterMs?: number;
}

const KILL_AFTER_MS = 30_000;
const GIVE_UP_AFTER_MS = 10 * 60_000;

export async function openEngine(program: EngineProgram, options: EngineOptions): Promise<Engine> {
  const { folder, host, secretPlace = usualSecretPlace() } = options;
  const { killAfterMs = KILL_AFTER_MS, giveUpAfterMs = GIVE_UP_AFTER_MS } = options;
  const cacheFolder = path.join(folder, 'cache');
  const secretFolder = path.join(folder, 'secrets');
  await mkdir(cacheFolder, { recursive: true, mode: 0o700 });
  await openSecretFolder(secretFolder);
  return { program, host, cacheFolder, secretFolder, secretPlace, killAfterMs, giveUpAfterMs };
}
