import type pg from 'pg';
import { goesThroughPooler } from './connections/pooler.ts';

/** A statement that Postgres parses and plans once a session. Its parameters are $1, $2, and so on. */
export interface Statement {
  name: string;
  text: string;
}

/**
 * By the driver's callback. With its promise, what a statement was given stays in memory until the next major
 * collection, however short it ran (docs/decisions/what-grows-old.md).
 */
export async function send<Row extends object>(
  connection: pg.Client,
  query: pg.QueryConfig,
): Promise<pg.QueryResult<Row>> {
  const sent = goesThroughPooler(connection) ? unprepared(query) : query;
  try {
    return await new Promise((resolve, reject) => {
      connection.query<Row>(sent, (error: Error | null, result) => {
        if (error === null) resolve(result);
        else reject(error);
      });
    });
  } catch (error) {
    // The stack now leads to the caller. Before, it led to the socket that received the answer.
    if (error instanceof Error) Error.captureStackTrace(error);
    throw error;
  }
}

/** Without its name, by which the next session would not know it. */
const unprepared = ({ name: _name, ...query }: pg.QueryConfig): pg.QueryConfig => query;
