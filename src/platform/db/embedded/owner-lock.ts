import type { Client } from 'pg';
import type { Logger } from 'pino';
import { clock } from '../../../clock.ts';
import { connect, type Server } from './connect.ts';

// Any fixed number would do; this one spells "muster".
const lockKey = '120416110118834';
const retryEveryMs = 1000;

/** The sign that a data folder has an owner: held for as long as the process, and gone with it. */
export interface OwnerLock {
  /** Whether some other process has taken it after we lost it. */
  lostToAnother(): boolean;
  /** From here on the end of the connection is expected. */
  expectEnd(): void;
  release(): Promise<void>;
}

/** Undefined where another process holds it. */
export async function takeOwnerLock(
  server: Server,
  log: Logger,
  patienceMs: number,
): Promise<{ lock: OwnerLock; client: Client } | undefined> {
  const first = await connect(server);
  const deadline = clock.monotonic() + patienceMs;
  while (!(await tryLock(first))) {
    if (clock.monotonic() > deadline) {
      await first.end();
      return undefined;
    }
    await clock.sleep(100);
  }

  const state = { client: first, endExpected: false, lostToAnother: false };
  const { clusterDir } = server;

  const regain = async (): Promise<void> => {
    while (!state.endExpected) {
      await clock.sleep(retryEveryMs, { unref: true });
      const next = await connect(server).catch(() => undefined);
      if (next === undefined) continue;
      const held = await tryLock(next).catch(() => undefined);
      if (held === true && !state.endExpected) {
        state.lostToAnother = false;
        log.info({ clusterDir }, 'postgres owner lock regained');
        hold(next);
        return;
      }
      await next.end().catch(() => undefined);
      if (held === false && !state.lostToAnother) {
        state.lostToAnother = true;
        log.error({ clusterDir }, 'postgres owner lock held by another');
      }
    }
  };

  const hold = (client: Client): void => {
    state.client = client;
    let reason: Error | undefined;
    client.on('error', (error) => {
      reason ??= error;
    });
    client.once('end', () => {
      if (state.endExpected) return;
      log.error({ clusterDir, err: reason }, 'postgres owner lock lost');
      void regain();
    });
  };
  hold(first);

  const lock: OwnerLock = {
    lostToAnother: () => state.lostToAnother,
    expectEnd() {
      state.endExpected = true;
    },
    async release() {
      state.endExpected = true;
      await state.client.end().catch(() => undefined);
    },
  };
  return { lock, client: first };
}

async function tryLock(client: Client): Promise<boolean> {
  const { rows } = await client.query<{ held: boolean }>('select pg_try_advisory_lock($1) as held', [
    lockKey,
  ]);
  return rows[0]?.held === true;
}
