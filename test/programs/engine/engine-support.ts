import { execFileSync } from 'node:child_process';
import { chmod, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import {
  type Engine,
  EngineError,
  type EngineProgram,
  openEngine,
  probeEngine,
  type Repository,
} from '../../../src/engine/index.ts';
import { forgeRepository } from '../../support/engine/repository-forge.ts';
import { capabilitiesOf, OLDEST_VERSION } from '../../../src/engine/engine.ts';

export interface Workbench {
  folder: string;
  engine: Engine;
  /** A path in the folder. */
  at(...names: string[]): string;
  /** A new repository on disk, whose key is derived at once. */
  repository(name?: string): Promise<Repository>;
  remove(): Promise<void>;
}

export const PASSWORD = 'correct-horse-battery-staple';
const SEARCH_PATH = process.env['PATH'] ?? '';

/** `undefined` where restic is not installed. Under CI it has to be. */
export async function findRestic(): Promise<EngineProgram | undefined> {
  try {
    return await probeEngine({ searchPath: SEARCH_PATH });
  } catch (error) {
    const isMissing = error instanceof EngineError && error.code === 'ENGINE_MISSING';
    if (!isMissing || process.env['CI'] === 'true') throw error;
    return undefined;
  }
}

/** A folder and the real restic, or the test is skipped. */
export async function openWorkbench(
  context: Mocha.Context,
  options: Partial<Parameters<typeof openEngine>[1]> = {},
): Promise<Workbench> {
  const program = await findRestic();
  if (program === undefined) return context.skip();
  return workbenchWith(program, options);
}

export async function workbenchWith(
  program: EngineProgram,
  options: Partial<Parameters<typeof openEngine>[1]> = {},
): Promise<Workbench> {
  const folder = await mkdtemp(path.join(tmpdir(), 'muster-engine-'));
  const engine = await openEngine(program, {
    folder: path.join(folder, 'engine'),
    host: { PATH: SEARCH_PATH },
    ...options,
  });
  const at = (...names: string[]) => path.join(folder, ...names);
  return {
    folder,
    engine,
    at,
    async repository(name = 'repository') {
      const repository: Repository = {
        destination: { type: 'local', path: at(name) },
        password: PASSWORD,
      };
      const { config, keyId, keyFile } = forgeRepository(PASSWORD, { user: 'root', host: 'machine' });
      const parts = ['data', 'index', 'keys', 'locks', 'snapshots'];
      for (const part of parts) await mkdir(at(name, part), { recursive: true });
      await writeFile(at(name, 'keys', keyId), keyFile);
      await writeFile(at(name, 'config'), config);
      return { ...repository, keyHint: keyId };
    },
    remove: () => rm(folder, { recursive: true, force: true }),
  };
}

/** A program in place of restic, for what the real one does only by accident. */
export async function scriptedEngine(
  script: string,
): Promise<{ program: EngineProgram; remove(): Promise<void> }> {
  const folder = await mkdtemp(path.join(tmpdir(), 'muster-scripted-'));
  const file = path.join(folder, 'restic');
  await writeFile(file, `#!/bin/bash\n${script}\n`);
  await chmod(file, 0o755);
  return {
    program: {
      path: file,
      version: OLDEST_VERSION,
      capabilities: capabilitiesOf(OLDEST_VERSION),
      command: [file],
    },
    remove: () => rm(folder, { recursive: true, force: true }),
  };
}

/** Files by their paths below `folder`. */
export async function writeFiles(folder: string, files: Record<string, string | Buffer>): Promise<void> {
  for (const [name, content] of Object.entries(files)) {
    const file = path.join(folder, name);
    await mkdir(path.dirname(file), { recursive: true });
    await writeFile(file, content);
  }
}

/** The error that a promise rejects with. */
export async function failureOf(work: Promise<unknown>): Promise<EngineError> {
  try {
    await work;
  } catch (error) {
    if (error instanceof EngineError) return error;
    throw error;
  }
  throw new Error('It has succeeded.');
}

/** What stock restic prints, as an independent view of a repository. */
export function stockRestic({ destination, password }: Repository, ...args: string[]): string {
  if (destination.type !== 'local') throw new Error('Only for repositories on disk.');
  return execFileSync('restic', ['-r', destination.path, '--no-cache', ...args], {
    env: { PATH: SEARCH_PATH, RESTIC_PASSWORD: password },
    encoding: 'utf8',
    maxBuffer: 64 * 1024 * 1024,
    stdio: ['ignore', 'pipe', 'pipe'],
  });
}
