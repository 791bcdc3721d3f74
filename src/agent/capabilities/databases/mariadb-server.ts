import path from 'node:path';
import { z } from 'zod';
import { findProgram } from '../../os/child-process.ts';
import {
  databaseError,
  toolMissing,
  lastLine,
  runProgram,
  type SystemUser,
  listeningSockets,
  serverProcesses,
} from './program.ts';

/** A MariaDB server that runs on this machine. */
export interface MariadbServer {
  /** The socket that it listens on. */
  instance: string;
  dataFolder: string;
  programFolder: string;
}

const NAMES: ReadonlySet<string> = new Set(['mariadbd', 'mysqld']);

export async function mariadbServers(): Promise<MariadbServer[]> {
  const found: MariadbServer[] = [];
  for (const { pid, program, folder } of await serverProcesses(NAMES)) {
    const [instance] = await listeningSockets(pid).catch(() => []);
    if (instance === undefined) continue;
    found.push({ instance, dataFolder: folder, programFolder: path.dirname(program) });
  }
  return found;
}

export async function findTool(
  names: readonly [string, ...string[]],
  programFolder?: string,
): Promise<string> {
  const own = programFolder === undefined ? [] : [programFolder];
  const found = await findProgram(
    names,
    [...own, '/usr/bin', '/usr/sbin', '/usr/local/bin'].join(path.delimiter),
  );
  if (found === undefined) {
    throw toolMissing(names[0], names[0] === 'mariadb' ? 'mariadb-client' : 'mariadb-backup');
  }
  return found;
}
export const BACKUP_TOOL = ['mariadb-backup', 'mariabackup'] as const;
export const STREAM_TOOL = ['mbstream'] as const;

/** The name of the only file of a backup. */
export const STREAM = 'backup.xbstream';
/** A backup without this message is incomplete, whatever the exit code is. */
export const COMPLETED = /completed OK!\s*$/;

/** By the socket, root of the system signs in as root of the server. */
export const ownUser = (): SystemUser => ({ uid: process.getuid?.() ?? 0, gid: process.getgid?.() ?? 0 });

const State = z.object({
  version: z.string(),
  port: z.number().int(),
  uid: z.string().nullable(),
  databases: z.array(z.object({ name: z.string(), sizeBytes: z.number() })).nullable(),
});
export type MariadbState = Omit<z.infer<typeof State>, 'databases'> & {
  databases: { name: string; sizeBytes: number }[];
  /** In the time of the server's clock. */
  now: string;
};

const STATE = `select json_object('version', version(), 'port', @@port,
  'uid', (select max(variable_value) from information_schema.global_variables where variable_name = 'SERVER_UID'),
  'databases', (select json_arrayagg(json_object('name', s.schema_name, 'sizeBytes', coalesce((
      select sum(t.data_length + t.index_length) from information_schema.tables t where t.table_schema = s.schema_name), 0)))
    from (select schema_name from information_schema.schemata
      where schema_name not in ('information_schema', 'performance_schema', 'sys') order by schema_name limit 1000) s))`;
const NOW = `select date_format(utc_timestamp(), '%Y-%m-%dT%H:%i:%s.000Z')`;

export async function stateOf(server: MariadbServer, signal: AbortSignal): Promise<MariadbState> {
  const [state = '', now = ''] = await ask(server, [STATE, NOW], signal);
  const { databases, ...known } = State.parse(JSON.parse(state));
  // Truncated to the second: what was committed before it is in the backup.
  return { ...known, databases: databases ?? [], now };
}

/** Each statement prints one line. */
async function ask(
  server: MariadbServer,
  statements: readonly string[],
  signal: AbortSignal,
): Promise<string[]> {
  const file = await findTool(['mariadb', 'mysql'], server.programFolder);
  const { code, stdout, stderr } = await runProgram({
    file,
    args: [
      '--no-defaults',
      '--protocol=socket',
      `--socket=${server.instance}`,
      '--user=root',
      '--batch',
      '--raw',
      '--skip-column-names',
      '--connect-timeout=15',
      `--execute=set group_concat_max_len = 4194304; ${statements.join('; ')}`,
    ],
    user: ownUser(),
    signal,
  });
  if (code !== 0) throw failureOf(stderr, 'The server of the database refused a query');
  return stdout.trimEnd().split('\n');
}

const DENIED = /ERROR (1045|1698|1227|1142)|Access denied/;
const UNREACHABLE = /ERROR (2002|2003|2013)|Can't connect/;

export function failureOf(stderr: string, what: string) {
  const detail = lastLine(stderr);
  if (DENIED.test(stderr)) {
    return databaseError(
      'DATABASE_DENIED',
      `The server of the database does not let root of the system in: ${detail}`,
    );
  }
  if (UNREACHABLE.test(stderr)) {
    return databaseError('DATABASE_NOT_FOUND', `The server of the database does not answer: ${detail}`);
  }
  return databaseError('DATABASE_FAILED', `${what}: ${detail}`);
}

export function problemsOf({ version }: Pick<MariadbState, 'version'>): { code: string; message: string }[] {
  const [major = 0, minor = 0] = version.split('.').map(Number);
  const problems: string[] = [];
  if (!version.includes('MariaDB')) problems.push('It is MySQL, and not MariaDB.');
  else if (major < 10 || (major === 10 && minor < 5)) problems.push('MariaDB is older than 10.5.');
  return problems.map((message) => ({ code: 'DATABASE_UNSUPPORTED', message }));
}
