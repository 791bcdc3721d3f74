import { rm, lstat, mkdir, rmdir, statfs } from 'node:fs/promises';
import path from 'node:path';
import { clock, type Timer } from '../../../clock.ts';
import {
  isEngineThere,
  copySnapshots,
  listSnapshots,
  restore,
  type Destination,
  EngineError,
  readRepositoryId,
  type RunOptions,
  type Engine,
} from '../../../engine/index.ts';
import {
  ENGINE_MISSING_CAPABILITY,
  type CommandOutput,
  type CommandPayload,
  shortened,
} from '../../../protocol/index.ts';
import { type BackupParts, STOP_MS, isWriteRefused } from '../../repository/local-engine.ts';
import type { DurableHandlers, DurableContext } from '../../work/handler.ts';
import { runBackup } from './run-backup.ts';
import { discardRestore, runRestore, runVolumeRestore } from './run-restore.ts';
import { StagingFolders } from './staging.ts';
import {
  type VaultSide,
  withVault,
  withRepository,
  destinationOf,
  destinationRoom,
  progressOf,
} from '../../repository/repository-work.ts';
import { createHash, randomBytes } from 'node:crypto';
import { openNamed, nameBytes } from '../../os/files/open-folder.ts';
import { openPrivateFolder } from '../../os/files/private-folder.ts';
import { snapshotNames } from '../../repository/repository-source.ts';
import { openRoute } from '../../repository/rest-source.ts';
import { assertRoom } from '../../repository/target-folder.ts';
import { readSelection } from './restore-plan.ts';
import { hasCode } from '../../os/files/private-file.ts';
import { AgentError } from '../../core/agent-error.ts';

/** Cleans up after an earlier agent, and returns the backup commands. */
export async function openBackups(parts: BackupParts): Promise<DurableHandlers> {
  const staging = new StagingFolders(parts.folder, parts.warn);
  await parts.engine.clear();
  await rm(path.join(parts.folder, 'verified'), { recursive: true, force: true });
  staging.clear();
  return {
    'backup.run': runBackup(parts),
    'backup.restore': runRestore({ ...parts, staging }),
    'backup.image-files-restore': runVolumeRestore({ ...parts, staging }),
    'recovery.discard-restore': discardRestore({ ...parts, staging }),
    'backup.verify': verifySample(parts),
    'backup.vault-sync': syncVault(parts),
    'backup.test-destination': testDestination(parts),
  };
}

const LOOK_MS = 60_000;

interface EngineWatchOptions {
  /** The value of PATH. */
  searchPath: string | undefined;
  onChange: () => void;
  lookMs?: number;
}

/** Knows whether restic is on this machine, and notices when it is installed or removed. */
export class EngineWatch {
  readonly #options: EngineWatchOptions;
  #isThere = false;
  #timer: Timer | undefined;

  constructor(options: EngineWatchOptions) {
    this.#options = options;
  }

  get capabilities(): string[] {
    return this.#isThere ? [] : [ENGINE_MISSING_CAPABILITY];
  }

  async start(): Promise<void> {
    const { searchPath, onChange, lookMs = LOOK_MS } = this.#options;
    this.#isThere = await isEngineThere(searchPath);
    this.#timer = clock.setInterval(() => {
      void isEngineThere(searchPath).then((isThere) => {
        if (isThere === this.#isThere) return;
        this.#isThere = isThere;
        onChange();
      });
    }, lookMs);
    this.#timer.unref();
  }

  stop(): void {
    clock.clear(this.#timer);
  }
}

/**
 * Copies snapshots into a vault. Snapshots that the vault has are skipped, so an interrupted sync continues
 * where it stopped.
 */
