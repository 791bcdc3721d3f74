import { VERSION } from '../api-info.ts';
import { ConfigError, OLDER_NAMES, setVariables } from '../config.ts';
import { openAppPool } from '../platform/db/database.ts';
import { migrationNotes, migrationState } from '../platform/db/migrations.ts';
import type { Db } from '../platform/db/pool.ts';
import { startFailureText } from '../start-failure.ts';
import {
  type Check,
  failed,
  type Finding,
  ok,
  runCheck,
  skipped,
  warning,
  isSound,
  reportText,
} from './doctor/check.ts';
import { backupCheck } from './doctor/database-checks.ts';
import type { CommandIo } from './io.ts';
import { configOf, hasDatabase, withAccess } from './with-installation.ts';

export async function runUpgradeCheck(io: CommandIo, { json }: { json?: true }): Promise<number> {
  const beside: Check[] = [
    { name: 'release', run: async () => release() },
    { name: 'node', run: async () => nodeVersion(process.versions.node) },
    { name: 'configuration', run: async () => configuration(io) },
  ];
  const results = [
    ...(await Promise.all(beside.map((check) => runCheck(check)))),
    ...(await throughDatabase(io, (db) =>
      Promise.all([...schemaChecks(db), backupCheck(db)].map((check) => runCheck(check))),
    )),
  ];
  const sound = isSound(results);
  io.stdout.write(
    json === true
      ? `${JSON.stringify({ ok: sound, release: VERSION, checks: results })}\n`
      : `${reportText(results)}\n`,
  );
  return sound ? 0 : 1;
}

const release = (): Finding =>
  skipped(
    `This is release ${VERSION}. This command contacts no other server, so it does not check for a newer one.`,
  );

const OLDEST_NODE = [20, 19] as const;
/** The Node release with the longest remaining support when this was written. */
const ADVISED_NODE = 22;

export function nodeVersion(version: string): Finding {
  const [major = 0, minor = 0] = version.split('.').map(Number);
  if (major < OLDEST_NODE[0] || (major === OLDEST_NODE[0] && minor < OLDEST_NODE[1])) {
    return failed(`Node ${version} is too old.`, `Install Node ${OLDEST_NODE.join('.')} or newer.`);
  }
  return major < ADVISED_NODE
    ? warning(
        `Node ${version} is supported, and near its end of life.`,
        `Plan the step to Node ${ADVISED_NODE}.`,
      )
    : ok(`Node ${version} is supported.`);
}

function configuration(io: CommandIo): Finding {
  try {
    configOf(io);
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    return failed('This release refuses the configuration.', 'Correct what the lines name.', error.faults);
  }
  const set = setVariables({ environment: io.env, folder: io.cwd });
  const older = Object.entries(OLDER_NAMES).filter(([name]) => name in set);
  if (older.length > 0) {
    return {
      ...warning(
        'Variables are set by an older name.',
        'Rename them when you next change the configuration.',
      ),
      details: older.map(([name, present]) => `${name} is ${present} now`),
    };
  }
  return ok('This release accepts the configuration.');
}

async function throughDatabase<T>(io: CommandIo, work: (db: Db) => Promise<T[]>) {
  const unavailable = async (found: Finding) => [
    await runCheck({ name: 'migrations', run: async () => found }),
  ];
  try {
    if (!(await hasDatabase(configOf(io)))) {
      return await unavailable(ok('There is no database yet; the first start creates it with this schema.'));
    }
    return await withAccess(io, async ({ database }) => {
      const db = openAppPool(database, { max: 2, name: 'muster-upgrade-check' });
      try {
        return await work(db);
      } finally {
        await db.destroy();
      }
    });
  } catch (error) {
    if (error instanceof ConfigError) return unavailable(skipped('The configuration is wrong.'));
    return unavailable(failed(startFailureText(error), 'Correct what the message names.'));
  }
}

const schemaChecks = (db: Db): Check[] => [
  { name: 'migrations', run: () => migrations(db) },
  { name: 'rolling back', run: () => rollingBack(db) },
];

async function migrations(db: Db): Promise<Finding> {
  const { pending, edited } = await migrationState(db);
  if (edited.length > 0) {
    return failed(
      'Migrations were changed or removed after they had been applied: this release does not start.',
      'Restore the files as they were released.',
      edited,
    );
  }
  if (pending.length === 0) return ok('The database has every migration of this release.');
  const details = (await migrationNotes(pending)).map(({ name, isOnline, locks }) => {
    if (isOnline) return `${name}: beside running servers, however long it takes`;
    if (locks.length === 0) return `${name}: locks nothing that is in use`;
    return `${name}: locks ${locks.join(', ')}, each for at most 300 ms at a time`;
  });
  return {
    ...warning(
      `The next start applies ${pending.length} migrations, while servers of the release before go on.`,
      'Take a backup first, and upgrade when few devices are busy.',
    ),
    details,
  };
}

async function rollingBack(db: Db): Promise<Finding> {
  const { pending, newer, edited } = await migrationState(db);
  if (edited.length > 0) return skipped('The database has other migrations than this release.');
  if (newer.length > 0) {
    return ok(
      `A later release has migrated the database up to ${newer.at(-1)}, and this one runs on it as well.`,
    );
  }
  const contracting = (await migrationNotes(pending)).filter(({ contracts }) => contracts);
  if (contracting.length > 0) {
    return {
      ...warning(
        'Afterwards only the release before this one can be started again: parts that older ones use are removed.',
        'Upgrade one release at a time, and keep the backup from before.',
      ),
      details: contracting.map(({ name }) => name),
    };
  }
  return ok('Afterwards the release before this one can be started again on the new schema.');
}
