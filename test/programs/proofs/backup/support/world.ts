import { randomUUID } from 'node:crypto';
import { chmod, mkdir, mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import jwt from 'jsonwebtoken';
import {
  clusterLocation,
  removeCluster,
  runningEmbeddedPostgres,
} from '../../../../../src/platform/db/embedded/index.ts';
import { type Db, openPool } from '../../../../../src/platform/db/pool.ts';
import { quietLog } from '../../../../support/quiet-log.ts';
import { createAccessTokens } from '../../../../../src/features/auth/authenticator.ts';
import { eventually } from '../../../../support/eventually.ts';
import { buildTenant, giveSecondFactor, type Ground } from '../../../../support/factories.ts';
import { lastingPort } from '../../../../support/lasting-port.ts';
import { killProgram } from '../../../../support/program.ts';
import { startServerProcess, type StartedServer } from '../../../../support/started-server.ts';
import { type Answer, call } from '../../../../support/test-app.ts';
import { createTestDatabase, type TestDatabase } from '../../../../support/test-postgres.ts';
import { type ProofDevice, proofDevice } from './device.ts';

/**
 * A server as it is started in earnest, with devices whose agents are processes of their own, and nothing between the
 * test and them but REST. Everything in it can be killed and started again.
 */

export const JWT_SECRET = 'a-secret-that-only-tests-sign-with';
export const SERVER_KEY = 'a-key-that-only-tests-seal-secrets-with';

export interface WorldOptions {
  /** `embedded`: the server runs its own Postgres, which can be killed too. Default: that of the test run. */
  postgres?: 'embedded' | 'shared';
  env?: Record<string, string>;
}

export interface World {
  url: string;
  dataDir: string;
  orgId: string;
  keyId: string;
  /** As `buildTenant` and others of the tests expect it. */
  ground: Ground & { url: string; dataDir: string };
  server(): StartedServer;
  /** The logs of all servers there have been. */
  serverOutput(): string;
  startServer(): Promise<void>;
  /** kill -9 */
  killServer(): Promise<void>;
  /** One after another, where several devices are under fire: a server is killed and started as one thing. */
  alone(work: () => Promise<void>): Promise<void>;
  /** kill -9 of the embedded Postgres. The server has to be started again. */
  killPostgres(): Promise<void>;
  pool(): Promise<Db>;
  /** An answer of the server, whatever it is. Throws where it cannot be reached. */
  send(method: string, where: string, body?: unknown): Promise<Answer>;
  /** The body; throws unless the status is one of success. Waits for a server that is being started again. */
  ask(method: string, where: string, body?: unknown): Promise<Answer['body']>;
  /** @param config  what its backup configuration has beside the usual */
  addDevice(config?: Record<string, unknown>): Promise<ProofDevice>;
  close(): Promise<void>;
}

export async function startWorld({ postgres = 'shared', env = {} }: WorldOptions = {}): Promise<World> {
  const dataDir = await mkdtemp(path.join(tmpdir(), 'muster-proof-'));
  // The unprivileged account that Postgres runs under, when we are root, must be able to pass.
  await chmod(dataDir, 0o711);
  const serverDir = path.join(dataDir, 'server');
  await mkdir(serverDir, { mode: 0o711 });
  const shared: TestDatabase | undefined = postgres === 'shared' ? await createTestDatabase() : undefined;
  const port = await lastingPort();
  const url = `http://127.0.0.1:${port}`;
  const devices: ProofDevice[] = [];
  const outputs: (() => string)[] = [];
  let server: StartedServer | undefined;
  let pool: { url: string; db: Db } | undefined;

  const startServer = async () => {
    server = await startServerProcess({
      ...(shared === undefined ? {} : { DATABASE_URL: shared.ownerUrl, DATABASE_URL_APP: shared.appUrl }),
      JWT_SECRET,
      SECRET_ENCRYPTION_KEY: SERVER_KEY,
      DATA_DIR: serverDir,
      PORT: String(port),
      AGENT_HEARTBEAT_SECONDS: '2',
      ...env,
    });
    outputs.push(server.output);
  };
  let restarting: Promise<void> = Promise.resolve();
  const alone = (work: () => Promise<void>): Promise<void> => {
    const done = restarting.then(work);
    restarting = done.catch(() => {});
    return done;
  };
  const killServer = async () => {
    if (server !== undefined) await killProgram(server);
  };
  const ownerUrl = async () =>
    shared?.ownerUrl ?? (await runningEmbeddedPostgres(serverDir))?.ownerUrl ?? 'postgres://127.0.0.1:1/none';
  const openedPool = async () => {
    const now = await ownerUrl();
    if (pool?.url !== now) {
      await pool?.db.destroy();
      pool = { url: now, db: openPool(now, { max: 2, name: 'proof' }) };
    }
    return pool.db;
  };
  const close = async () => {
    for (const device of devices) await device.close();
    await pool?.db.destroy();
    await killServer();
    if (shared === undefined) await removeCluster({ dataDir: serverDir, log: quietLog });
    await shared?.drop();
    await rm(dataDir, { recursive: true, force: true, maxRetries: 5 });
  };

  try {
    await startServer();
    const ground = {
      call: (method: string, where: string, options = {}) => call(`${url}/api/v1${where}`, method, options),
      log: [],
      jwtSecret: JWT_SECRET,
      server: { database: { pool: await openedPool() } },
      url,
      dataDir: serverDir,
    };
    const { admin, orgId } = await buildTenant(ground);
    await giveSecondFactor(ground, admin);
    const sendOnce = (method: string, where: string, body: unknown, key: string) =>
      ground.call(method, where, {
        token: renewed(admin.token),
        signal: AbortSignal.timeout(60_000),
        ...(body === undefined ? {} : { body }),
        ...(method === 'POST' ? { headers: { 'idempotency-key': key } } : {}),
      });
    const send: World['send'] = (method, where, body) => sendOnce(method, where, body, randomUUID());
    const ask: World['ask'] = async (method, where, body) => {
      // Sent again where the answer was lost, it is not done twice.
      const key = randomUUID();
      const { status, body: answer } = await eventually(
        () => sendOnce(method, where, body, key).catch(() => ({ status: 0, body: undefined })),
        ({ status }) => status !== 0 && status < 500 && status !== 429,
        120_000,
      );
      if (status >= 300) throw new Error(`${method} ${where}: ${status} ${JSON.stringify(answer)}`);
      return answer;
    };
    const key = await ask('POST', '/backup/encryption/keys', { orgId, name: 'Main' });
    return {
      url,
      dataDir,
      orgId,
      keyId: key.id,
      ground,
      server() {
        if (server === undefined) throw new Error('there is no server');
        return server;
      },
      serverOutput: () => outputs.map((output) => output()).join(''),
      startServer,
      killServer,
      alone,
      async killPostgres() {
        const file = path.join(await clusterLocation(serverDir), 'postmaster.pid');
        // While it is being written it is empty, and 0 would be all processes of this group.
        const pid = await eventually(
          async () => Number((await readFile(file, 'utf8')).split('\n')[0]),
          (found) => found > 1,
          60_000,
        );
        process.kill(pid, 'SIGKILL');
      },
      pool: openedPool,
      send,
      ask,
      async addDevice(config = {}) {
        const device = await proofDevice({ ground, orgId, url, ask, config, within: dataDir });
        devices.push(device);
        return device;
      },
      close,
    };
  } catch (error) {
    await close();
    throw error;
  }
}

/** Access tokens last 15 minutes; their session is what counts. */
function renewed(token: string): string {
  const claims = jwt.decode(token, { json: true });
  if (claims === null || typeof claims.sub !== 'string') throw new Error('not a token');
  const { sub: userId, sid: sessionId, scope, roleId, partnerId = null, orgId = null } = claims;
  return createAccessTokens(JWT_SECRET).issue({
    userId,
    sessionId,
    scope,
    roleId,
    partnerId,
    orgId,
    mfa: true,
  });
}
