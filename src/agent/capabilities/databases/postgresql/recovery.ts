import { chown, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { clock } from '../../../../clock.ts';
import { databaseError } from '../database-error.ts';
import type { EmptyTarget } from '../empty-target.ts';
import type { Recovered, RestoreOrder } from '../engine-port.ts';
import { lastLine, runProgram, type RunningProgram, startProgram } from '../program.ts';
import { userOf } from '../server-processes.ts';

/** A server of our own recovers the folder, and ends: it answers nobody else, and does nothing of what the old one did. */

const PORT = 5432;
const POLL_MS = 200;

/** All logs lie in the folder, so nothing is fetched. */
export const settingsFor = (pointInTime: string | undefined): Record<string, string> => ({
  restore_command: 'false',
  recovery_target_timeline: 'current',
  recovery_target_action: 'promote',
  ...(pointInTime === undefined ? {} : { recovery_target_time: inPostgres(pointInTime) }),
});

/** PostgreSQL does not know the `Z` of ISO 8601. */
const inPostgres = (instant: string) => new Date(instant).toISOString().replace('T', ' ').replace('Z', '+00');

/** The folder may have settings of the old server, which would connect it to others, or archive what it writes. */
const QUIET = {
  listen_addresses: '',
  port: String(PORT),
  archive_mode: 'off',
  hot_standby: 'off',
  primary_conninfo: '',
  primary_slot_name: '',
  recovery_target: '',
  recovery_target_xid: '',
  recovery_target_name: '',
  recovery_target_lsn: '',
  shared_preload_libraries: '',
  session_preload_libraries: '',
  local_preload_libraries: '',
  max_logical_replication_workers: '0',
  max_wal_senders: '0',
  max_connections: '20',
  max_prepared_transactions: '1000',
  autovacuum: 'off',
  ssl: 'off',
  logging_collector: 'off',
  log_destination: 'stderr',
  lc_messages: 'C',
  external_pid_file: '',
};

export async function recover(
  target: EmptyTarget,
  programs: { postgres: string; psql: string },
  { pointInTime, signal, record }: RestoreOrder,
): Promise<Recovered> {
  const { user } = target;
  const account = await userOf(user.uid);
  if (account === undefined) throw databaseError('DATABASE_DENIED', `The system has no user ${user.uid}.`);
  const own = await mkdtemp(path.join(tmpdir(), 'muster-recovery-'));
  try {
    await chown(own, user.uid, user.gid);
    const access = path.join(own, 'pg_hba.conf');
    await writeFile(access, 'local all all peer\n', { mode: 0o644 });
    for (const name of ['postgresql.conf', 'pg_ident.conf']) {
      await writeFile(path.join(own, name), '', { mode: 0o644 });
    }
    const settings = {
      ...QUIET,
      ...settingsFor(pointInTime),
      config_file: path.join(own, 'postgresql.conf'),
      hba_file: access,
      ident_file: path.join(own, 'pg_ident.conf'),
      unix_socket_directories: own,
    };
    const server = startProgram({
      file: programs.postgres,
      args: [
        '-D',
        target.path,
        ...Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`]),
      ],
      user,
      env: { HOME: own },
      cwd: own,
      signal,
    });
    server.stdout.resume();
    const forget = server.pid === undefined ? async () => {} : await record(server.pid);
    const ask = (statement: string) =>
      runProgram({
        file: programs.psql,
        args: [
          '--no-password',
          '--no-psqlrc',
          '--quiet',
          '--no-align',
          '--tuples-only',
          '--field-separator',
          ' ',
          '--host',
          own,
          '--port',
          String(PORT),
          '--username',
          account.name,
          '--dbname',
          'postgres',
          '--command',
          statement,
        ],
        user,
        env: { HOME: own },
        signal,
      });
    try {
      return await untilRecovered(server, ask, pointInTime);
    } finally {
      server.stop('SIGINT');
      await server.ended;
      await forget();
    }
  } finally {
    await rm(own, { recursive: true, force: true });
  }
}

const REACHED = `select pg_is_in_recovery(), pg_last_wal_replay_lsn(), coalesce(to_char(
  pg_last_xact_replay_timestamp() at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'), '-')`;

async function untilRecovered(
  server: RunningProgram,
  ask: (statement: string) => Promise<{ code: number | null; stdout: string }>,
  pointInTime: string | undefined,
): Promise<Recovered> {
  let hasEnded = false;
  void server.ended.then(() => (hasEnded = true));
  for (;;) {
    const { code, stdout } = await ask(REACHED);
    const [inRecovery, position, at] = stdout.trim().split(' ');
    if (code === 0 && inRecovery === 'f') {
      await stop(server, ask);
      return { isRecovered: true, recoveredTo: at === '-' ? null : (at ?? null), position: position ?? null };
    }
    if (hasEnded) throw failure(server.messages(), pointInTime);
    await clock.sleep(POLL_MS);
  }
}

/** In good order, so that the server of the customer has nothing to recover. */
async function stop(
  server: RunningProgram,
  ask: (statement: string) => Promise<{ code: number | null }>,
): Promise<void> {
  await ask('checkpoint');
  server.stop('SIGINT');
  const { code, stderr } = await server.ended;
  if (code !== 0) {
    throw databaseError('DATABASE_FAILED', `The recovered server could not be stopped: ${lastLine(stderr)}`);
  }
}

function failure(messages: string, pointInTime: string | undefined) {
  if (messages.includes('recovery ended before configured recovery target was reached')) {
    return databaseError('POINT_NOT_REACHED', `The log ends before ${pointInTime ?? 'the instant'}.`);
  }
  const fatal = messages.split('\n').findLast((line) => /FATAL|PANIC/.test(line)) ?? lastLine(messages);
  return databaseError('DATABASE_FAILED', `The database could not be recovered: ${fatal.slice(0, 400)}`);
}
