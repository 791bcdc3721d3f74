import { randomBytes } from 'node:crypto';
import { access, readFile } from 'node:fs/promises';
import { isIPv6 } from 'node:net';
import path from 'node:path';
import { createInterface } from 'node:readline/promises';
import { parseEnv } from 'node:util';
import { type Config, environmentText, readConfig } from '../config.ts';
import { ENCRYPTION_KEY_FILE } from '../database-and-secrets.ts';
import { writeEnvironmentFile } from './whole-file.ts';
import { type CommandIo, fileOf, askSecret, secretFrom } from './io.ts';
import { credentialsOf, hostsOf, withCredentials } from '../database-url.ts';
import { addressKey } from '../email-address.ts';
import { describeRedis, hasRedisPassword, parseRedisUrl, withRedisPassword } from '../redis-url.ts';
import { passwordFault } from '../features/auth/index.ts';
import { listAllReleases } from '../features/releases/operator.ts';
import { createSystemAdmin, listSystemAdmins, type User } from '../features/users/index.ts';
import { withSystem } from '../platform/db/transaction.ts';
import type { Logger } from '../platform/logger.ts';
import { hashPassword } from '../platform/secrets/passwords.ts';
import type { Db } from '../platform/db/pool.ts';
import { recordAsOperator, withInstallation } from './with-installation.ts';
import { createFirstTenant, type FirstTenant, type TenantNames } from './first-tenant.ts';

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
  /** Typed on the terminal; never an option, because other users could read it. */
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
  /** Null if the environment of the command already is that of an installation. */
  file: string | null;
  /** The variables that this call has set in it. */
  set: string[];
  generated: string[];
  /** The environment with the variables of the file. */
  env: CommandIo['env'];
}

/** With names to create, an existing installation is used: its file, or the environment of this command. */
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
    const { DATABASE_URL, DATABASE_URL_FILE, DATA_DIR } = io.env;
    const isInstalled =
      (DATABASE_URL ?? DATABASE_URL_FILE) !== undefined ||
      (await hasKeys(fileOf(io, answers.dataDir ?? DATA_DIR ?? './data')));
    if (!isNamed && isInstalled) {
      const env = answers.dataDir === undefined ? io.env : { ...io.env, DATA_DIR: answers.dataDir };
      return { file: null, ...kept, env };
    }
  }
  const { values, generated } = await environmentFor(io, answers);
  // Validates every value, before a server does.
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

/** The records to create in the database; none if only the administrator of the first start is named. */
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
    `${file} is written, and sets ${set.join(', ')}.`,
    `Generated: ${generated.length === 0 ? 'nothing, since the data folder has its keys' : generated.join(', ')}.`,
  ];
}

const startLines = (file: string | null): string[] => [
  `Start the server with it: ${startCommand(file)}, or as docs/production.md describes.`,
];

const startCommand = (file: string | null): string =>
  file === null ? 'npm start' : `node --env-file=${file} src/run.mjs src/main.ts`;

/** The address in an install line that works on the machine on which the line is run. */
const LOOPBACK = /'https?:\/\/(localhost|127\.|\[::1\])/;

function setUpLines(made: SetUp, file: string | null): string[] {
  const { administrator, provider, organization, site, key, installLine, hasRelease } = made;
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
    ...(IS_BUILT ? stepsOfBuild(hasRelease) : stepsOfCheckout(file, hasRelease)),
    installLine === null
      ? '  then, on a machine, the install line that the dashboard shows with each new key under Enrollment'
      : `  then, on a machine: ${installLine}`,
    ...(installLine !== null && LOOPBACK.test(installLine)
      ? [
          '  This line is for the machine of the server itself. For others, set PUBLIC_URL to an address they reach.',
        ]
      : []),
  ];
}

/** Whether this is the program of an image or of a package, and not a checkout that could build the agent. */
const IS_BUILT = import.meta.filename.endsWith('.js');

const stepsOfBuild = (hasRelease: boolean): string[] =>
  hasRelease
    ? []
    : [
        '  build the agent in a checkout of this release (npm run build:agent), copy its folder dist/agent here, and',
        '  muster releases add <that folder> --version 0.1.0',
      ];

