import { crc32 } from 'node:zlib';
import { z } from 'zod';
import { CommandResult } from '../../protocol/index.ts';

/** What the journal says of a command; the records of an id follow each other in this order. */
export const JournalRecord = z.discriminatedUnion('kind', [
  z.object({
    kind: z.literal('accepted'),
    id: z.string(),
    type: z.string(),
    payload: z.unknown(),
    epoch: z.number(),
  }),
  z.object({ kind: z.literal('started'), id: z.string(), at: z.string() }),
  z.object({ kind: z.literal('finished'), result: CommandResult }),
  /** The hub has the result: of the command only its id is kept. */
  z.object({ kind: z.literal('done'), id: z.string(), at: z.number() }),
]);
export type JournalRecord = z.infer<typeof JournalRecord>;

/** A line is the checksum of its JSON and the JSON, so that what a disk has damaged is not taken for something else. */
export function toLine(record: JournalRecord): string {
  const json = JSON.stringify(record);
  return `${checksum(json)} ${json}\n`;
}

/** `undefined` for a line that was not written by `toLine`. */
function fromLine(line: string): JournalRecord | undefined {
  const json = line.slice(9);
  if (line.slice(0, 9) !== `${checksum(json)} `) return undefined;
  const record = JournalRecord.safeParse(JSON.parse(json));
  return record.success ? record.data : undefined;
}

const checksum = (json: string) => crc32(json).toString(16).padStart(8, '0');

/** The records of whole lines, and whether some of them could not be read. */
export function readLines(text: string): { records: JournalRecord[]; isDamaged: boolean } {
  const lines = text.split('\n').slice(0, -1);
  const records = lines.map(fromLine).filter((record) => record !== undefined);
  return { records, isDamaged: records.length < lines.length };
}
