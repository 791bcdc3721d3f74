import type pg from 'pg';
import { type Db, openPool } from '../../../src/platform/db/pool.ts';

export interface DyingPool {
  db: Db;
  /** From now on so many statements are sent; with the next one the process is gone, as after kill -9. */
  dieAfter(statements: number): void;
  readonly isDead: boolean;
}

type Query = (...args: unknown[]) => unknown;

/**
 * A pool of connections of a process that dies between two statements. Half of the time the statement is still sent, so
 * that nobody knows whether it was carried out: that is how a commit is lost.
 */
export function openDyingPool(url: string, random: () => number): DyingPool {
  const db = openPool(url, { max: 6, name: 'test-work', acquireMs: 5000 });
  const connections = new Set<pg.Client>();
  let left = Number.POSITIVE_INFINITY;
  let isDead = false;

  const gone = () => Object.assign(new Error('Connection terminated unexpectedly'), { code: 'ECONNRESET' });
  const die = () => {
    isDead = true;
    for (const connection of connections) streamOf(connection).destroy();
  };
  const watch = (connection: pg.Client) => {
    if (connections.has(connection)) return;
    connections.add(connection);
    connection.on('error', () => {});
    const query = connection.query.bind(connection) as Query;
    Object.assign(connection, {
      query(...args: unknown[]): unknown {
        left -= 1;
        if (!isDead && left >= 0) return query(...args);
        if (!isDead && random() < 0.5) {
          const sent = query(...args);
          setImmediate(die);
          return sent;
        }
        die();
        const callback = args.at(-1);
        if (typeof callback !== 'function') return Promise.reject(gone());
        setImmediate(() => (callback as (error: Error) => void)(gone()));
        return undefined;
      },
    });
  };
  const { client } = db as unknown as { client: { acquireConnection: () => Promise<pg.Client> } };
  const acquire = client.acquireConnection.bind(client);
  client.acquireConnection = async () => {
    if (isDead) throw gone();
    const connection = await acquire();
    watch(connection);
    return connection;
  };
  return {
    db,
    dieAfter(statements) {
      left = statements;
    },
    get isDead() {
      return isDead;
    },
  };
}

const streamOf = (connection: pg.Client) =>
  (connection as unknown as { connection: { stream: { destroy: () => void } } }).connection.stream;
