import { readFileSync } from 'node:fs';
import path from 'node:path';
import { z } from 'zod';
import { type Values, environmentOfProcess } from './config/environment.ts';
import { auditArchiveArea, backupStoreArea, releasesArea, cloudBackupArea } from './config/stores.ts';
import { databaseArea, networkArea, peopleArea, processArea, secretsArea } from './config/server.ts';

/**
 * The environment, read once. Each area below `config/` declares its variables and the settings that follow from them.
 * An invalid value stops the start with a line that names the variable and a good value.
 */
const AREAS = [
  processArea,
  databaseArea,
  secretsArea,
  auditArchiveArea,
  peopleArea,
  networkArea,
  releasesArea,
  backupStoreArea,
  cloudBackupArea,
] as const;

const Environment = z.object({
  ...processArea.variables,
  ...databaseArea.variables,
  ...secretsArea.variables,
  ...auditArchiveArea.variables,
  ...peopleArea.variables,
  ...networkArea.variables,
  ...releasesArea.variables,
  ...backupStoreArea.variables,
  ...cloudBackupArea.variables,
});

const settings = (env: z.output<typeof Environment>) => ({
  ...processArea.settings(env),
  ...databaseArea.settings(env),
  ...secretsArea.settings(env),
  ...auditArchiveArea.settings(env),
  ...peopleArea.settings(env),
  ...networkArea.settings(env),
  ...releasesArea.settings(env),
  ...backupStoreArea.settings(env),
  ...cloudBackupArea.settings(env),
});

export type Config = ReturnType<typeof settings>;

const FROM_FILE: readonly string[] = AREAS.flatMap(({ fromFile }): readonly string[] => fromFile);

export class ConfigError extends Error {
  readonly faults: readonly string[];

  constructor(faults: string[]) {
    super(`The configuration is invalid:\n${faults.map((fault) => `  - ${fault}`).join('\n')}`);
    this.name = 'ConfigError';
    this.faults = faults;
  }
}

export interface ConfigSource {
  environment?: Values;
  /** Values for variables that the environment leaves out. */
  defaults?: Readonly<Record<string, string>>;
  /** Where relative names of files and folders start. */
  folder?: string;
}

/** Reads and checks the environment; throws a `ConfigError` that lists every fault at once. */
export function readConfig({
  environment = environmentOfProcess(),
  defaults = {},
  folder = process.cwd(),
}: ConfigSource = {}): Readonly<Config> {
  const faults: string[] = [];
  const values = { ...defaults, ...withFiles(environment, folder, faults) };
  const parsed = Environment.safeParse(values);
  if (!parsed.success) {
    faults.push(...parsed.error.issues.map((issue) => `${issue.path.join('.')} ${issue.message}`));
  }
  faults.push(...AREAS.flatMap((area) => area.conflicts(values)));
  if (!parsed.success || faults.length > 0) throw new ConfigError(faults);
  const dataDir = path.resolve(folder, parsed.data.DATA_DIR);
  return Object.freeze(settings({ ...parsed.data, DATA_DIR: dataDir }));
}

/** For the Knex command line, which needs nothing but the owner of the database. */
export function readOwnerUrl(): string {
  const faults: string[] = [];
  const parsed = Environment.pick({ DATABASE_URL: true }).safeParse(
    withFiles(environmentOfProcess(), process.cwd(), faults),
  );
  if (parsed.success && parsed.data.DATABASE_URL !== undefined) return parsed.data.DATABASE_URL;
  throw new ConfigError([
    ...faults.filter((fault) => fault.startsWith('DATABASE_URL_FILE')),
    'DATABASE_URL must name the owner of the database; the embedded one migrates itself at start',
  ]);
}

/** Names that are still read if the present ones are absent. */
export const OLDER_NAMES: Readonly<Record<string, string>> = {
  APP_ENCRYPTION_KEY: 'SECRET_ENCRYPTION_KEY',
  PUBLIC_APP_URL: 'PUBLIC_URL',
  DASHBOARD_URL: 'PUBLIC_URL',
};

/** The variables of this installation that are set, with those that are in files; for a backup of the installation. */
export function setVariables({
  environment,
  folder,
}: Required<Pick<ConfigSource, 'environment' | 'folder'>>): Record<string, string> {
  const values = withFiles(environment, folder, []);
  return Object.fromEntries(Object.entries(values).filter(([name]) => name in Environment.shape));
}

/** Empty values count as absent; `X_FILE` gives the value of X. */
function withFiles(environment: Values, folder: string, faults: string[]): Record<string, string> {
  const values: Record<string, string> = {};
  for (const [name, value] of Object.entries(environment)) {
    if (value !== undefined && value !== '') values[name] = value;
  }
  for (const name of FROM_FILE) {
    const file = values[`${name}_FILE`];
    if (file === undefined || values[name] !== undefined) continue;
    try {
      values[name] = readFileSync(path.resolve(folder, file), 'utf8').trim();
    } catch {
      faults.push(`${name}_FILE names ${file}, which cannot be read`);
    }
  }
  return values;
}

/** The text of `.env.example`, generated from the schema above. */
export const environmentExample = () =>
  environmentText(['Every variable that Muster reads. All are optional on the embedded default.'], {});

/** A text of an environment file: every variable with what it means, those of `values` set and all others commented out. */
export function environmentText(
  heading: readonly string[],
  values: Readonly<Record<string, string>>,
): string {
  const lines = [...heading.map((line) => `# ${line}`), ''];
  for (const [name, schema] of Object.entries<z.ZodType>(Environment.shape)) {
    const value = values[name];
    const fallback: unknown = schema instanceof z.ZodDefault ? schema.def.defaultValue : defaultOf(schema);
    lines.push(`# ${schema.description ?? ''}`);
    if (FROM_FILE.includes(name)) lines.push(`# (or ${name}_FILE: a file that holds it)`);
    lines.push(
      value === undefined
        ? `#${name}=${typeof fallback === 'string' ? fallback : ''}`
        : `${name}=${asEnvironmentValue(name, value)}`,
      '',
    );
  }
  return lines.join('\n');
}

/** In the quotes that shells, systemd, Docker Compose and Node read alike. */
function asEnvironmentValue(name: string, value: string): string {
  if (/[\r\n\0]/.test(value)) throw new ConfigError([`${name} must be one line`]);
  return /^[\w.:/@%+,=-]*$/.test(value) ? value : `"${value.replaceAll(/["\\$`]/g, '\\$&')}"`;
}

function defaultOf(schema: z.ZodType): unknown {
  const empty = z.object({ value: schema }).safeParse({});
  const value: unknown = empty.success ? empty.data.value : undefined;
  return typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean'
    ? String(value)
    : undefined;
}
