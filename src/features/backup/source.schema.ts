import { z } from 'zod';
import { text } from '../../platform/http/fields.ts';
import {
  canonicalPath,
  type HypervisorKind,
  isStorableText,
  MachineName,
  MACHINES_PER_SNAPSHOT,
  PATH_TEXT_MAX,
  pathBytes,
  SqlDatabase,
  SqlInstance,
  SqlPath,
} from '../../protocol/index.ts';

// The sources of a configuration. `source-kinds.ts` has the work of each kind.

const MAX_PATHS = 200;
const PATH_BYTES_MAX = 4096;

const path = (isAbsolute: RegExp, example: string) =>
  z
    .string()
    .min(1)
    .max(PATH_TEXT_MAX)
    .refine((value) => pathBytes(value).length <= PATH_BYTES_MAX, `must have at most ${PATH_BYTES_MAX} bytes`)
    .refine(isStorableText, 'must not contain NUL characters or halves of surrogate pairs')
    .refine((value) => !/[\r\n]/.test(value), 'must not contain line breaks')
    .regex(isAbsolute, `must be an absolute path, such as ${example}`)
    .refine((value) => !value.split(/[\\/]/).includes('..'), 'must not contain ..');

const list = (entry: z.ZodType<string, string>) =>
  z
    .array(entry)
    .min(1)
    .max(MAX_PATHS)
    .transform((paths) => [...new Set(paths)])
    .optional();