function stepsOfCheckout(file: string | null, hasRelease: boolean): string[] {
  const muster =
    file === null ? 'npm run muster --' : `node --env-file=${file} src/run.mjs src/cli/muster.ts`;
  return [
    ...(hasRelease ? [] : ['  npm run build:agent', `  ${muster} releases add dist/agent --version 0.1.0`]),
    `  ${startCommand(file)}`,
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
    values['AUDIT_ADMIN_DATABASE_URL'] = withCredentials(
      databaseUrl,
      'svc_audit_admin',
      generate('AUDIT_ADMIN_DATABASE_URL'),
    );
  }
  if (redisUrl !== undefined) {
    values['REDIS_URL'] = await redisWithPassword(io, redisUrl, options.redisPasswordFile);
  }
  // A data folder with keys keeps them: another key could not open what they have sealed. If the database is created
  // now, its data folder gets keys too, and commands find them without the file.
  const hasOwn = isSetUp(options) || (await hasKeys(fileOf(io, dataDir ?? './data')));
  if (databaseUrl !== undefined || !hasOwn) {
    values['JWT_SECRET'] = generate('JWT_SECRET');
    values['SECRET_ENCRYPTION_KEY'] = generate('SECRET_ENCRYPTION_KEY');
  }
  values['METRICS_TOKEN'] = generate('METRICS_TOKEN');
  if (adminEmail !== undefined && !isSetUp(options)) {
    values['SVC_ADMIN_EMAIL'] = adminEmail;
    // Letters of both cases and a digit, which the password rules require.
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
  const { user, password } = credentialsOf(url);
  if (password !== '') throw passwordInUrl(hostsOf(url));
  return file === undefined ? url : withCredentials(url, user, await secretFrom(io, { file }));
}

async function redisWithPassword(io: CommandIo, url: string, file: string | undefined): Promise<string> {
  if (hasRedisPassword(url)) throw passwordInUrl(describeRedis(parseRedisUrl(url)));
  return file === undefined ? url : withRedisPassword(url, await secretFrom(io, { file }));
}

// Arguments are visible to every user of the machine in the list of processes, so the password is not repeated here
// either.
const passwordInUrl = (where: string) =>
  new Error(`Leave the password out of the URL of ${where}: it belongs into a file of its own.`);

/** The database work of `muster init`, with or without a running server. */

interface SetUpRequest extends TenantNames {
  adminEmail?: string | undefined;
  /** Absent: a password is generated and shown once. */
  adminPassword?: string | undefined;
}

interface SetUp extends FirstTenant {
  administrator: { email: string; isNew: boolean; password?: string };
  /** With the new key, for machines of the systems that have a release; a key is not shown again. */
  installLine: string | null;
  /** Whether the line works already. */
  hasRelease: boolean;
}

function setUp(io: CommandIo, request: SetUpRequest): Promise<SetUp> {
  return withInstallation(io, { migrates: true }, async ({ db, log, config }) => {
    const { admin, password } = await administrator(db, log, request);
    const tenant = await withSystem(db, 'create the first provider', (tx) =>
      createFirstTenant(tx, log, admin, request),
    );
    const hasRelease = (await listAllReleases(db)).some(
      ({ component, promoted }) => component === 'watchdog' && promoted,
    );
    const server = addressOf(config);
    return {
      administrator: {
        email: admin.email,
        isNew: password !== undefined,
        ...(password === undefined || request.adminPassword !== undefined ? {} : { password }),
      },
      ...tenant,
      hasRelease,
      installLine:
        tenant.key !== undefined
          ? `curl -fsSL '${server}/install.sh?key=${encodeURIComponent(tenant.key.value)}' | sudo sh`
          : null,
    };
  });
}

/** The public address of the server, or the one that it listens on. */
function addressOf({ publicUrl, host, port }: Pick<Config, 'publicUrl' | 'host' | 'port'>): string {
  if (publicUrl !== undefined) return publicUrl.replace(/\/+$/, '');
  // If it listens on all addresses, it is unknown which of them other machines can reach.
  const listensEverywhere = host === '0.0.0.0' || host === '::';
  const name = listensEverywhere ? 'localhost' : isIPv6(host) ? `[${host}]` : host;
  return `http://${name}:${port}`;
}

/** The administrator who is named, or the first one; a password only if the account is new. */
async function administrator(
  db: Db,
  log: Logger,
  { adminEmail, adminPassword }: SetUpRequest,
): Promise<{ admin: User; password?: string }> {
  const present = await listSystemAdmins(db);
  const known =
    adminEmail === undefined
      ? present[0]
      : present.find(({ email }) => addressKey(email) === addressKey(adminEmail));
  if (known !== undefined) return { admin: known };
  if (adminEmail === undefined) {
    throw new Error('There is no system administrator yet. Name the first one with --admin-email.');
  }
  // Letters of both cases and a digit, which the password rules require.
  const password = adminPassword ?? `${randomBytes(18).toString('base64url')}-aA1`;
  const fault = passwordFault(password);
  if (fault !== undefined) throw new Error(fault);
  const passwordHash = await hashPassword(password);
  const admin = await createSystemAdmin(
    db,
    { email: adminEmail, name: 'Administrator', passwordHash },
    (tx, { id, email }) =>
      recordAsOperator(tx, log, {
        action: 'user.create',
        resourceType: 'user',
        resourceId: id,
        resourceName: email,
        details: { by: 'operator' },
      }),
  );
  return { admin, password };
}
