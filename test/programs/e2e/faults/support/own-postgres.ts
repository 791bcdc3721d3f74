import { chmod, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { startEmbeddedPostgres } from '../../../../../src/platform/db/embedded/index.ts';
import { quietLog } from '../../../../support/quiet-log.ts';
import { startTcpProxy } from '../../../../support/tcp-proxy.ts';

/** A Postgres that no other test uses, so that it can be stopped; under one address, whichever port it has. */
export interface OwnPostgres {
  ownerUrl: string;
  appUrl: string;
  stop(): Promise<void>;
  start(): Promise<void>;
  remove(): Promise<void>;
}

export async function startOwnPostgres(): Promise<OwnPostgres> {
  const dataDir = await mkdtemp(path.join(tmpdir(), 'muster-faults-pg-'));
  // The unprivileged account that Postgres runs under, when we are root, must be able to pass.
  await chmod(dataDir, 0o711);
  const run = () => startEmbeddedPostgres({ dataDir, log: quietLog, durable: false });
  let postgres = await run();
  const behind = { host: postgres.host, port: postgres.port };
  const proxy = await startTcpProxy(behind);
  const through = (user: string, password: string) =>
    `postgres://${user}:${password}@127.0.0.1:${proxy.port}/${postgres.database}`;
  return {
    ownerUrl: through(postgres.user, postgres.password),
    appUrl: through('svc_app', 'only-for-tests'),
    stop: () => postgres.stop(),
    async start() {
      postgres = await run();
      behind.port = postgres.port;
    },
    async remove() {
      await proxy.cut();
      await postgres.stop();
      await rm(dataDir, { recursive: true, force: true });
    },
  };
}
