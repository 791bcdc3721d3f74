import { readConfig } from './config.ts';
import { runServer } from './run-server.ts';
import { createLogger } from './platform/logger.ts';
import { sayWhyAndExit } from './start-failure.ts';

/** The server process: configuration, database, server, and an ordered end on SIGINT or SIGTERM. */
try {
  const config = readConfig();
  const log = createLogger(config.logLevel);
  const running = await runServer({ config, log });
  running.closeOnSignals();
} catch (error) {
  sayWhyAndExit(error);
}
