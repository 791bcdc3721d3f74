import { randomBytes } from 'node:crypto';
import { access, readFile } from 'node:fs/promises';
import path from 'node:path';
import { createInterface } from 'node:readline/promises';
import { parseEnv } from 'node:util';
import { environmentText, readConfig } from '../../config.ts';
import { ENCRYPTION_KEY_FILE } from '../../database-and-secrets.ts';
import { writeEnvironmentFile } from '../environment-file.ts';
import { type CommandIo, fileOf } from '../io.ts';
import { askSecret, secretFrom } from '../secret-input.ts';
import { setUp, type SetUp, type SetUpRequest } from './set-up.ts';

export interface InitOptions {
  publicUrl?: string;
  databaseUrl?: string;
  databasePasswordFile?: string;
  redisUrl?: string;
  redisPasswordFile?: string;
  dataDir?: string;
  adminEmail?: string;
  adminPasswordStdin?: true;
  adminPasswordFile?: string;
  /** Typed on the terminal; never an option, which others could read. */
  adminPassword?: string;
  provider?: string;
  organization?: string;
  site?: string;
  key?: string;
  force?: true;
  json?: true;
}

const DEFAULT_FILE = '.env';
const NAME_MAX = 255;

export async function runInit(io: CommandIo, given: string | undefined, options: InitOptions): Promise<void> {
  const { json, force, ...rest } = options;
  const answers = Object.keys(rest).length > 0 || io.stdin.isTTY !== true ? rest : await ask(io);
  const adminPassword = answers.adminPassword ?? (await givenPassword(io, answers));
  if (adminPassword !== undefined) {
    if (answers.adminEmail === undefined) {
      throw new Error('A password needs its administrator: give --admin-email.');
    }
    answers.adminPassword = adminPassword;
  }
  const request = requestOf(answers);
  const file = given ?? DEFAULT_FILE;
  const written = await writeOrKeep(io, answers, {
    file,
    isNamed: given !== undefined,
    force: force === true,
  });
  const made = request === undefined ? undefined : await setUp({ ...io, env: written.env }, request);
  if (json === true) {
    const { env: _env, ...about } = written;
    io.stdout.write(`${JSON.stringify({ ok: true, ...about, ...made })}\n`);
    return;
  }
  const lines = [
    ...linesOf(written),
    ...(made === undefined ? startLines(written.file) : setUpLines(made, written.file)),
  ];
  io.stdout.write(`${lines.join('\n')}\n`);
}

interface Written {
  /** Null where the environment of the command already is that of an installation. */
  file: string | null;
  /** What this call has set in it. */
  set: string[];
  generated: string[];
  /** The environment with what the file says. */
  env: CommandIo['env'];
}

/** With names to create, an installation that is there already is used: its file, or the environment of this command. */
async function writeOrKeep(
  io: CommandIo,
  answers: InitOptions,
  { file, isNamed, force }: { file: string; isNamed: boolean; force: boolean },
): Promise<Written> {
  const path = fileOf(io, file);
  const kept = { set: [], generated: [] };
  if (isSetUp(answers) && !force) {
    const text = await readFile(path, 'utf8').catch(() => undefined);
    if (text !== undefined) return { file, ...kept, env: { ...io.env, ...parseEnv(text) } };
    const { DATABASE_URL, DATA_DIR } = io.env;
    const isInstalled =
      DATABASE_URL !== undefined || (await hasKeys(fileOf(io, answers.dataDir ?? DATA_DIR ?? './data')));
    if (!isNamed && isInstalled) {
      const env = answers.dataDir === undefined ? io.env : { ...io.env, DATA_DIR: answers.dataDir };
      return { file: null, ...kept, env };
    }
  }
  const { values, generated } = await environmentFor(io, answers);
  // It says of every value what is wrong with it, before a server does.
  readConfig({ environment: values, folder: io.cwd });
  const text = environmentText(
    [
      'The environment of this Muster. Keep it secret, and keep a copy in a safe place:',
      'without SECRET_ENCRYPTION_KEY, the secrets in the database are lost.',
    ],
    values,
  );
  await writeEnvironmentFile(path, text, { force });
  return { file, set: Object.keys(values), generated, env: { ...io.env, ...values } };
}

const isSetUp = ({ provider, organization, site, key }: InitOptions): boolean =>
  [provider, organization, site, key].some((name) => name !== undefined);

/** What is to be created in the database; nothing where only the administrator of the first start is named. */
function requestOf(answers: InitOptions): SetUpRequest | undefined {
  if (!isSetUp(answers)) return undefined;
  const { adminEmail, provider, organization, site, key, adminPassword } = answers;
  for (const [option, name] of Object.entries({ provider, organization, site, key })) {
    const isName = name === undefined || (name.trim() !== '' && name.length <= NAME_MAX);
    if (!isName) throw new Error(`The name of --${option} must have 1 to ${NAME_MAX} characters.`);
  }
  return {
    adminEmail,
    adminPassword,
    provider,
    organization,
    site,
    key,
  };
}

async function givenPassword(io: CommandIo, answers: InitOptions): Promise<string | undefined> {
  if (answers.adminPasswordStdin === true) return secretFrom(io, 'stdin');
  const { adminPasswordFile: file } = answers;
  return file === undefined ? undefined : secretFrom(io, { file });
}

function linesOf({ file, set, generated }: Written): string[] {
  if (file === null) return [];
  if (set.length === 0) return [`${file} is there already, and is used as it is.`];
  return [
    `${file} sets ${set.join(', ')}.`,
    `Generated: ${generated.length === 0 ? 'nothing, since the data folder has its keys' : generated.join(', ')}.`,
  ];
}

const startLines = (file: string | null): string[] => [
  `Start the server with it: ${startCommand(file)}, or as docs/production.md describes.`,
];

