import { randomBytes } from 'node:crypto';
import { lstat, mkdir, rmdir, statfs } from 'node:fs/promises';
import path from 'node:path';
import {
  type Destination,
  EngineError,
  readRepositoryId,
  type RunOptions,
  type Engine,
} from '../../../engine/index.ts';
import type { CommandOutput, CommandPayload } from '../../../protocol/index.ts';
import { hasCode } from '../../os/files/private-file.ts';
import { AgentError } from '../../core/agent-error.ts';
import type { DurableContext } from '../../work/durable-handler.ts';
import type { BackupParts } from '../../repository/backup-parts.ts';
import { isWriteRefused } from '../../repository/backup-error.ts';
import { STOP_MS } from '../../repository/local-engine.ts';
import { openRoute } from '../../repository/engine-route.ts';
import { destinationOf } from '../../repository/repository-access.ts';

type Check = CommandOutput<'backup.test-destination'>['checks'][number];

const FREE_BYTES_MIN = 1024 ** 3;

/**
 * Checks whether this machine can back up to a destination: `engine` (restic is there), `destination` (it answers and
 * accepts the credentials), and for a path of this machine also `writable` and `space`. Nothing is stored there.
 */
export const testDestination = (parts: BackupParts) => ({
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
      checks.push({ name, ok: false, code: error.code, message: error.message.slice(0, 500) });
    }
    return { checks };
  },
});

/** Codes that only a destination answers which has accepted the credentials. */
const ACCEPTED = new Set<string>(['REPOSITORY_MISSING', 'WRONG_KEY']);

/** Asks for the repository with a password that opens none. */
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

/** The folder may not exist yet: then the nearest folder above it counts. */
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
