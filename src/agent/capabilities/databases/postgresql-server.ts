import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { z } from 'zod';
import { findProgram } from '../../os/child-process.ts';
import {
  databaseError,
  toolMissing,
  lastLine,
  runProgram,
  type SystemUser,
  serverProcesses,
  userOf,
} from './program.ts';
import type { BackupOrder } from './engine-port.ts';

/** A PostgreSQL server that runs on this machine. */
export interface PostgresServer {
  /** The socket that it listens on. */
  instance: string;
  socketFolder: string;
  port: number;
  dataFolder: string;
  programFolder: string;
  major: number;
  user: SystemUser;
  userName: string;
  home: string;
}

const NAMES: ReadonlySet<string> = new Set(['postgres', 'postmaster']);

export async function postgresServers(): Promise<PostgresServer[]> {
  const found: PostgresServer[] = [];
  for (const { folder, program, uid, gid } of await serverProcesses(NAMES)) {
    const user = await userOf(uid);
    const facts = await readPidFile(folder).catch(() => undefined);
    if (user === undefined || facts === undefined) continue;
    found.push({
      ...facts,
      instance: path.join(facts.socketFolder, `.s.PGSQL.${facts.port}`),
      dataFolder: folder,
      programFolder: path.dirname(program),
      user: { uid, gid },
      userName: user.name,
      home: user.home,
    });
  }
  return found;
}

/** The lines of postmaster.pid: process, folder, start, port, and the folder of the socket. */
async function readPidFile(folder: string) {
  const lines = (await readFile(path.join(folder, 'postmaster.pid'), 'utf8')).split('\n');
  const major = Number.parseInt(await readFile(path.join(folder, 'PG_VERSION'), 'utf8'), 10);
  const [port, socketFolder = ''] = [Number(lines[3]), lines[4]];
  if (!Number.isInteger(port) || !socketFolder.startsWith('/') || !Number.isInteger(major)) return undefined;
  return { port, socketFolder, major };
}

/**
 * A program of the server's release or a newer one. The one on the search path comes last: it may be a wrapper of the
 * distribution, which chooses a release by itself.
 */
export async function findTool(name: string, major: number, programFolder?: string): Promise<string> {
  const own = programFolder === undefined ? [] : [programFolder];
  const folders = [
    ...own,
    `/usr/lib/postgresql/${major}/bin`,
    `/usr/pgsql-${major}/bin`,
    '/usr/bin',
    '/usr/local/bin',
  ];
  const found = await findProgram([name], folders.join(path.delimiter));
  if (found === undefined) throw toolMissing(name, `PostgreSQL ${major}`);
  return found;
}

export const connectArguments = ({ socketFolder, port, userName }: PostgresServer): string[] => [
  '--no-password',
  '--host',
  socketFolder,
  '--port',
  String(port),
  '--username',
  userName,
];

/** The messages are parsed, so they must be in English. */
export const environmentOf = ({ home }: Pick<PostgresServer, 'home'>) => ({
  HOME: home,
  PGOPTIONS: '-c lc_messages=C',
  PGCONNECT_TIMEOUT: '15',
  PGAPPNAME: 'muster',
});

/** Runs statements one after another, each in its own transaction. Each prints one line with one column. */
export async function ask(
  server: PostgresServer,
  statements: readonly string[],
  signal: AbortSignal,
): Promise<string[]> {
  const file = await findTool('psql', server.major, server.programFolder);
  const { code, stdout, stderr } = await runProgram({
    file,
    args: [
      ...connectArguments(server),
      '--dbname',
      'postgres',
      '--no-psqlrc',
      '--quiet',
      '--no-align',
      '--tuples-only',
      '--set',
      'ON_ERROR_STOP=1',
      ...statements.flatMap((statement) => ['--command', statement]),
    ],
    user: server.user,
    env: environmentOf(server),
    signal,
  });
  if (code !== 0) throw failureOf(stderr, 'The server of the database refused a query');
  return stdout.trimEnd().split('\n');
}

const DENIED =
  /authentication failed|no pg_hba\.conf entry|permission denied|must be .*replication|role .* does not exist/;
const UNREACHABLE = /could not connect|connection to server|Connection refused|shutting down|starting up/;
export const RECYCLED = /requested WAL segment .* has already been removed/;

/** The failure that a PostgreSQL program has printed. */
export function failureOf(stderr: string, what: string) {
  const detail = lastLine(stderr);
  if (RECYCLED.test(stderr)) return recycled();
  if (DENIED.test(stderr)) {
    return databaseError(
      'DATABASE_DENIED',
      `The server of the database does not let its own system user in: ${detail}`,
    );
  }
  if (UNREACHABLE.test(stderr)) {
    return databaseError('DATABASE_NOT_FOUND', `The server of the database does not answer: ${detail}`);
  }
  return databaseError('DATABASE_FAILED', `${what}: ${detail}`);
}

export const recycled = () =>
  databaseError(
    'CHAIN_BROKEN',
    'The server has already removed the log that continues the last backup. The next backup is a full one.',
  );