const startCommand = (file: string | null): string =>
  file === null ? 'npm start' : `node --env-file=${file} src/run.mjs src/main.ts`;

function setUpLines(made: SetUp, file: string | null): string[] {
  const { administrator, provider, organization, site, key, installLine, hasRelease } = made;
  const muster =
    file === null ? 'npm run muster --' : `node --env-file=${file} src/run.mjs src/cli/muster.ts`;
  const state = ({ name, isNew }: { name: string; isNew: boolean }) =>
    isNew ? `${name}, created` : `${name}, there already`;
  return [
    `Administrator: ${administrator.email}, ${administrator.isNew ? 'created' : 'there already'}`,
    ...(administrator.password === undefined
      ? []
      : [`Password:      ${administrator.password}  (shown once)`]),
    ...(provider === undefined ? [] : [`Provider:      ${state(provider)}`]),
    ...(organization === undefined ? [] : [`Organization:  ${state(organization)}`]),
    ...(site === undefined ? [] : [`Site:          ${state(site)}`]),
    ...(key === undefined ? [] : [`Key:           ${key.value}  (shown once; "${key.name}")`]),
    '',
    'Next:',
    `  ${startCommand(file)}`,
    ...(hasRelease ? [] : ['  npm run build:agent', `  ${muster} releases add dist/agent --version 0.1.0`]),
    ...(installLine === null
      ? ['  then, on a machine, the install line that the dashboard shows under Enrollment']
      : [`  on a machine: ${installLine}`]),
  ];
}

const QUESTIONS = [
  ['publicUrl', 'Address under which people reach the server, such as https://rmm.example.com (empty: none)'],
  ['databaseUrl', 'Owner of an external database, without a password (empty: Muster runs its own Postgres)'],
  ['databasePasswordFile', 'File with the password of that owner (empty: none)'],
  ['redisUrl', 'Redis for several servers (empty: this server runs alone)'],
  ['dataDir', 'Data folder (empty: ./data)'],
  ['adminEmail', 'E-mail address of the first administrator (empty: none now)'],
  ['provider', 'First provider, such as your company (empty: none now)'],
  ['organization', 'Its first organization, such as a customer (empty: none now)'],
  ['site', 'The first site of that organization (empty: none now)'],
  ['key', 'Name of an enrollment key for its machines (empty: none now)'],
] as const;

async function ask(io: CommandIo): Promise<InitOptions> {
  const terminal = createInterface({ input: io.stdin, output: io.stderr });
  const answers: InitOptions = {};
  try {
    for (const [name, question] of QUESTIONS) {
      const answer = (await terminal.question(`${question}: `)).trim();
      if (answer !== '') answers[name] = answer;
    }
  } finally {
    terminal.close();
  }
  if (answers.adminEmail !== undefined && isSetUp(answers)) {
    const password = await askSecret(io, 'Password of the administrator (empty: generate one): ');
    if (password !== undefined && password !== '') answers.adminPassword = password;
  }
  return answers;
}

async function environmentFor(io: CommandIo, options: InitOptions) {
  const { publicUrl, databaseUrl, redisUrl, dataDir, adminEmail } = options;
  const generated: string[] = [];
  const generate = (name: string) => {
    generated.push(name);
    return randomBytes(36).toString('base64url');
  };
  const values: Record<string, string> = {};
  if (publicUrl !== undefined) values['PUBLIC_URL'] = publicUrl;
  if (dataDir !== undefined) values['DATA_DIR'] = dataDir;
  if (databaseUrl !== undefined) {
    values['DATABASE_URL'] = await withPassword(io, databaseUrl, options.databasePasswordFile);
    values['SVC_APP_DB_PASSWORD'] = generate('SVC_APP_DB_PASSWORD');
    const pruning = new URL(databaseUrl);
    [pruning.username, pruning.password] = ['svc_audit_admin', generate('AUDIT_ADMIN_DATABASE_URL')];
    values['AUDIT_ADMIN_DATABASE_URL'] = pruning.href;
  }
  if (redisUrl !== undefined) {
    values['REDIS_URL'] = await withPassword(io, redisUrl, options.redisPasswordFile);
  }
  // A data folder that has keys keeps them: another key could not open what they have sealed.
  // Where the database is created now, its data folder gets keys too, and commands find them without the file.
  const hasOwn = isSetUp(options) || (await hasKeys(fileOf(io, dataDir ?? './data')));
  if (databaseUrl !== undefined || !hasOwn) {
    values['JWT_SECRET'] = generate('JWT_SECRET');
    values['SECRET_ENCRYPTION_KEY'] = generate('SECRET_ENCRYPTION_KEY');
  }
  values['METRICS_TOKEN'] = generate('METRICS_TOKEN');
  if (adminEmail !== undefined && !isSetUp(options)) {
    values['SVC_ADMIN_EMAIL'] = adminEmail;
    // Letters of both kinds and a digit, which the rules for passwords ask for.
    values['SVC_ADMIN_PASSWORD'] = options.adminPassword ?? `${generate('SVC_ADMIN_PASSWORD')}-aA1`;
  }
  return { values, generated };
}

const hasKeys = (dataDir: string) =>
  access(path.join(dataDir, ENCRYPTION_KEY_FILE)).then(
    () => true,
    () => false,
  );

async function withPassword(io: CommandIo, url: string, file: string | undefined): Promise<string> {
  const whole = new URL(url);
  // The list of processes shows arguments to every user of the machine. It is not repeated here either.
  if (whole.password !== '') {
    throw new Error(`Leave the password out of the URL of ${whole.host}: it belongs into a file of its own.`);
  }
  if (file === undefined) return url;
  whole.password = encodeURIComponent(await secretFrom(io, { file }));
  return whole.href;
}
