import { type Config, ConfigError } from '../../config.ts';
import { openAppPool } from '../../platform/db/database.ts';
import { createLogger } from '../../platform/logger.ts';
import { startFailureText } from '../../start-failure.ts';
import type { CommandIo } from '../io.ts';
import { configOf, hasDatabase, type InstallationAccess, withAccess } from '../with-installation.ts';
import {
  type Check,
  type CheckResult,
  failed,
  runCheck,
  skipped,
  warning,
  isSound,
  reportText,
} from './check.ts';
import {
  agentChecks,
  backupCheck,
  databaseChecks,
  failoverCheck,
  verificationCheck,
} from './database-checks.ts';
import { configurationFindings, diskChecks, engineCheck, mailCheck, redisCheck } from './local-checks.ts';
import { outsideChecks } from './outside-checks.ts';

export interface DoctorOptions {
  publicUrl?: string;
  sendMailTo?: string;
  /** False: skips the checks of the public address. */
  outside?: boolean;
}

export interface Diagnosis {
  ok: boolean;
  results: CheckResult[];
  text: string;
}

export async function runDoctor(io: CommandIo, options: DoctorOptions = {}): Promise<Diagnosis> {
  const results = await diagnose(io, options);
  return { ok: isSound(results), results, text: reportText(results) };
}

async function diagnose(io: CommandIo, options: DoctorOptions): Promise<CheckResult[]> {
  let config: Config;
  try {
    config = configOf(io);
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    return Promise.all(withoutConfiguration(error).map((check) => runCheck(check)));
  }
  const log = createLogger('silent');
  const beside = [
    configurationFindings(config),
    ...diskChecks(config),
    redisCheck(config),
    engineCheck(config),
    mailCheck(config, log, options.sendMailTo),
  ];
  const [sound, database] = await Promise.all([
    Promise.all(beside.map((check) => runCheck(check))),
    throughDatabase(io, config, options),
  ]);
  return [...sound.slice(0, 1), ...database, ...sound.slice(1)];
}

const withoutConfiguration = ({ faults }: ConfigError): Check[] => [
  {
    name: 'configuration',
    run: async () =>
      failed(
        `${faults.length === 1 ? 'A variable is' : `${faults.length} variables are`} wrong, so nothing else can be checked.`,
        'Correct what the lines name; .env.example describes every variable.',
        faults,
      ),
  },
];

/** All checks that need the database, or keys that may be stored beside it. */
async function throughDatabase(
  io: CommandIo,
  config: Config,
  options: DoctorOptions,
): Promise<CheckResult[]> {
  if (!(await hasDatabase(config))) {
    const missing: Check = {
      name: 'database',
      run: async () =>
        warning(`There is no database in ${config.dataDir} yet.`, 'Start the server once: it creates one.'),
    };
    return [await runCheck(missing)];
  }
  try {
    return await withAccess(io, (access) => throughAccess(access, options));
  } catch (error) {
    const unreachable: Check = {
      name: 'database',
      run: async () =>
        failed(`It cannot be opened: ${startFailureText(error)}`, 'Correct what the message names.'),
    };
    return [await runCheck(unreachable)];
  }
}

async function throughAccess(access: InstallationAccess, options: DoctorOptions): Promise<CheckResult[]> {
  const db = openAppPool(access.database, { max: 3, name: 'muster-doctor' });
  try {
    const { reach, ...checks } = databaseChecks(db, access);
    const reached = await runCheck(reach);
    const url = options.publicUrl ?? access.config.publicUrl;
    const outside = options.outside === false ? [] : outsideChecks({ url, access });
    const inside = [
      checks.isolation,
      checks.migrations,
      failoverCheck(db, access.database.appUrl),
      checks.clock,
      checks.keys,
      checks.jobs,
      checks.audit,
    ];
    const needing = [...inside, verificationCheck(db), backupCheck(db), ...agentChecks(db)];
    const isReached = reached.state !== 'failed';
    const rest = await Promise.all([
      ...needing.map((check) => runCheck(isReached ? check : { ...check, run: withoutDatabase })),
      ...outside.map((check) => runCheck(check)),
    ]);
    return [reached, ...rest];
  } finally {
    await db.destroy();
  }
}

const withoutDatabase = async () => skipped('The database is not reached.');
