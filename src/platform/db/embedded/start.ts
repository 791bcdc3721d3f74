import type { Logger } from 'pino';
import { clock } from '../../../clock.ts';
import type { Account } from './account.ts';
import type { Binaries } from './binaries.ts';
import { connect, type Server } from './connect.ts';
import { EmbeddedPostgresError, errorCode } from './errors.ts';
import { type Launched, launch, postmasterStatus, readLog, runningPostmaster } from './postmaster.ts';
import { lastLines, processState } from './processes.ts';

// All are answered by another look: a port taken in between, another start that was faster, and the last processes of
// a killed server, which notice its end a moment later.
const passing =
  /Address already in use|could not bind|lock file "postmaster.pid" already exists|shared memory block/;
const attempts = 3;
const pauseMs = 300;
const answerPatienceMs = 60_000;

interface Wanted {
  clusterDir: string;
  password: string;
  binaries: Binaries;
  account: Account | undefined;
  durable: boolean;
  pickPort: () => Promise<number>;
  log: Logger;
}

export interface RunningServer extends Server {
  pid: number;
  adopted: boolean;
  /** Only of a server that is our own child. */
  hasEnded?: () => boolean;
}

/** The server of the cluster: the one that runs already, or else a new one. */
export async function reachServer(wanted: Wanted): Promise<RunningServer> {
  let failure = '';
  for (let attempt = 1; attempt <= attempts; attempt += 1) {
    const adopted = await adopt(wanted);
    if (adopted !== undefined) return adopted;
    const port = await wanted.pickPort();
    const launched = await launch({ ...wanted, port });
    const server = { port, pid: launched.pid, password: wanted.password, clusterDir: wanted.clusterDir };
    try {
      const answered = await answers(server, () => launched.hasEnded(), wanted.log);
      if (answered) return { ...server, adopted: false, hasEnded: () => launched.hasEnded() };
    } catch (error) {
      // Nobody can use it, so nobody will stop it either.
      if (!launched.hasEnded()) process.kill(launched.pid, 'SIGINT');
      throw error;
    }
    failure = await explain(launched, wanted.clusterDir);
    if (!passing.test(failure)) break;
    wanted.log.warn({ attempt, port, failure }, 'postgres start repeated');
    await clock.sleep(pauseMs);
  }
  throw new EmbeddedPostgresError(
    'start_failed',
    `The embedded Postgres of ${wanted.clusterDir} did not start: ${failure}. See server.log in that folder, or set DATABASE_URL.`,
  );
}

export async function adopt(wanted: {
  clusterDir: string;
  password: string;
  log: Logger;
}): Promise<RunningServer | undefined> {
  const running = await runningPostmaster(wanted.clusterDir);
  if (running === undefined) return undefined;
  const server = { ...running, password: wanted.password, clusterDir: wanted.clusterDir };
  // It can be on its way out: stopped by the Muster that has just ended.
  const hasEnded = async (): Promise<boolean> => (await processState(running.pid)) !== 'alive';
  const answered = await answers(server, hasEnded, wanted.log);
  return answered ? { ...server, adopted: true } : undefined;
}

/** True when it lets us in; false when it has ended before. */
async function answers(
  server: Server & { pid: number },
  hasEnded: () => boolean | Promise<boolean>,
  log: Logger,
): Promise<boolean> {
  let deadline = clock.monotonic() + answerPatienceMs;
  let reported = clock.monotonic();
  let reason = 'it does not get ready';
  while (clock.monotonic() < deadline) {
    if (await hasEnded()) return false;
    // Until it says so itself, another program may be the one that listens on this port.
    const status = await postmasterStatus(server);
    if (status === 'ready') {
      try {
        await (await connect(server)).end();
        return true;
      } catch (error) {
        if (errorCode(error) === '28P01') throw wrongPassword(server, error);
        reason = error instanceof Error ? error.message : String(error);
      }
    } else if (status !== undefined) {
      // Recovery after a crash takes as long as it takes.
      deadline = clock.monotonic() + answerPatienceMs;
      if (clock.monotonic() - reported > 10_000) {
        reported = clock.monotonic();
        log.info({ clusterDir: server.clusterDir, status }, 'waiting for postgres');
      }
    }
    await clock.sleep(25);
  }
  const lines = lastLines(await readLog(server.clusterDir));
  throw new EmbeddedPostgresError(
    'start_failed',
    `The Postgres of ${server.clusterDir} runs (pid ${server.pid}, port ${server.port}) but lets nobody in (${reason}): ${lines}`,
  );
}

function wrongPassword(server: Server, cause: unknown): EmbeddedPostgresError {
  return new EmbeddedPostgresError(
    'start_failed',
    `The Postgres of ${server.clusterDir} does not accept the password in postgres.password of the data folder. Restore that file from a backup.`,
    { cause },
  );
}

async function explain(launched: Launched, clusterDir: string): Promise<string> {
  return `${await launched.ended}: ${lastLines(await readLog(clusterDir))}`;
}