const syncVault = (parts: BackupParts) => ({
  stopMs: STOP_MS,
  run: (
    payload: CommandPayload<'backup.vault-sync'>,
    context: DurableContext<'backup.vault-sync'>,
  ): Promise<CommandOutput<'backup.vault-sync'>> =>
    withVault(parts, { payload, context }, async ({ engine, source, vault, options }) => {
      const { snapshotIds, uploadKiBps } = payload;
      const startedAt = clock.monotonic();
      const total = snapshotIds.length;
      context.progress({ phase: 'copying', percent: 0, done: 0, total });
      await copySnapshots(engine, { from: source.repository, to: vault.repository }, snapshotIds, {
        ...options,
        proxy: source.proxy ?? vault.proxy,
        uploadKiBps,
        onProgress(done, share) {
          const percent = Math.min(100, Math.floor((1000 * (done + share)) / total) / 10);
          const message = `${done} of ${total} snapshots`;
          context.progress({ phase: 'copying', percent, done, total, message });
        },
      });
      context.progress({ phase: 'finishing', percent: 100, done: total, total });
      const list = ({ repository, proxy }: VaultSide) =>
        listSnapshots(engine, repository, { ...options, proxy });
      const trees = new Map((await list(source)).map(({ id, tree }) => [id, tree]));
      const copies = new Map<string, string>();
      for (const { id, original, tree } of await list(vault)) {
        // A snapshot that claims to be a copy and is not has another tree.
        if (original !== undefined && trees.get(original) === tree) copies.set(original, id);
      }
      return {
        copies: snapshotIds.flatMap((id) => {
          const copy = copies.get(id);
          return copy === undefined ? [] : [{ source: id, copy }];
        }),
        seconds: (clock.monotonic() - startedAt) / 1000,
        ...(await destinationRoom(vault.repository)),
      };
    }),
});

type Files = CommandOutput<'backup.verify'>['files'];

/**
 * Restores a sample of files and reports their hashes. The server compares them, because it knows the content
 * from the repository. The files are always removed.
 */
const verifySample = (parts: BackupParts) => ({
  stopMs: STOP_MS,
  run: (
    payload: CommandPayload<'backup.verify'>,
    context: DurableContext<'backup.verify'>,
  ): Promise<CommandOutput<'backup.verify'>> =>
    withRepository(parts, { payload, context }, async (use) => {
      const { engine, repository, options } = use;
      const { snapshotId, paths: selected, verificationId } = payload;
      const startedAt = clock.monotonic();
      const { progress } = context;
      const folder = await openPrivateFolder(path.join(parts.folder, 'verified', verificationId));
      try {
        const readNames = snapshotNames(use, parts.network, snapshotId);
        const { files, bytes } = await readSelection({ ...use, snapshotId, readNames }, selected);
        await assertRoom(folder, { files, bytes });
        await restore(
          engine,
          repository,
          { snapshotId, target: folder, selected, expected: { files, bytes } },
          { ...options, onProgress: (now) => progress(progressOf(now)) },
        );
        progress({ phase: 'hashing' });
        const found: Files = [];
        for (const each of selected) found.push(await measure(folder, each, options.signal));
        return { files: found, seconds: (clock.monotonic() - startedAt) / 1000 };
      } finally {
        await rm(folder, { recursive: true, force: true, maxRetries: 3 });
      }
    }),
});

/** No hash if the path is not a file. */
async function measure(folder: string, file: string, signal: AbortSignal): Promise<Files[number]> {
  try {
    const names = file.split('/').filter((name) => name !== '');
    const handle = await openNamed(folder, names.map(nameBytes));
    try {
      const hash = createHash('sha256');
      let sizeBytes = 0;
      for await (const bytes of handle.createReadStream({ signal, autoClose: false })) {
        if (!(bytes instanceof Uint8Array)) continue;
        hash.update(bytes);
        sizeBytes += bytes.length;
      }
      return { path: file, sha256: hash.digest('hex'), sizeBytes };
    } finally {
      await handle.close();
    }
  } catch {
    signal.throwIfAborted();
    return { path: file, sha256: null, sizeBytes: 0 };
  }
}

type Check = CommandOutput<'backup.test-destination'>['checks'][number];

