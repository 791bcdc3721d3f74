import type pg from 'pg';
import type { Tx } from './transaction.ts';
import { once } from 'node:events';
import type { Socket } from 'node:net';
import type { Knex } from 'knex';

/** The connection that pg passes to a custom query (its `Submittable`), as far as COPY needs it. */
interface CopyInConnection {
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
    (connection as CopyInConnection).query(this.#statement);
  }

  handleCopyInResponse(connection: CopyInConnection): void {
    void this.#send(connection);
  }

  async #send(connection: CopyInConnection): Promise<void> {
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

const ESCAPES: Record<string, string> = { b: '\b', f: '\f', n: '\n', r: '\r', t: '\t', v: '\v' };

/** The fields of one line of COPY's text format; null is `null`. */
export function fieldsOf(line: Buffer): (string | null)[] {
  const text = line.toString();
  const fields: (string | null)[] = text.split('\t');
  if (!text.includes('\\')) return fields;
  for (let i = 0; i < fields.length; i++) {
    const field = fields[i];
    if (field === '\\N') fields[i] = null;
    else if (field?.includes('\\') === true) fields[i] = unescaped(field);
  }
  return fields;
}

function unescaped(field: string): string {
  let text = '';
  let from = 0;
  for (let at = field.indexOf('\\'); at >= 0; at = field.indexOf('\\', from)) {
    const sign = field[at + 1] ?? '';
    text += field.slice(from, at) + (ESCAPES[sign] ?? sign);
    from = at + 2;
  }
  return text + field.slice(from);
}

/** The connection that pg passes to a custom query (its `Submittable`), as far as COPY needs it. */
interface CopyConnection {
  query(text: string): void;
  stream: { pause(): void; resume(): void };
}

/**
 * Reads a large answer by `COPY (query) TO STDOUT`, at several times the speed of rows and with memory that does not
 * grow with it. Each row is passed on as a line without its line break, which copy-line.ts splits into fields. A
 * receiver that keeps the line must copy it. If `onLine` returns a promise, reading stops until it is settled.
 */
export async function copyOut(
  tx: Tx,
  query: string,
  onLine: (line: Buffer) => void | Promise<void>,
): Promise<void> {
  const client = (await tx.client.acquireConnection()) as pg.Client;
  try {
    await new Promise<void>((resolve, reject) => {
      client.query(new Copy(`copy (${query}) to stdout`, onLine, resolve, reject));
    });
  } finally {
    await tx.client.releaseConnection(client);
  }
}

class Copy implements pg.Submittable {
  readonly #text: string;
  readonly #onLine: (line: Buffer) => void | Promise<void>;
  readonly #resolve: () => void;
  readonly #reject: (error: unknown) => void;
  /** The first failure; what still comes is then passed over. */
  #failure: { error: unknown } | undefined;
  #waiting: Promise<void> | undefined;

  constructor(
    text: string,
    onLine: (line: Buffer) => void | Promise<void>,
    resolve: () => void,
    reject: (error: unknown) => void,
  ) {
    this.#text = text;
    this.#onLine = onLine;
    this.#resolve = resolve;
    this.#reject = reject;
  }

  submit(connection: unknown): void {
    (connection as CopyConnection).query(this.#text);
  }

  handleCopyData({ chunk }: { chunk: Buffer }, connection: CopyConnection): void {
    if (this.#failure !== undefined) return;
    try {
      // Without the line end.
      const waiting = this.#onLine(chunk.subarray(0, -1));
      if (waiting !== undefined) this.#holdBack(waiting, connection);
    } catch (error) {
      this.#failure = { error };
    }
  }

  /** Rows that have arrived already still come; those on the wire wait. */
  #holdBack(waiting: Promise<void>, connection: CopyConnection): void {
    connection.stream.pause();
    const before = this.#waiting ?? Promise.resolve();
    const both = before.then(() => waiting);
    this.#waiting = both;
    both
      .catch((error: unknown) => {
        this.#failure ??= { error };
      })
      .finally(() => {
        if (this.#waiting === both) connection.stream.resume();
      });
  }

  handleCommandComplete(): void {}

  handleReadyForQuery(): void {
    void (this.#waiting ?? Promise.resolve()).then(
      () => (this.#failure === undefined ? this.#resolve() : this.#reject(this.#failure.error)),
      (error: unknown) => this.#reject(error),
    );
  }

  handleError(error: unknown): void {
    this.#reject(error);
  }
}
