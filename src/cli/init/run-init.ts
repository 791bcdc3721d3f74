import { randomBytes } from 'node:crypto';
import { access } from 'node:fs/promises';
import path from 'node:path';
import { createInterface } from 'node:readline/promises';
import { environmentText, readConfig } from '../../config.ts';
import { ENCRYPTION_KEY_FILE } from '../../database-and-secrets.ts';
import { writeEnvironmentFile } from '../environment-file.ts';
import { type CommandIo, fileOf } from '../io.ts';
import { secretFrom } from '../secret-input.ts';

export interface InitOptions {
  publicUrl?: string;
  databaseUrl?: string;
  databasePasswordFile?: string;
  redisUrl?: string;
  redisPasswordFile?: string;
  dataDir?: string;
  adminEmail?: string;
  force?: true;
  json?: true;
}

export async function runInit(io: CommandIo, file: string, options: InitOptions): Promise<void> {
  const { json, force, ...given } = options;
  const answers = Object.keys(given).length > 0 || io.stdin.isTTY !== true ? given : await ask(io);
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
  await writeEnvironmentFile(fileOf(io, file), text, { force: force === true });
  if (json === true) {
    io.stdout.write(`${JSON.stringify({ ok: true, file, set: Object.keys(values), generated })}\n`);
    return;
  }
  const lines = [
    `${file} sets ${Object.keys(values).join(', ')}.`,
    `Generated: ${generated.length === 0 ? 'nothing, since the data folder has its keys' : generated.join(', ')}.`,
    `Start the server with it: node --env-file=${file} src/run.mjs src/main.ts, or as docs/production.md describes.`,
  ];
  io.stdout.write(`${lines.join('\n')}\n`);
}

const QUESTIONS = [
  ['publicUrl', 'Address under which people reach the server, such as https://rmm.example.com (empty: none)'],
  ['databaseUrl', 'Owner of an external database, without a password (empty: Muster runs its own Postgres)'],
  ['databasePasswordFile', 'File with the password of that owner (empty: none)'],
  ['redisUrl', 'Redis for several servers (empty: this server runs alone)'],
  ['dataDir', 'Data folder (empty: ./data)'],
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
  if (databaseUrl !== undefined || !(await hasKeys(fileOf(io, dataDir ?? './data')))) {
    values['JWT_SECRET'] = generate('JWT_SECRET');
    values['SECRET_ENCRYPTION_KEY'] = generate('SECRET_ENCRYPTION_KEY');
  }
  values['METRICS_TOKEN'] = generate('METRICS_TOKEN');
  if (adminEmail !== undefined) {
    values['SVC_ADMIN_EMAIL'] = adminEmail;
    // Letters of both kinds and a digit, which the rules for passwords ask for.
    values['SVC_ADMIN_PASSWORD'] = `${generate('SVC_ADMIN_PASSWORD')}-aA1`;
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
