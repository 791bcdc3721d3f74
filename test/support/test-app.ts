import { readConfig, type Config } from '../../src/config.ts';
import type { DashboardLimits } from '../../src/hub/dashboard/dashboard-limits.ts';
import type { SinglePage } from '../../src/platform/http/single-page.ts';
import type { Logger } from '../../src/platform/logger.ts';
import type { AdmissionLimits } from '../../src/hub/wire/admission.ts';
import { startServer, type Server } from '../../src/server.ts';
import type { ServerOptions } from '../../src/server/infrastructure.ts';
import { recordingLog } from './quiet-log.ts';
import { closeAtEnd } from './runner/at-end.ts';
import { mayStartPrograms } from './runner/rules.ts';
import { testClock } from './test-clock.ts';
import { asOwner, createTestDatabase, type TestDatabase } from './test-postgres.ts';

/** A whole server on a database of its own, reached as clients reach it. */
export interface TestApp {
  url: string;
  server: Server;
  database: TestDatabase;
  log: Record<string, unknown>[];
  /** What the server signs access tokens with. */
  jwtSecret: string;
  /** Calls the REST interface below /api/v1. */
  call(method: string, path: string, options?: CallOptions): Promise<Answer>;
  /** Does now what the server would do at the next of its timers (`Server.settle`). */
  settle(): Promise<void>;
  /**
   * Lets the timers of this process run for that long, without waiting. The server settles every other second, so that
   * what it asks the database is answered in time. The date stays: `now()` in SQL, which nothing moves, goes by it too.
   */
  advance(ms: number): Promise<void>;
  close(): Promise<void>;
}

export interface CallOptions {
  token?: string | undefined;
  body?: unknown;
  rawBody?: string;
  headers?: Record<string, string>;
  signal?: AbortSignal;
}

export interface Answer {
  status: number;
  headers: Headers;
  /** The parsed JSON; tests look into it as they please. */
  // oxlint-disable-next-line typescript/no-explicit-any -- an answer is whatever the server sent
  body: any;
}

export interface TestAppOptions {
  env?: Record<string, string>;
  database?: TestDatabase;
  log?: Logger;
  graceMs?: number;
  dashboardRecheckMs?: number;
  dashboardPatienceMs?: number;
  dashboardLimits?: Partial<DashboardLimits>;
  admission?: AdmissionLimits;
  liveFilters?: { devicesMax?: number; sweepMs?: number };
  undeliveredWorkMs?: number;
  alerts?: { everyMs: number; wholeEveryMs: number };
  webhooks?: ServerOptions['webhooks'];
  notifications?: ServerOptions['notifications'];
  outbound?: ServerOptions['outbound'];
  backupStore?: ServerOptions['backupStore'];
  dashboard?: SinglePage;
}

/** Devices have so long to come back after their connection has ended. */
export const DEFAULT_GRACE_MS = 300;
/** Shorter than any time after which the server gives the database up. */
const STEP_MS = 2000;

export const TEST_ENCRYPTION_KEY = 'a-key-that-only-tests-seal-secrets-with';
export const TEST_JWT_SECRET = 'a-secret-that-only-tests-sign-with';

/**
 * Recurring jobs go by the time of the database, which no test moves: at a full minute or hour of the real time they would
 * join what a test counts. A test that asks for one sets its `next_at`.
 */
export const NEVER_DUE = `
  create function never_due() returns trigger language plpgsql as $$ begin new.next_at := 'infinity'; return new; end $$;
  create trigger never_due before insert on job_schedules for each row execute function never_due()`;

