import { once } from 'node:events';
import type { Socket } from 'node:net';
import type pg from 'pg';
import type { Knex } from 'knex';

/** What pg hands to a query of one's own (its `Submittable`), as far as COPY needs it. */
interface CopyConnection {
  query(text: string): void;
  sendCopyFromChunk(piece: Buffer): void;
  endCopyFrom(): void;
  sendCopyFail(message: string): void;
  stream: Socket;
}

/**
 * Writes rows by `COPY table FROM STDIN`, in the text format that copy-out.ts reads. The pieces need not end with a
 * row. Memory does not grow with them, because each waits until the network has taken the one before. Returns the
 * number of rows.
 */
export async function copyIn(tx: Knex, statement: string, pieces: AsyncIterable<Buffer>): Promise<number> {
  const client = (await tx.client.acquireConnection()) as pg.Client;
  try {
    return await new Promise<number>((resolve, reject) => {
      client.query(new CopyIn(statement, pieces, resolve, reject));
    });
  } finally {
    await tx.client.releaseConnection(client);
  }
}

class CopyIn implements pg.Submittable {
  readonly #statement: string;
  readonly #pieces: AsyncIterable<Buffer>;
  readonly #resolve: (rows: number) => void;
  readonly #reject: (error: unknown) => void;
  /** Aborted when the database has refused: what still comes is not sent. */
  readonly #refused = new AbortController();
  #sourceFailure: { error: unknown } | undefined;
  #rows = 0;

  constructor(
    statement: string,
    pieces: AsyncIterable<Buffer>,
    resolve: (rows: number) => void,
    reject: (error: unknown) => void,
  ) {
    this.#statement = statement;
    this.#pieces = pieces;
    this.#resolve = resolve;
    this.#reject = reject;
  }

  submit(connection: unknown): void {
    (connection as CopyConnection).query(this.#statement);
  }

  handleCopyInResponse(connection: CopyConnection): void {
    void this.#send(connection);
  }

  async #send(connection: CopyConnection): Promise<void> {
    const { signal } = this.#refused;
    try {
      for await (const piece of this.#pieces) {
        if (signal.aborted) return;
        connection.sendCopyFromChunk(piece);
        if (connection.stream.writableNeedDrain) await once(connection.stream, 'drain', { signal });
      }
      if (!signal.aborted) connection.endCopyFrom();
    } catch (error) {
      if (signal.aborted) return;
      this.#sourceFailure = { error };
      connection.sendCopyFail('the source of the rows has failed');
    }
  }

  handleCommandComplete({ text }: { text: string }): void {
    this.#rows = Number(/^COPY (\d+)$/.exec(text)?.[1] ?? 0);
  }

  handleReadyForQuery(): void {
    this.#resolve(this.#rows);
  }

  handleError(error: unknown): void {
    this.#refused.abort();
    this.#reject(this.#sourceFailure === undefined ? error : this.#sourceFailure.error);
  }
}
