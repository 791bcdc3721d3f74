import { execFileSync } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { mkdtemp, realpath, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type { z } from 'zod';
import { openBackups } from '../../../../../src/agent/capabilities/backup/handlers.ts';
import { imageHandlers } from '../../../../../src/agent/capabilities/images/handlers.ts';
import { LocalEngine } from '../../../../../src/agent/repository/local-engine.ts';
import { type Network, environmentNetwork } from '../../../../../src/agent/os/network/network.ts';
import { openPrivateFolder } from '../../../../../src/agent/os/files/private-folder.ts';
import {
  BACKUP_COMMANDS,
  type CommandProgress,
  type CommandResult,
} from '../../../../../src/protocol/index.ts';
import { findRestic, stockRestic, workbenchWith } from '../../../engine/engine-support.ts';
import { eventually } from '../../../../support/eventually.ts';
import { type ScriptedHub, startScriptedHub } from '../../../../support/scripted-hub.ts';
import { startTestAgent, type TestAgent } from '../../../../support/agent/test-agent.ts';

type BackupCommand =
  | 'backup.run'
  | 'backup.image'
  | 'backup.restore'
  | 'backup.image-restore'
  | 'backup.image-files-restore'
  | 'backup.verify'
  | 'backup.test-destination';
type Payload<T extends BackupCommand> = Partial<z.input<(typeof BACKUP_COMMANDS)[T]['payload']>>;
type Output<T extends BackupCommand> = z.output<(typeof BACKUP_COMMANDS)[T]['output']>;

/** A real agent with its backup commands, real restic and a repository on disk. */
export type BackupBench = Awaited<ReturnType<typeof benchWith>>;

/** Skips the test where restic is not installed. */
export async function openBackupBench(context: Mocha.Context): Promise<BackupBench> {
  const program = await findRestic();
  return program === undefined ? context.skip() : benchWith(program);
}

async function benchWith(program: NonNullable<Awaited<ReturnType<typeof findRestic>>>) {
  const bench = await workbenchWith(program);
  const folder = await realpath(await mkdtemp(path.join(tmpdir(), 'muster-backup-')));
  const at = (...names: string[]) => path.join(folder, ...names);
  const dataDir = await openPrivateFolder(at('data'));
  const hub = await startScriptedHub();
  const repository = await bench.repository();
  const { destination, password, keyHint } = repository;
  if (destination.type !== 'local') throw new Error('The repository is on disk.');
  const secretRef = randomUUID();
  const access = { destination, password: { secretRef }, keyHint };
  const warnings: string[] = [];
  let agent = await startAgent(hub, dataDir, warnings);

  const defaults = {
    'backup.run': () => ({
      jobId: randomUUID(),
      repository: access,
      host: 'machine-1',
      paths: [at('source')],
      excludes: [],
      oneFileSystem: false,
      timeoutSeconds: 60,
    }),
    'backup.image': () => ({
      jobId: randomUUID(),
      repository: access,
      host: 'machine-1',
      disks: [at('disk.raw')],
      excludeDisks: [],
      timeoutSeconds: 60,
    }),
    'backup.restore': () => ({
      restoreId: randomUUID(),
      repository: access,
      targetPath: at('target'),
      overwrite: 'always',
      dryRun: false,
      timeoutSeconds: 60,
    }),
    'backup.image-files-restore': () => ({
      restoreId: randomUUID(),
      repository: access,
      volume: { imagePath: '/machine.tar', disk: 'disk', partition: 1 },
      targetPath: at('target'),
      overwrite: 'always',
      dryRun: false,
      timeoutSeconds: 60,
    }),
    'backup.image-restore': () => ({
      restoreId: randomUUID(),
      repository: access,
      targetPath: at('restored', 'disk.raw'),
      overwrite: 'never',
      grow: false,
      timeoutSeconds: 60,
    }),
    'backup.verify': () => ({ verificationId: randomUUID(), repository: access, timeoutSeconds: 60 }),
    'backup.test-destination': () => ({ destination, timeoutSeconds: 20 }),
  };
  async function send<T extends BackupCommand>(
    type: T,
    payload: Payload<T>,
    secrets: Record<string, string> = {},
  ): Promise<string> {
    const all = { [secretRef]: password, ...secrets };
    return hub.command(type, { ...defaults[type](), ...payload }, { secrets: all });
  }
  async function ended(id: string): Promise<CommandResult> {
    const find = () => hub.results.find((result) => result.id === id);
    await eventually(find, (found) => found !== undefined, 60_000);
    return find()!;
  }
  return {
    at,
    hub,
    access,
    password,
    dataDir,
    warnings,
    send,
    ended,
    /** The output of a command that has to succeed. */
    async run<T extends BackupCommand>(type: T, payload: Payload<T>): Promise<Output<T>> {
      const { status, error, output } = await ended(await send(type, payload));
      if (status !== 'succeeded') throw new Error(`${type}: ${status}: ${error?.code} ${error?.message}`);
      return BACKUP_COMMANDS[type].output.parse(output) as Output<T>;
    },
    /** How a command has ended, whichever way. */
    async outcome<T extends BackupCommand>(type: T, payload: Payload<T>) {
      const { status, error, output } = await ended(await send(type, payload));
      if (status !== 'succeeded') return { error: error ?? { code: status, message: '' } };
      return { output: BACKUP_COMMANDS[type].output.parse(output) as Output<T> };
    },
    /** The error of a command that has to fail. */
    async failure<T extends BackupCommand>(type: T, payload: Payload<T>) {
      const { status, error } = await ended(await send(type, payload));
      if (status !== 'failed' || error === undefined) throw new Error(`${type} has ended with ${status}`);
      return error;
    },
    progressOf: (id: string): CommandProgress[] => hub.progress.filter((progress) => progress.id === id),
    /** Cancels a command, and returns how it has ended. */
    async cancel(id: string): Promise<CommandResult> {
      await hub.cancel(id);
      return ended(id);
    },
    /** What stock restic prints about the repository. */
    stock: (...args: string[]) => stockRestic(repository, ...args),
    /** Stops the agent, and starts another one with the same data. */
    async restart(machine?: Machine): Promise<void> {
      await agent.stop();
      agent = await startAgent(hub, dataDir, warnings, machine);
    },
    async close(): Promise<void> {
      await agent.stop();
      await hub.close();
      await bench.remove();
      await rm(folder, { recursive: true });
    },
  };
}

/** Removes folders with all that is in them, also where nobody may enter them. */
export function removeFolders(...folders: string[]): void {
  execFileSync('bash', ['-c', 'chmod -Rf u+rwX "$@"; rm -rf "$@"', 'bash', ...folders]);
}

/** What an agent finds on its machine. */
interface Machine {
  environment?: NodeJS.ProcessEnv;
  network?: Network;
  /** The server of the backups, where that is not the hub. */
  server?: string;
}

async function startAgent(
  hub: ScriptedHub,
  dataDir: string,
  warnings: string[],
  { environment = process.env, network = environmentNetwork({}), server = hub.url }: Machine = {},
): Promise<TestAgent> {
  const folder = path.join(dataDir, 'backup');
  const warn = (message: string) => void warnings.push(message);
  const engine = new LocalEngine({ folder, warn, environment });
  const parts = { engine, server, network, dataDir, folder, warn };
  const work = { ...(await openBackups(parts)), ...imageHandlers(parts) };
  const agent = await startTestAgent({ server: hub.url, dataDir, work });
  await eventually(
    () => agent.states.at(-1)?.state,
    (state) => state === 'connected',
  );
  return agent;
}