const FileSources = z
  .strictObject({
    kind: z.literal('files').optional().default('files'),
    paths: z
      .strictObject({
        linux: list(path(/^\//, '/home').overwrite(canonicalPath)).describe(
          'A byte that is not UTF-8 is written as \\x and two hexadecimal digits: /srv/caf\\xe9.',
        ),
        macos: list(path(/^\//, '/Users').overwrite(canonicalPath)),
        windows: list(path(/^[A-Za-z]:[\\/]/, String.raw`C:\Users`)),
      })
      .refine((paths) => Object.values(paths).some((one) => one !== undefined), {
        message: 'must name a path for at least one operating system',
      }),
    excludes: z
      .array(
        z
          .string()
          .min(1)
          .max(1000)
          .refine(isStorableText, 'must not contain NUL characters or halves of surrogate pairs')
          .refine((value) => !/[\r\n]/.test(value), 'must not contain line breaks'),
      )
      .max(MAX_PATHS)
      .optional()
      .describe('Patterns of files and folders that are left out, such as *.tmp or /var/cache.'),
    oneFileSystem: z
      .boolean()
      .optional()
      .describe('True: file systems that are mounted below a path are left out.'),
  })
  .meta({ id: 'FileSources' });
export type FileSources = z.infer<typeof FileSources>;

const disks = () =>
  z
    .array(
      text(4096).refine(
        (name) => /^\/(?!.*(^|\/)\.{1,2}(\/|$))/.test(name) || /^[\w!.:-]{1,100}$/.test(name),
        'must be the name of a disk such as sda, or an absolute path without . and ..',
      ),
    )
    .max(64);

const ImageSources = z
  .strictObject({
    kind: z.literal('image'),
    disks: z
      .union([z.literal('all'), disks().min(1)])
      .default('all')
      .describe(
        'Whole disks, by their names on the device (`sda`) or as absolute paths of files that each hold a disk. `all`: every fixed disk.',
      ),
    excludeDisks: disks().optional(),
  })
  .meta({ id: 'ImageSources' });
export type ImageSources = z.infer<typeof ImageSources>;

/** The engines whose types of backups between two full ones are known, the first of them by default. */
const BETWEEN = {
  postgresql: ['log', 'none'],
  mariadb: ['differential', 'none'],
} as const satisfies Record<string, readonly ('log' | 'differential' | 'none')[]>;
const BETWEEN_SENTENCES = {
  postgresql: 'must be log or none: logs of PostgreSQL are as small as differential backups would be',
  mariadb: 'must be differential or none: MariaDB has no log backups here',
};

const DatabaseSources = z
  .strictObject({
    kind: z.literal('database'),
    engine: z.enum(['postgresql', 'mariadb']),
    instance: text(255)
      .optional()
      .describe(
        'As `GET /backup/databases/instances` lists it. Default: the only one of the engine on the device.',
      ),
    fullEveryDays: z
      .number()
      .int()
      .min(1)
      .max(90)
      .optional()
      .default(7)
      .describe('A backup is a full one if the last full one is older.'),
    between: z
      .enum(['log', 'differential', 'none'])
      .optional()
      .describe('The type of the other backups. Default: `log` for PostgreSQL, `differential` for MariaDB.'),
  })
  .superRefine(({ engine, between }, context) => {
    const allowed: readonly string[] = BETWEEN[engine];
    if (between === undefined || allowed.includes(between)) return;
    context.addIssue({ code: 'custom', path: ['between'], message: BETWEEN_SENTENCES[engine] });
  })
  .meta({ id: 'DatabaseSources' });
export type DatabaseSources = z.infer<typeof DatabaseSources>;

/** The type of the backups between two full ones. */
export const betweenOf = ({ engine, between }: Pick<DatabaseSources, 'engine' | 'between'>) =>
  between ?? BETWEEN[engine][0];

/** One database of SQL Server, whose backups have a chain of their own. */
const MssqlSources = z
  .strictObject({
    kind: z.literal('mssql'),
    instance: SqlInstance.optional()
      .default('MSSQLSERVER')
      .describe('As `GET /backup/mssql/instances` lists it. Default: the default instance.'),
    database: SqlDatabase,
    spoolPath: SqlPath.describe(
      'A folder on the device which the service of SQL Server writes to and the agent reads. A backup lies there until it is in the repository.',
    ),
    fullEveryDays: z
      .number()
      .int()
      .min(1)
      .max(90)
      .optional()
      .default(7)
      .describe('A backup is a full one if the last full one is older.'),
    between: z
      .enum(['log', 'differential', 'none'])
      .optional()
      .default('log')
      .describe('The type of the other backups. Logs need the recovery model FULL or BULK_LOGGED.'),
  })
  .meta({ id: 'MssqlSources' });
export type MssqlSources = z.infer<typeof MssqlSources>;

/** Guests of a hypervisor on the devices. */
const machineSources = <K extends HypervisorKind>(kind: K) =>
  z.strictObject({
    kind: z.literal(kind),
    machines: z
      .union([z.literal('all'), z.array(MachineName).min(1).max(MACHINES_PER_SNAPSHOT)])
      .optional()
      .default('all')
      .describe('Their names or ids, or `all`: those that there are at the time of the backup.'),
    consistency: z
      .enum(['application', 'crash'])
      .optional()
      .default('application')
      .describe(
        '`application`: the programs in a machine are asked to write what they hold. If one cannot be asked, it is saved as with `crash`, and the backup is partial.',
      ),
  });
const HypervSources = machineSources('hyperv').meta({ id: 'HypervSources' });
const KvmSources = machineSources('kvm').meta({ id: 'KvmSources' });

export const BackupSources = z
  .discriminatedUnion('kind', [
    FileSources,
    ImageSources,
    DatabaseSources,
    MssqlSources,
    HypervSources,
    KvmSources,
  ])
  .meta({ id: 'BackupSources' });
export type BackupSources = z.infer<typeof BackupSources>;
export type SourceKind = BackupSources['kind'];

/** A machine that a device has made of a snapshot. No configuration has it: a recovery plan asks for a backup of it. */
interface RestoredMachine {
  kind: 'restored';
  vmRestoreId: string;
}
export type JobSources = BackupSources | RestoredMachine;

// Exclude patterns of restic: it refuses a whole backup because of one malformed pattern, so no configuration has one.

/** Excludes are arguments of restic's command line, which Windows limits to 32,767 characters. */
const ALL_MAX = 15_000;

/** The faults of the excludes of a configuration, with their positions. */
export function* faultsOfExcludes({
  excludes = [],
  paths,
}: Pick<FileSources, 'excludes' | 'paths'>): Generator<{ at: number | undefined; message: string }> {
  const hasEscapes = paths.linux !== undefined || paths.macos !== undefined;
  for (const [at, pattern] of excludes.entries()) {
    const fault =
      (hasEscapes ? patternFault(pattern, { isWindows: false }) : undefined) ??
      (paths.windows === undefined ? undefined : patternFault(pattern, { isWindows: true }));
    if (fault !== undefined) yield { at, message: fault };
  }
  const length = excludes.reduce((sum, pattern) => sum + pattern.length + 1, 0);
  if (length > ALL_MAX) yield { at: undefined, message: `must have at most ${ALL_MAX} characters in all` };
}

/**
 * Why restic does not take a pattern; `undefined`: it does. Each part between slashes is a pattern of Go's `filepath.Match`.
 * A backslash takes the meaning from the character behind it, and on Windows it separates parts.
 */
export function patternFault(pattern: string, { isWindows }: { isWindows: boolean }): string | undefined {
  const parts = pattern.replace(/^!/, '').split(isWindows ? /[\\/]/ : '/');
  for (const part of parts) {
    const fault = partFault(Array.from(part), !isWindows);
    if (fault !== undefined) return fault;
  }
  return undefined;
}

const NOT_CLOSED = 'has a [ without its ] in the same part of the path';
const BAD_SET = 'must have characters between [ and ], and a - there only between two of them';
const LAST_BACKSLASH =
  'must not end a part with a backslash, which takes the meaning from the next character';

function partFault(characters: readonly string[], hasEscapes: boolean): string | undefined {
  const isEscape = (at: number) => hasEscapes && characters[at] === '\\';
  /** The place behind a member of a set, or what is wrong with it. */
  const behindMember = (at: number): number | string => {
    const first = characters[at];
    if (first === undefined) return NOT_CLOSED;
    if (first === '-' || first === ']') return BAD_SET;
    const next = at + (isEscape(at) ? 2 : 1);
    return next >= characters.length ? NOT_CLOSED : next;
  };
  for (let at = 0; at < characters.length; at += 1) {
    if (isEscape(at)) {
      at += 1;
      if (at >= characters.length) return LAST_BACKSLASH;
    }
    // A character that has lost its meaning opens no set.
    else if (characters[at] === '[') {
      at += characters[at + 1] === '^' ? 2 : 1;
      for (let members = 0; members === 0 || characters[at] !== ']'; members += 1) {
        let next = behindMember(at);
        if (typeof next === 'number' && characters[next] === '-') next = behindMember(next + 1);
        if (typeof next === 'string') return next;
        at = next;
      }
    }
  }
  return undefined;
}
