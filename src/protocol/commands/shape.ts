import type { z } from 'zod';
import type { Lane } from './lanes.ts';

/**
 * What the server can ask of an agent: the shape of the request, of the rows that are streamed meanwhile (where it
 * streams) and of the final output.
 *
 * A command with a `lane` is durable: it is recorded in the server's ledger. The agent keeps what it has accepted and
 * the result on disk, carries out each id once, and sends the result until it is acknowledged. A command without a lane
 * is a live query, which ends with the connection.
 */
export interface CommandShape {
  lane?: Lane;
  /** Only the server makes it: people cannot send it with a payload of their own. */
  isOfServer?: true;
  payload: z.ZodType;
  row?: z.ZodType;
  output: z.ZodType;
}

export type CommandTable = Readonly<Record<string, CommandShape>>;
