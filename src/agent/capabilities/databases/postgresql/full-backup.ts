import { clock } from '../../../../clock.ts';
import type { DatabaseDetails } from '../../../../protocol/index.ts';
import { databaseError } from '../database-error.ts';
import type { BackupOrder, OpenBackup } from '../engine-port.ts';
import { startProgram } from '../program.ts';
import { parsePosition } from './positions.ts';
import {
  ask,
  branchOf,
  connectArguments,
  environmentOf,
  failureOf,
  findTool,
  type PostgresServer,
  type PostgresState,
} from './server.ts';
import { holdLogs } from './slot.ts';

/** The name of the only file of a full backup. */
export const BASE = 'base.tar';

const OBSERVE_MS = 10_000;

interface Observation {
  at: string;
  position: bigint;
}

/** An instant and a position: what was committed before the instant lies before the position. */
const OBSERVE = `select concat_ws(' ', to_char(date_trunc('milliseconds', clock_timestamp()) at time zone 'UTC',
  'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'), pg_current_wal_insert_lsn()::text)`;

/** The whole server as one archive, with the logs that it needs: it can be restored alone. */
export async function fullBackup(
  server: PostgresServer,
  state: PostgresState,
  { signal, chainId, warn }: BackupOrder,
): Promise<OpenBackup> {
  const file = await findTool('pg_basebackup', server.major, server.programFolder);
  const logsHeldBy = await holdLogs(server, state, { chainId, signal, warn });
  const observe = async (): Promise<Observation> => {
    const [at = '', position = ''] = (await ask(server, [OBSERVE], signal)).join('').split(' ');
    return { at, position: parsePosition(position) };
  };
  const seen = [await observe()];
  const program = startProgram({
    file,
    args: [
      ...connectArguments(server),
      '--pgdata',
      '-',
      '--format',
      'tar',
      '--wal-method',
      'fetch',
      '--checkpoint',
      'fast',
      '--verbose',
    ],
    user: server.user,
    env: environmentOf(server),
    signal,
  });
  const over = new AbortController();
  const observing = (async () => {
    for (;;) {
      await clock.sleep(OBSERVE_MS, { signal: over.signal });
      seen.push(await observe());
    }
    // It ends with the backup, or where the server answers no more, which the backup notices itself.
  })().catch(() => {});
  return {
    fileName: BASE,
    content: program.stdout,
    expectedBytes: state.totalBytes,
    async finish(): Promise<DatabaseDetails> {
      const { code, stderr } = await program.ended;
      if (code !== 0) throw failureOf(stderr, 'pg_basebackup has failed');
      const [, from, timeline] = /start point: (\S+) on timeline (\d+)/.exec(stderr) ?? [];
      const [, to] = /end point: (\S+)/.exec(stderr) ?? [];
      if (from === undefined || timeline === undefined || to === undefined) {
        throw databaseError('DATABASE_FAILED', 'pg_basebackup has not said which positions the backup has.');
      }
      const end = parsePosition(to);
      const after = await observe();
      return {
        kind: 'database',
        engine: 'postgresql',
        instance: server.instance,
        databases: state.databases.map(({ name }) => name.slice(0, 255)),
        backupType: 'full',
        version: state.version,
        from,
        to,
        branch: branchOf({ cluster: state.cluster, timeline: Number(timeline).toString(16) }),
        basedOn: null,
        recoverableFrom: after.at,
        recoverableTo: seen.findLast(({ position }) => position <= end)?.at ?? null,
        logsHeldBy,
      };
    },
    async close() {
      over.abort();
      program.stop();
      await Promise.all([observing, program.ended]);
    },
  };
}
