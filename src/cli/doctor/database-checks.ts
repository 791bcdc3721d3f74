import { commitSettings, databaseNow, serverVersion } from '../installation.queries.ts';
import { clock, DAY_MS } from '../../clock.ts';
import { serversOf } from '../../database-url.ts';
import { SEALED_COLUMNS } from '../../features/sealed-columns.ts';
import { auditState, SigningKeys, lastVerifications, lastOperatorEntry } from '../../features/audit/index.ts';
import { migrationState } from '../../platform/db/migrations.ts';
import type { Db } from '../../platform/db/pool.ts';
import { assertSafeRole, UnsafeDatabaseError } from '../../platform/db/roles.ts';
import { queueState } from '../../platform/jobs/job.queries.ts';
import { openSome } from '../../platform/secrets/reseal.ts';
import { createEncryptor, SealBrokenError } from '../../platform/secrets/sealed.ts';
import { startFailureText } from '../../start-failure.ts';
import type { InstallationAccess } from '../with-installation.ts';
import { type Check, failed, type Finding, ok, warning, skipped } from './check.ts';
import { agentVersions } from '../../features/devices/index.ts';
import { listAllReleases } from '../../features/releases/operator.ts';
import { compareVersions, parseVersion } from '../../platform/semver.ts';

const MS_PER_DAY = 86_400_000;
const BACKUP_WARNS_DAYS = 7;

/** When `muster backup` last ran. Backups by other means are unknown here. */
export const backupCheck = (db: Db): Check => ({
  name: 'last backup',
  async run() {
    const fix = 'Run `muster backup` every day, and keep its file on another machine.';
    const at = await lastOperatorEntry(db, 'installation.backup');
    if (at === undefined) return warning('`muster backup` has never written one.', fix);
    const days = Math.floor((clock.now() - at.getTime()) / MS_PER_DAY);
    const message = `The last backup of this installation was written at ${at.toISOString()}.`;
    return days >= BACKUP_WARNS_DAYS ? warning(message, fix) : ok(message);
  },
});

const WARNS_DAYS = 35;
const SHOWN = 20;

/** When every entry of the audit trail was last verified, and with which outcome. */
export const verificationCheck = (db: Db): Check => ({
  name: 'audit verification',
  async run() {
    const { whole, laterFaults } = await lastVerifications(db);
    const found = whole?.isIntact === false ? whole.faults.map((fault) => ({ at: whole.at, ...fault })) : [];
    const faults = [...found, ...laterFaults];
    if (whole?.isIntact === false || faults.length > 0) {
      const at = faults.reduce(
        (newest, fault) => (fault.at > newest ? fault.at : newest),
        whole?.at ?? new Date(0),
      );
      return failed(
        `The last verification of the audit trail found a chain that is not intact (${at.toISOString()}).`,
        'Keep the database and its backups as they are, find out who changed it, and run `muster audit verify` again after it was restored.',
        faults
          .slice(0, SHOWN)
          .map(
            ({ chainId, seq, reason }) =>
              `chain ${chainId}${seq === null ? '' : `, entry ${seq}`}: ${reason}`,
          ),
      );
    }
    const fix = 'Run `muster audit verify` every month, for example as a timer of the machine.';
    if (whole === undefined) return warning('All chains together were never verified.', fix);
    const message = `All ${whole.chains} chains were intact when they were verified at ${whole.at.toISOString()}.`;
    return clock.now() - whole.at.getTime() >= WARNS_DAYS * DAY_MS ? warning(message, fix) : ok(message);
  },
});

/** Which agents are in use, and how many of them are behind what is promoted for their platform. */
export const agentChecks = (db: Db): Check[] => [{ name: 'agents', run: () => agents(db) }];

const VERSIONS_MAX = 10;