const State = z.object({
  version: z.string(),
  number: z.number().int(),
  isStandby: z.boolean(),
  walLevel: z.string(),
  senders: z.number().int(),
  slotKeepMb: z.number().nullable(),
  segmentBytes: z.number().int().positive(),
  tablespaces: z.number().int(),
  cluster: z.string(),
  timeline: z.string().nullable(),
  databases: z.array(z.object({ name: z.string(), sizeBytes: z.number() })),
  totalBytes: z.number(),
});
export type PostgresState = z.infer<typeof State>;

const STATE = `select json_build_object(
  'version', current_setting('server_version'), 'number', current_setting('server_version_num')::int,
  'isStandby', pg_is_in_recovery(), 'walLevel', current_setting('wal_level'),
  'senders', current_setting('max_wal_senders')::int,
  'slotKeepMb', (select setting::bigint from pg_settings where name = 'max_slot_wal_keep_size'),
  'segmentBytes', (select setting::bigint from pg_settings where name = 'wal_segment_size'),
  'tablespaces', (select count(*) from pg_tablespace where spcname not in ('pg_default', 'pg_global')),
  'cluster', (select system_identifier::text from pg_control_system()),
  'timeline', case when not pg_is_in_recovery() then left(pg_walfile_name(pg_current_wal_lsn()), 8) end,
  'databases', (select coalesce(json_agg(json_build_object('name', datname, 'sizeBytes', pg_database_size(oid))), '[]')
    from (select * from pg_database where datallowconn and not datistemplate order by datname limit 1000) d),
  'totalBytes', (select coalesce(sum(pg_database_size(oid)), 0) from pg_database))`;

export async function stateOf(server: PostgresServer, signal: AbortSignal): Promise<PostgresState> {
  return State.parse(JSON.parse((await ask(server, [STATE], signal)).join('\n')));
}

/** Why a server cannot be backed up with its current settings. */
export function problemsOf(state: PostgresState): { code: string; message: string }[] {
  const problems: string[] = [];
  if (state.number < 130_000) problems.push('PostgreSQL is older than 13.');
  if (state.isStandby) problems.push('It is a standby: back up the server that it follows.');
  if (state.walLevel === 'minimal') problems.push('Its wal_level is minimal: set it to replica.');
  if (state.senders < 2) problems.push('Its max_wal_senders is below 2.');
  if (state.tablespaces > 0) problems.push('It has tablespaces of its own, which are not backed up yet.');
  return problems.map((message) => ({ code: 'DATABASE_UNSUPPORTED', message }));
}

/** A cluster and its timeline: logs join only within one of them. */
export function branchOf({ cluster, timeline }: Pick<PostgresState, 'cluster' | 'timeline'>): string {
  return `${cluster}/${Number.parseInt(timeline ?? '0', 16)}`;
}

/**
 * A replication slot keeps the WAL on the server until the next backup. It is used only if the server limits how much
 * a slot may keep (max_slot_wal_keep_size): otherwise the slot of an agent that is gone would fill the customer's
 * disk.
 */

type Parts = Pick<BackupOrder, 'chainId' | 'signal' | 'warn'>;

/** Only hexadecimal digits and a word, so that it can be part of a statement. */
const nameOf = (chainId: string) => `muster_${chainId.replaceAll(/[^0-9a-f]/g, '')}`;

const isBounded = ({ slotKeepMb }: PostgresState) => slotKeepMb !== null && slotKeepMb >= 0;

/** Keeps the WAL from now on. */
export async function holdLogs(
  server: PostgresServer,
  state: PostgresState,
  { chainId, signal, warn }: Parts,
): Promise<'slot' | 'nobody'> {
  const slot = nameOf(chainId);
  const drop = `select pg_drop_replication_slot(slot_name) is null from pg_replication_slots where slot_name = '${slot}' and not active`;
  try {
    // The slot of an earlier chain may be lost, or may keep WAL that is no longer needed.
    await ask(server, [drop], signal);
    if (!isBounded(state)) return 'nobody';
    await ask(server, [`select pg_create_physical_replication_slot('${slot}', true) is null`], signal);
    return 'slot';
  } catch (error) {
    signal.throwIfAborted();
    warn(`No replication slot keeps the log of the database: ${String(error)}`);
    return 'nobody';
  }
}

/** Releases the WAL that the backups contain by now. */
export async function releaseLogs(
  server: PostgresServer,
  upTo: string,
  { chainId, signal }: Parts,
): Promise<'slot' | 'nobody'> {
  const slot = nameOf(chainId);
  const advance = `select count(pg_replication_slot_advance(slot_name, '${upTo}'::pg_lsn)) from pg_replication_slots
    where slot_name = '${slot}' and not active and restart_lsn < '${upTo}'::pg_lsn`;
  const known = `select count(*) from pg_replication_slots where slot_name = '${slot}' and wal_status <> 'lost'`;
  try {
    const [, count] = await ask(server, [advance, known], signal);
    return count === '1' ? 'slot' : 'nobody';
  } catch {
    signal.throwIfAborted();
    return 'nobody';
  }
}