const FREE_BYTES_MIN = 1024 ** 3;

/**
 * Checks whether this machine can back up to a destination: `engine` (restic is installed), `destination` (it
 * answers and accepts the credentials), and for a local path also `writable` and `space`. Nothing is stored.
 */
const testDestination = (parts: BackupParts) => ({
  stopMs: STOP_MS,
  async run(
    payload: CommandPayload<'backup.test-destination'>,
    { signal, secret }: DurableContext<'backup.test-destination'>,
  ): Promise<CommandOutput<'backup.test-destination'>> {
    const destination = destinationOf(payload.destination, { server: parts.server, secret });
    const checks: Check[] = [];
    try {
      await parts.engine.use({ signal, timeoutSeconds: payload.timeoutSeconds }, async (engine, options) => {
        checks.push({ name: 'engine', ok: true, message: `restic ${version(engine)}` });
        if (destination.type === 'local') checks.push(...(await testFolder(destination.path)));
        else checks.push(await testAnswer(parts, { engine, destination, options }));
      });
    } catch (error) {
      signal.throwIfAborted();
      if (!(error instanceof AgentError)) throw error;
      const name = checks.length === 0 ? 'engine' : 'destination';
      checks.push({ name, ok: false, code: error.code, message: shortened(error.message, 500) });
    }
    return { checks };
  },
});

/** Error codes that a destination returns only after it has accepted the credentials. */
const ACCEPTED = new Set<string>(['REPOSITORY_MISSING', 'WRONG_KEY']);

/** Opens the repository with a password that matches no key: enough to test the connection and the credentials. */
async function testAnswer(
  { network, folder }: BackupParts,
  { engine, destination, options }: { engine: Engine; destination: Destination; options: RunOptions },
): Promise<Check> {
  const password = randomBytes(16).toString('hex');
  const route = await openRoute(network, destination, folder);
  try {
    const repository = { destination: route.destination, password };
    await readRepositoryId(engine, repository, { ...options, proxy: route.proxy });
  } catch (error) {
    if (!(error instanceof EngineError) || !ACCEPTED.has(error.code)) throw error;
  } finally {
    route.close();
  }
  return { name: 'destination', ok: true };
}

/** If the folder does not exist yet, the nearest existing folder above it is checked. */
async function testFolder(folder: string): Promise<Check[]> {
  const existing = await nearest(folder);
  const found = await lstat(existing);
  if (!found.isDirectory()) {
    const message = `${existing} is not a folder.`;
    return [{ name: 'destination', ok: false, code: 'DESTINATION_UNREACHABLE', message }];
  }
  const { bavail, bsize } = await statfs(existing);
  const free = bavail * bsize;
  return [
    { name: 'destination', ok: true },
    await testWriting(existing),
    {
      name: 'space',
      ok: free >= FREE_BYTES_MIN,
      ...(free >= FREE_BYTES_MIN ? {} : { code: 'DESTINATION_FULL' }),
      message: `${Math.floor(free / 1024 ** 2)} MiB are free.`,
    },
  ];
}

async function testWriting(folder: string): Promise<Check> {
  const probe = path.join(folder, `.muster-${randomBytes(8).toString('hex')}`);
  try {
    await mkdir(probe);
    await rmdir(probe);
    return { name: 'writable', ok: true };
  } catch (error) {
    if (!isWriteRefused(error)) throw error;
    return {
      name: 'writable',
      ok: false,
      code: 'DESTINATION_DENIED',
      message: 'The agent may not write there.',
    };
  }
}

async function nearest(folder: string): Promise<string> {
  try {
    await lstat(folder);
    return folder;
  } catch (error) {
    const parent = path.dirname(folder);
    if (!hasCode(error, 'ENOENT') || parent === folder) throw error;
    return nearest(parent);
  }
}

function version({ program }: Engine): string {
  const { major, minor, patch } = program.version;
  return `${major}.${minor}.${patch}`;
}