async function agents(db: Db): Promise<Finding> {
  const inUse = await agentVersions(db);
  const total = inUse.reduce((sum, { devices }) => sum + devices, 0);
  if (total === 0) return skipped('No device is enrolled yet.');
  const promoted = new Map(
    (await listAllReleases(db))
      .filter((release) => release.promoted && release.component === 'agent')
      .map(({ os, architecture, version }) => [`${os} ${architecture}`, version]),
  );
  const byVersion = new Map<string, number>();
  let behind = 0;
  for (const { version, os, architecture, devices } of inUse) {
    byVersion.set(version, (byVersion.get(version) ?? 0) + devices);
    if (isBehind(version, promoted.get(`${os} ${architecture}`))) behind += devices;
  }
  const listed = [...byVersion].sort(([, one], [, other]) => other - one);
  const pending = inUse.reduce((sum, each) => sum + each.pending, 0);
  const details = listed
    .slice(0, VERSIONS_MAX)
    .map(([version, devices]) => `${version}: ${counted(devices)}`);
  if (listed.length > VERSIONS_MAX) details.push(`and ${listed.length - VERSIONS_MAX} more versions`);
  if (pending > 0) {
    details.push(`${pending} of these devices wait for approval, which is given in the list of devices`);
  }
  if (promoted.size === 0) {
    return { ...ok(`${counted(total)} enrolled. No release of the agent is promoted.`), details };
  }
  if (behind === 0) {
    return { ...ok(`${counted(total)} enrolled, none behind the promoted release.`), details };
  }
  return {
    ...warning(
      `${behind} of ${total} devices are behind the promoted release.`,
      'They upgrade as their update policies allow; the upgrades page of the dashboard says what each one waits for.',
    ),
    details,
  };
}

const counted = (devices: number): string => (devices === 1 ? '1 device' : `${devices} devices`);

function isBehind(version: string, promoted: string | undefined): boolean {
  const [has, wanted] = [parseVersion(version), parseVersion(promoted ?? '')];
  // Versions that cannot be parsed were built manually.
  return has !== undefined && wanted !== undefined && compareVersions(has, wanted) < 0;
}

/** Whether what was acknowledged outlives a failover. Standbys behind one address are not known here. */
export const failoverCheck = (db: Db, databaseUrl: string): Check => ({
  name: 'failover',
  async run() {
    const servers = serversOf(databaseUrl).length;
    const { standbys, commit } = await commitSettings(db);
    const isConfirmed = standbys.trim() !== '' && !['off', 'local'].includes(commit);
    if (isConfirmed) return ok(`Commits wait for a standby (synchronous_standby_names = ${standbys}).`);
    if (servers === 1) return skipped('DATABASE_URL names one server, and commits wait for no standby.');
    const why =
      standbys.trim() === '' ? 'synchronous_standby_names is empty' : `synchronous_commit is ${commit}`;
    return warning(
      `DATABASE_URL names ${servers} servers, and commits wait for no standby: ${why}. A failover may lose what was acknowledged just before it.`,
      "On the primary, set synchronous_standby_names, such as 'ANY 1 (one, two)', and synchronous_commit to on.",
    );
  },
});

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
    version = await serverVersion(db);
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

/** The same checks that the server runs at its start. */
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
      'Run the later release unless you have rolled back on purpose.',
    );
  }
  return ok('All are applied and unchanged.');
}

async function clockDifference(db: Db): Promise<Finding> {
  const before = clock.now();
  const now = await databaseNow(db);
  const roundTrip = clock.now() - before;
  const difference = Math.round(now - (before + roundTrip / 2));
  const message = `The clocks of this machine and of the database differ by ${Math.abs(difference)} ms.`;
  const fix = 'Synchronize both machines with NTP.';
  if (Math.abs(difference) >= CLOCK_FAILS_MS) return failed(message, fix);
  if (Math.abs(difference) >= Math.max(CLOCK_WARNS_MS, roundTrip)) return warning(message, fix);
  return ok(message);
}

async function keys(db: Db, { secretKeys }: InstallationAccess): Promise<Finding> {
  const encryptor = createEncryptor(secretKeys);
  const broken: string[] = [];
  let opened = 0;
  let stale = 0;
  for (const column of SEALED_COLUMNS) {
    try {
      const some = await openSome(db, encryptor, column);
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
    new SigningKeys(createEncryptor(secretKeys)),
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