export async function createTestApp(options: TestAppOptions = {}): Promise<TestApp> {
  const database = options.database ?? (await createTestDatabase());
  const recorded = recordingLog();
  const config: Config = {
    ...readConfig({
      environment: {
        PORT: '0',
        JWT_SECRET: TEST_JWT_SECRET,
        SECRET_ENCRYPTION_KEY: TEST_ENCRYPTION_KEY,
        ...(mayStartPrograms() ? {} : { BACKUP_ENGINE_PATH: '/nowhere' }),
        ...options.env,
      },
    }),
  };
  // A database of our own is a copy of one that is migrated.
  if (options.database === undefined) {
    config.autoMigrate = false;
    if (!mayStartPrograms()) await asOwner(database.ownerUrl, NEVER_DUE);
  }
  const {
    graceMs = DEFAULT_GRACE_MS,
    dashboardRecheckMs,
    dashboardPatienceMs,
    admission,
    liveFilters,
    alerts,
  } = options;
  const { dashboardLimits, undeliveredWorkMs, outbound, backupStore, dashboard, webhooks, notifications } =
    options;
  const server = await startServer({
    config,
    database,
    jwtSecret: config.jwtSecret ?? '',
    secretKeys: { current: config.encryptionKey ?? '', old: config.oldEncryptionKeys },
    log: options.log ?? recorded.log,
    hub: {
      graceMs,
      ...(dashboardRecheckMs === undefined ? {} : { dashboardRecheckMs }),
      ...(dashboardPatienceMs === undefined ? {} : { dashboardPatienceMs }),
      ...(dashboardLimits === undefined ? {} : { dashboardLimits }),
      ...(admission === undefined ? {} : { admission }),
      ...(liveFilters === undefined ? {} : { liveFilters }),
      ...(undeliveredWorkMs === undefined ? {} : { undeliveredWorkMs }),
    },
    ...(alerts === undefined ? {} : { alerts }),
    ...(webhooks === undefined ? {} : { webhooks }),
    ...(notifications === undefined ? {} : { notifications }),
    ...(outbound === undefined ? {} : { outbound }),
    ...(backupStore === undefined ? {} : { backupStore }),
    ...(dashboard === undefined ? {} : { dashboard }),
  });
  return {
    url: server.url,
    server,
    database,
    log: recorded.lines,
    jwtSecret: config.jwtSecret ?? '',
    call: (method, path, request) => call(`${server.url}/api/v1${path}`, method, request),
    settle: () => server.settle(),
    async advance(ms) {
      for (let left = ms; left > 0; left -= STEP_MS) {
        const stepMs = Math.min(left, STEP_MS);
        await testClock.advance(stepMs);
        testClock.jump(-stepMs);
        await server.settle();
      }
    },
    async close() {
      await server.close();
      if (options.database === undefined) await database.drop();
    },
  };
}

const shared = new Map<string, Promise<TestApp>>();

/**
 * The server of this test process with these settings, on one database: a start costs a third of a second of both. A file
 * takes it where it makes a tenant of its own, and looks at nothing that other tenants have a part in, such as the lists
 * of a system administrator, counts of a table, or limits by address. `log` begins empty, and `close` leaves it running.
 */
export async function sharedTestApp(env: Record<string, string> = {}): Promise<TestApp> {
  const key = JSON.stringify(env);
  let known = shared.get(key);
  if (known === undefined) {
    known = createTestApp({ env });
    shared.set(key, known);
    closeAtEnd(async () => {
      shared.delete(key);
      await (await known)?.close();
    });
  }
  const app = await known;
  app.log.length = 0;
  return { ...app, close: () => Promise.resolve() };
}

export async function call(url: string, method: string, options: CallOptions = {}): Promise<Answer> {
  const { token, body, rawBody, headers = {}, signal } = options;
  const hasBody = body !== undefined || rawBody !== undefined;
  const response = await fetch(url, {
    method,
    headers: {
      ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
      ...(hasBody ? { 'content-type': 'application/json' } : {}),
      ...headers,
    },
    ...(hasBody ? { body: rawBody ?? JSON.stringify(body) } : {}),
    ...(signal === undefined ? {} : { signal }),
  });
  const text = await response.text();
  const isJson = response.headers.get('content-type')?.includes('json') === true;
  return { status: response.status, headers: response.headers, body: isJson ? JSON.parse(text) : text };
}
