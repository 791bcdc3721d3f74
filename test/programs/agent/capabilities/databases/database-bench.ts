import { randomUUID } from 'node:crypto';
import { mkdtemp, realpath, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type { Context } from 'mocha';
import { databasePorts, openDatabases } from '../../../../../src/agent/capabilities/databases/handlers.ts';
import { environmentNetwork } from '../../../../../src/agent/os/network/network.ts';
import { openPrivateFolder } from '../../../../../src/agent/os/files/private-folder.ts';
import { LocalEngine } from '../../../../../src/agent/repository/local-engine.ts';
import {
  type ChainSnapshot,
  planInstant,
  planSnapshot,
} from '../../../../../src/features/backup/database-chains.ts';
import { decideType } from '../../../../../src/features/backup/database-chain-state.ts';
import {
  BackupResult,
  COMMANDS,
  type CommandPayload,
  type CommandResult,
  type DatabaseBackupType,
  type DatabaseDetails,
  type DatabaseEngine,
  type DatabaseInstance,
} from '../../../../../src/protocol/index.ts';
import { findRestic, stockRestic, workbenchWith } from '../../../engine/engine-support.ts';
import { eventually } from '../../../../support/eventually.ts';
import { startScriptedHub } from '../../../../support/scripted-hub.ts';
import { startTestAgent, type TestAgent } from '../../../../support/agent/test-agent.ts';

type Restore = CommandPayload<'backup.database-restore'>;

export interface MadeSnapshot extends ChainSnapshot {
  engineId: string;
  details: DatabaseDetails;
  bytes: number;
}

interface BenchOptions {
  ports?: Parameters<typeof openDatabases>[1];
  /** What the command of a backup has beside what every engine has. */
  given?: Partial<CommandPayload<'backup.database'>>;
}

/** A real agent with its commands of databases, real restic, and the decisions of the server about chains. */
export async function openDatabaseBench(
  test: Context,
  engine: DatabaseEngine,
  {
    ports = databasePorts(() => Promise.reject(new Error('there is no SQL Server'))),
    given = {},
  }: BenchOptions = {},
) {
  const program = await findRestic();
  if (program === undefined) return test.skip();
  const workbench = await workbenchWith(program);
  const folder = await realpath(await mkdtemp(path.join(tmpdir(), 'muster-databases-')));
  const dataDir = await openPrivateFolder(path.join(folder, 'data'));
  const hub = await startScriptedHub();
  const repository = await workbench.repository();
  const { destination, password, keyHint } = repository;
  if (destination.type !== 'local') throw new Error('The repository is on disk.');
  const secretRef = randomUUID();
  const access = { destination, password: { secretRef }, keyHint };
  const warnings: string[] = [];
  const chainId = randomUUID();
  const snapshots: MadeSnapshot[] = [];
  const parts = {
    engine: new LocalEngine({
      folder: path.join(dataDir, 'backup'),
      warn: (message) => warnings.push(message),
    }),
    server: hub.url,
    network: environmentNetwork({}),
    dataDir,
    folder: path.join(dataDir, 'backup'),
    warn: (message: string) => void warnings.push(message),
  };
  let discover: (() => Promise<{ instances: DatabaseInstance[] }>) | undefined;
  async function startAgent(): Promise<TestAgent> {
    await parts.engine.clear();
    const { live, durable } = await openDatabases(parts, ports);
    const list = live['backup.databases'];
    const signal = new AbortController().signal;
    discover = async () =>
      COMMANDS['backup.databases'].output.parse(
        await list?.({}, { signal, timeUp: signal, row: () => Promise.resolve() }),
      );
    const started = await startTestAgent({ server: hub.url, dataDir, live, work: durable });
    await eventually(
      () => started.states.at(-1)?.state,
      (state) => state === 'connected',
    );
    return started;
  }
  let agent = await startAgent();

  async function ended(id: string): Promise<CommandResult> {
    const find = () => hub.results.find((result) => result.id === id);
    await eventually(find, (found) => found !== undefined, 90_000);
    return find()!;
  }
  const send = (type: 'backup.database' | 'backup.database-restore', payload: object) =>
    hub.command(
      type,
      { repository: access, timeoutSeconds: 300, ...payload },
      { secrets: { [secretRef]: password } },
    );

  /** The command of the next backup, as the server decides it. */
  function orderOf(instance: string, wanted: DatabaseBackupType | null, of = snapshots) {
    const decided = decideType(
      { engine, instance, fullEveryDays: 7, between: engine === 'mariadb' ? 'differential' : 'log' },
      { snapshots: of, wanted, isChainBroken: false, now: new Date() },
    );
    if ('refusal' in decided) throw new Error(decided.refusal);
    const { backupType, full, previous } = decided;
    const chain = { backupType, chainId, full, previous };
    return { jobId: randomUUID(), host: 'machine-1', engine, instance, ...chain, ...given };
  }

  const bench = {
    dataDir,
    hub,
    warnings,
    snapshots,
    send,
    ended,
    orderOf,
    instances: async () => (await discover?.())?.instances ?? [],
    async backUp(instance: string, wanted: DatabaseBackupType | null = null): Promise<MadeSnapshot> {
      const { status, error, output } = await ended(await send('backup.database', orderOf(instance, wanted)));
      if (status !== 'succeeded') throw new Error(`${error?.code} ${error?.message} ${warnings.join()}`);
      const { snapshotId, details, bytesProcessed } = BackupResult.parse(output);
      if (snapshotId === null || details?.kind !== 'database') throw new Error('the snapshot has no details');
      const made = {
        id: randomUUID(),
        engineId: snapshotId,
        receivedAt: new Date(),
        details,
        bytes: bytesProcessed,
      };
      snapshots.push(made);
      return made;
    },
    restoreOf(
      snapshot: MadeSnapshot,
      { pointInTime, ...given }: Partial<Restore> & { targetPath: string },
      of: readonly MadeSnapshot[] = snapshots,
    ): Partial<Restore> {
      const plan =
        pointInTime === undefined
          ? planSnapshot(of, snapshot.id)
          : planInstant(of, snapshot.id, new Date(pointInTime));
      if ('refusal' in plan) throw new Error(plan.refusal);
      const { version, branch } = snapshot.details;
      return {
        restoreId: randomUUID(),
        engine,
        instance: snapshot.details.instance,
        version,
        branch,
        parts: plan.path.map(({ engineId, details, bytes }) => ({
          snapshotId: engineId,
          backupType: details.backupType,
          from: details.from,
          to: details.to,
          sizeBytes: bytes,
        })),
        ...(pointInTime === undefined ? {} : { pointInTime }),
        noRecovery: false,
        ...given,
      };
    },
    async restore(order: Partial<Restore>) {
      const { status, error, output } = await ended(await send('backup.database-restore', order));
      if (status !== 'succeeded') throw new Error(`${error?.code} ${error?.message} ${warnings.join()}`);
      return COMMANDS['backup.database-restore'].output.parse(output);
    },
    async failure(type: 'backup.database' | 'backup.database-restore', order: object) {
      const { status, error } = await ended(await send(type, order));
      if (status !== 'failed' || error === undefined) throw new Error(`${type} has ended with ${status}`);
      return error;
    },
    storedSnapshots: (): string[] =>
      (JSON.parse(stockRestic(repository, 'snapshots', '--json')) as { id: string }[] | null)?.map(
        ({ id }) => id,
      ) ?? [],
    stock: (...args: string[]) => stockRestic(repository, ...args),
    engine: workbench.engine,
    repository,
    async restart() {
      await agent.stop();
      agent = await startAgent();
    },
    async close() {
      await agent.stop();
      await hub.close();
      await workbench.remove();
      await rm(folder, { recursive: true, force: true });
    },
  };
  return bench;
}
export type DatabaseBench = Awaited<ReturnType<typeof openDatabaseBench>>;
