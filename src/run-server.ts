import { clock } from './clock.ts';
import type { Config } from './config.ts';
import { resolveDatabaseAndSecrets } from './database-and-secrets.ts';
import { startEmbeddedPostgres, type EmbeddedPostgres } from './platform/db/embedded/index.ts';
import type { Logger } from './platform/logger.ts';
import { startServer, type Server } from './server.ts';
import { openDashboard, type Dashboard } from './server/dashboard.ts';

export interface RunningServer extends Server {
  embedded: EmbeddedPostgres | undefined;
  dashboard: Dashboard;
  /**
   * SIGINT and SIGTERM close everything in order; a second signal, or a close that takes too long, ends the process at
   * once. An uncaught error closes in order too, with exit code 1.
   */
  closeOnSignals(before?: () => Promise<void>): void;
}

export interface RunOptions {
  config: Config;
  log: Logger;
  /** Called after each step with its duration. */
  onStep?: (step: string, ms: number) => void;
}

const FORCE_AFTER_MS = 25_000;

/**
 * Starts the server, and the embedded Postgres unless a database is configured. A dashboard that is not built yet is
 * built meanwhile, and nothing waits for it.
 */
export async function runServer({ config, log, onStep = () => {} }: RunOptions): Promise<RunningServer> {
  let since = clock.monotonic();
  const step = (name: string) => {
    onStep(name, Math.round(clock.monotonic() - since));
    since = clock.monotonic();
  };
  const dashboard = openDashboard({ log });
  let embedded: EmbeddedPostgres | undefined;
  try {
    if (config.database.kind === 'embedded') {
      embedded = await startEmbeddedPostgres({ dataDir: config.dataDir, log });
      step(`Postgres (embedded${embedded.adopted ? ', adopted' : ''})`);
    }
    const access = await resolveDatabaseAndSecrets(config, embedded);
    const server = await startServer({ config, ...access, log, dashboard });
    step('Server: migrations, hub and REST');
    const close = async () => {
      await dashboard.stop();
      await server.close();
      await embedded?.stop();
    };
    return {
      ...server,
      embedded,
      dashboard,
      close,
      closeOnSignals: (before) => closeOnSignals(log, before, close),
    };
  } catch (error) {
    await dashboard.stop();
    await embedded?.stop();
    throw error;
  }
}

function closeOnSignals(
  log: Logger,
  before: (() => Promise<void>) | undefined,
  close: () => Promise<void>,
): void {
  let closing = false;
  let exitCode = 0;
  const end = () => {
    closing = true;
    clock
      .setTimeout(() => {
        log.error({}, 'server.close_took_too_long');
        process.exit(1);
      }, FORCE_AFTER_MS)
      .unref();
    Promise.resolve(before?.())
      .then(close)
      .then(
        () => process.exit(exitCode),
        (error: unknown) => {
          log.error({ err: error }, 'server.close_failed');
          process.exit(1);
        },
      );
  };
  const onSignal = (signal: NodeJS.Signals) => {
    if (closing) {
      log.warn({ signal }, 'server.forced');
      process.exit(130);
    }
    log.info({ signal }, 'server.closing');
    end();
  };
  process.on('SIGINT', onSignal);
  process.on('SIGTERM', onSignal);
  // The state of the process is unknown: it closes in order and exits, and its supervisor starts a new one.
  const onFault = (error: unknown) => {
    exitCode = 1;
    log.fatal({ err: error }, 'server.fault');
    if (!closing) end();
  };
  process.on('uncaughtException', onFault);
  process.on('unhandledRejection', onFault);
}
