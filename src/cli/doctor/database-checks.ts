import { clock } from '../../../clock.ts';
import { SEALED_COLUMNS } from '../../../features/sealed-columns.ts';
import { auditState, SigningKeys } from '../../../features/audit/index.ts';
import { migrationState } from '../../../platform/db/migrations/migrations.ts';
import type { Db } from '../../../platform/db/pool.ts';
import { assertSafeRole, UnsafeDatabaseError } from '../../../platform/db/roles.ts';
import { queueState } from '../../../platform/jobs/queue-state.ts';
import { openSome } from '../../../platform/secrets/reseal.ts';
import { createSealer, SealBrokenError } from '../../../platform/secrets/sealed.ts';
import { startFailureText } from '../../../start-failure.ts';
import type { InstallationAccess } from '../../with-installation.ts';
import { type Check, failed, type Finding, ok, warning } from '../check.ts';

const OLDEST_POSTGRES = 15;
/** Tokens, leases and schedules compare times of the server with times of the database. */
const CLOCK_WARNS_MS = 1000;
const CLOCK_FAILS_MS = 30_000;
const JOBS_LATE_SECONDS = 600;
const SEALING_LATE_SECONDS = 60;

export const databaseChecks = (db: Db, access: InstallationAccess) =>
  ({
    reach: { name: 'database', run: () => reach(db) },
    isolation: { name: 'isolation', run: () => isolation(db) },
    migrations: { name: 'migrations', run: () => migrations(db, access.config.autoMigrate) },
    clock: { name: 'clock', run: () => clockDifference(db) },
    keys: { name: 'keys', run: () => keys(db, access) },
    jobs: { name: 'jobs', run: () => jobs(db) },
    audit: { name: 'audit trail', run: () => audit(db, access) },
  }) satisfies Record<string, Check>;

async function reach(db: Db): Promise<Finding> {
  const since = clock.monotonic();
  let version: string;
  try {
    const { rows } = await db.raw(`select current_setting('server_version') as version`);
    version = String(rows[0]?.version);
  } catch (error) {
    return failed(
      startFailureText(error),
      'Start the database, and check DATABASE_URL and the passwords of its roles.',
    );
  }
  const ms = Math.round(clock.monotonic() - since);
  if (Number.parseInt(version, 10) < OLDEST_POSTGRES) {
    return failed(`It is Postgres ${version}.`, `Upgrade it to Postgres ${OLDEST_POSTGRES} or newer.`);
  }
  return ok(`Postgres ${version} answers in ${ms} ms.`);
}

/** The checks of the server's own start. */
async function isolation(db: Db): Promise<Finding> {
  try {
    await assertSafeRole(db);
    return ok('The serving role cannot see across tenants, and every table is protected.');
  } catch (error) {
    if (!(error instanceof UnsafeDatabaseError)) throw error;
    return failed(
      'The database is not safe to serve from, so a server refuses to start.',
      'Serve as the role svc_app, which migrations create, and correct what the lines name.',
      error.faults,
    );
  }
}

async function migrations(db: Db, autoMigrate: boolean): Promise<Finding> {
  const { pending, edited, newer } = await migrationState(db);
  if (edited.length > 0) {
    return failed(
      'Migrations were changed or removed after they had been applied.',
      'Restore the files as they were released.',
      edited,
    );
  }
  if (pending.length > 0) {
    const message = `${pending.length} migrations are not applied yet, up to ${pending.at(-1)}.`;
    return autoMigrate
      ? warning(message, 'The next start of a server applies them; `muster upgrade check` describes them.')
      : failed(message, 'Apply them with: npx knex migrate:latest');
  }
  if (newer.length > 0) {
    return warning(
      `A later release has migrated the database, up to ${newer.at(-1)}; this one runs on it as well.`,
      'Run the later release where you have not rolled back on purpose.',
    );
  }
  return ok('All are applied and unchanged.');
}

async function clockDifference(db: Db): Promise<Finding> {
  const before = clock.now();
  const { rows } = await db.raw('select extract(epoch from clock_timestamp())::float8 * 1000 as now');
  const roundTrip = clock.now() - before;
  const difference = Math.round(Number(rows[0]?.now) - (before + roundTrip / 2));
  const message = `The clocks of this machine and of the database differ by ${Math.abs(difference)} ms.`;
  const fix = 'Synchronize both machines with NTP.';
  if (Math.abs(difference) >= CLOCK_FAILS_MS) return failed(message, fix);
  if (Math.abs(difference) >= Math.max(CLOCK_WARNS_MS, roundTrip)) return warning(message, fix);
  return ok(message);
}

async function keys(db: Db, { secretKeys }: InstallationAccess): Promise<Finding> {
  const sealer = createSealer(secretKeys);
  const broken: string[] = [];
  let opened = 0;
  let stale = 0;
  for (const column of SEALED_COLUMNS) {
    try {
      const some = await openSome(db, sealer, column);
      opened += some.opened;
      stale += some.stale;
    } catch (error) {
      if (!(error instanceof SealBrokenError)) throw error;
      broken.push(error.message);
    }
  }
  if (broken.length > 0) {
    return failed(
      'Secrets in the database do not open with the keys of this installation.',
      'Set SECRET_ENCRYPTION_KEY to the key that they were sealed with, or name it in SECRET_ENCRYPTION_KEYS_OLD.',
      broken,
    );
  }
  if (stale > 0) {
    return warning(
      'Secrets are still sealed with an old key.',
      'Run `npm run rotate-secrets`, and then remove it from SECRET_ENCRYPTION_KEYS_OLD.',
    );
  }
  return ok(
    opened === 0
      ? 'There are no secrets to open yet.'
      : `SECRET_ENCRYPTION_KEY opens the secrets (${opened} tried).`,
  );
}

async function jobs(db: Db): Promise<Finding> {
  const { waiting, lateSeconds, lost, failedToday } = await queueState(db);
  const failures = failedToday.map(({ name, count }) => `${name}: ${count} failed in the last day`);
  if (lateSeconds > JOBS_LATE_SECONDS) {
    return failed(
      `${waiting} jobs wait, the first one for ${Math.round(lateSeconds / 60)} minutes.`,
      'Start a server, or look into its log for what holds its jobs up.',
      failures,
    );
  }
  if (lost > 0) {
    return {
      ...warning(
        `${lost} jobs belong to a server that is gone.`,
        'A running server takes them over within a minute.',
      ),
      details: failures,
    };
  }
  if (failures.length > 0) {
    return {
      ...warning('Background jobs have failed.', 'Look for `job.failed` in the log of the servers.'),
      details: failures,
    };
  }
  return ok(`${waiting} jobs wait, and none is late.`);
}

async function audit(db: Db, { secretKeys }: InstallationAccess): Promise<Finding> {
  const { chains, waiting, waitingSeconds, faults } = await auditState(
    db,
    new SigningKeys(createSealer(secretKeys)),
  );
  if (faults.length > 0) {
    return failed(
      'The end of a chain is not what was signed: entries were changed or removed.',
      'Run `muster audit verify`, which names the first wrong entry of each chain.',
      faults,
    );
  }
  if (waitingSeconds > SEALING_LATE_SECONDS) {
    return warning(
      `${waiting} entries wait to be sealed, the first one since ${Math.round(waitingSeconds / 60)} minutes.`,
      'Start a server, or look for `audit.` in its log.',
    );
  }
  return ok(`The signed ends of ${chains} chains hold. \`muster audit verify\` verifies every entry.`);
}
