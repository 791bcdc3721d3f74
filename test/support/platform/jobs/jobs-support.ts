import { createJobs, type JobsOptions, type RunningJobs } from '../../../../src/platform/jobs/jobs.ts';
import { openPool, type Db } from '../../../../src/platform/db/pool.ts';
import { createMetrics, type Metrics } from '../../../../src/platform/metrics.ts';
import { createEncryptor } from '../../../../src/platform/secrets/sealed.ts';
import { recordingLog } from '../../quiet-log.ts';
import { asOwner, createTestDatabase, type TestDatabase } from '../../test-postgres.ts';

export const SECRET_KEYS = { current: 'a-key-that-only-tests-seal-secrets-with', old: [] };

/** Without the patience of a real server. */
export const FAST = { pollMs: 20, leaseMs: 1500, graceMs: 100, closeMs: 3000 };

export interface TestServer extends RunningJobs {
  db: Db;
  lines: Record<string, unknown>[];
  metrics: Metrics;
  stop(): Promise<void>;
}

/** One database, and any number of servers that work on its jobs. */
export async function createJobsBench() {
  const database: TestDatabase = await createTestDatabase();
  const servers: TestServer[] = [];
  const owner = <Row extends object>(sql: string, values?: unknown[]) =>
    asOwner<Row & Record<string, unknown>>(database.ownerUrl, sql, values);
  return {
    database,
    owner,
    server(timing: JobsOptions['timing'] = {}, url = database.appUrl): TestServer {
      const db = openPool(url, { max: 3, name: 'test-jobs', acquireMs: 1000 });
      const { log, lines } = recordingLog();
      const metrics = createMetrics();
      const jobs = createJobs({
        db,
        encryptor: createEncryptor(SECRET_KEYS),
        log,
        metrics,
        timing: { ...FAST, ...timing },
      });
      let stopped: Promise<void> | undefined;
      const stop = async () => {
        await jobs.close();
        await db.destroy();
      };
      const server = { ...jobs, db, lines, metrics, stop: () => (stopped ??= stop()) };
      servers.push(server);
      return server;
    },
    /** The rows of jobs, oldest first. */
    rows: () =>
      owner<{ id: string; name: string; state: string; attempt: number; error: string | null }>(
        'select * from background_jobs order by id',
      ),
    async drop() {
      await Promise.all(servers.map((server) => server.stop()));
      await database.drop();
    },
  };
}
export type JobsBench = Awaited<ReturnType<typeof createJobsBench>>;
