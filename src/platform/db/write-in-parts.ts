import { postgresError } from './database-errors.ts';

export interface BatchOutcome<T, R> {
  /** The results of the parts that were written, in the order of the records. */
  written: R[];
  /** Records that the database refuses even alone. */
  refused: { record: T; error: unknown }[];
  /** Records that could not be tried or written for a reason that is not theirs, which is `failure`. */
  unwritten: readonly T[];
  failure: unknown;
}

/**
 * Writes a batch so that a record that cannot be stored keeps no other from being stored: if the database refuses the
 * batch because of what is in it, each half is written by itself, down to the single record. A batch without such a
 * record costs one call of `write`; each such record costs about two calls for every time that the batch can be halved.
 * @param write  stores all records of a part or none of them
 */
export async function writeInParts<T, R>(
  records: readonly T[],
  write: (part: readonly T[]) => Promise<R>,
): Promise<BatchOutcome<T, R>> {
  const outcome: BatchOutcome<T, R> = { written: [], refused: [], unwritten: [], failure: undefined };
  const waiting = records.length === 0 ? [] : [records];
  for (let part = waiting.pop(); part !== undefined; part = waiting.pop()) {
    try {
      outcome.written.push(await write(part));
    } catch (error) {
      if (!isAboutRecords(error)) {
        // The last part is the next in order.
        return { ...outcome, unwritten: [part, ...waiting.toReversed()].flat(), failure: error };
      }
      const [only, ...others] = part;
      if (only !== undefined && others.length === 0) outcome.refused.push({ record: only, error });
      else {
        const middle = Math.ceil(part.length / 2);
        waiting.push(part.slice(middle), part.slice(0, middle));
      }
    }
  }
  return outcome;
}

/**
 * SQLSTATE classes of errors that come from the records: wrong cardinality, data exceptions, constraints, check options,
 * limits of the program such as an index row that is too large, exceptions of triggers, internal errors. All others say
 * that the database is away or busy, or that its schema is not the expected one: the same records can be written later.
 */
const ABOUT_RECORDS = /^(21|22|23|44|54|P0|XX)/;

/** Whether one of the records may be the cause; also of an error of ours while the statement was made of them. */
export function isAboutRecords(error: unknown): boolean {
  const code = postgresError(error)?.code;
  if (code !== undefined) return ABOUT_RECORDS.test(code);
  return error instanceof TypeError || error instanceof RangeError;
}
