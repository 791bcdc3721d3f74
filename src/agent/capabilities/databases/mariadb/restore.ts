import { once } from 'node:events';
import path from 'node:path';
import { databaseError } from '../database-error.ts';
import type { EmptyTarget } from '../empty-target.ts';
import type { ChainPart, OpenRestore, Recovered, RestoreOrder } from '../engine-port.ts';
import { lastLine, runProgram, startProgram } from '../program.ts';
import { BACKUP_TOOL, COMPLETED, findTool, STREAM, STREAM_TOOL } from './server.ts';
import { checkedNames } from './xbstream-names.ts';

/** In the target, until it has been applied. */
const DIFFERENTIAL = 'muster-differential';

/** All of it is done by the system user of the database: a forged backup can harm nobody else. */
export async function openRestore(order: RestoreOrder): Promise<OpenRestore> {
  const { parts, signal } = order;
  if (order.pointInTime !== undefined || order.noRecovery) {
    throw databaseError(
      'DATABASE_UNSUPPORTED',
      'Backups of MariaDB are restored as they are, and made ready in any case.',
    );
  }
  const [full, differential, ...more] = parts;
  const isWhole =
    full?.backupType === 'full' &&
    more.length === 0 &&
    (differential === undefined ||
      (differential.backupType === 'differential' && differential.from === full.to));
  if (!isWhole) throw databaseError('CHAIN_BROKEN', 'The backups do not belong together.');
  const stream = await findTool(STREAM_TOOL);
  const tool = await findTool(BACKUP_TOOL);
  return {
    isWrittenByUser: true,
    fileNameOf: () => STREAM,
    async write(part, content, target) {
      if (part.backupType === 'differential') await target.makeFolderOfUser(DIFFERENTIAL);
      await unpack(content, { stream, signal, target, folder: folderOf(part, target) });
    },
    recover: (target) => prepare(tool, target, order),
  };
}

const folderOf = ({ backupType }: ChainPart, target: EmptyTarget) =>
  backupType === 'full' ? target.path : path.join(target.path, DIFFERENTIAL);

interface Unpacking {
  stream: string;
  signal: AbortSignal;
  target: EmptyTarget;
  folder: string;
}

async function unpack(
  content: AsyncIterable<Uint8Array>,
  { stream, signal, target, folder }: Unpacking,
): Promise<void> {
  const program = startProgram({
    file: stream,
    args: ['-x'],
    user: target.user,
    cwd: folder,
    hasInput: true,
    signal,
  });
  program.stdout.resume();
  const over = new AbortController();
  void program.ended.then(() => over.abort());
  try {
    for await (const bytes of checkedNames(content)) {
      if (over.signal.aborted) break;
      target.bytes += bytes.byteLength;
      if (!program.stdin.write(bytes)) {
        await once(program.stdin, 'drain', { signal: over.signal }).catch(() => {});
      }
    }
    program.stdin.end();
  } catch (error) {
    program.stop();
    await program.ended;
    throw error;
  }
  const { code, stderr } = await program.ended;
  signal.throwIfAborted();
  if (code !== 0) {
    throw databaseError('BACKUP_DAMAGED', `The backup could not be unpacked: ${lastLine(stderr)}`);
  }
  target.files += 1;
}

async function prepare(
  tool: string,
  target: EmptyTarget,
  { parts, signal }: RestoreOrder,
): Promise<Recovered> {
  const run = async (...more: string[]) => {
    const { code, stderr } = await runProgram({
      file: tool,
      args: ['--no-defaults', '--prepare', '--target-dir=.', ...more],
      user: target.user,
      cwd: target.path,
      signal,
    });
    if (code === 0 && COMPLETED.test(stderr)) return;
    throw databaseError('DATABASE_FAILED', `The backup could not be made ready: ${lastLine(stderr)}`);
  };
  await run();
  if (parts.length > 1) {
    await run(`--incremental-dir=./${DIFFERENTIAL}`);
    await target.removeFolderOfUser(DIFFERENTIAL);
  }
  return { isRecovered: true, recoveredTo: null, position: parts.at(-1)?.to ?? null };
}
