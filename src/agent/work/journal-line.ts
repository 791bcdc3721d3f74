import { crc32 } from 'node:zlib';
import { z } from 'zod';
import { CommandResult } from '../../protocol/index.ts';

/** The records of a command in the journal, in the order in which they are written. */
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
  /** The hub has the result. From now on only the id of the command is kept. */
  z.object({ kind: z.literal('done'), id: z.string(), at: z.number() }),
]);
export type JournalRecord = z.infer<typeof JournalRecord>;

/** A line is the checksum of its JSON and the JSON, so that damage by the disk is detected. */
export function toLine(record: JournalRecord): string {
  const json = JSON.stringify(record);
  return `${checksum(json)} ${json}\n`;
}

/** `undefined` for a line that is damaged. */
function fromLine(line: string): JournalRecord | undefined {
  const json = line.slice(9);
  if (line.slice(0, 9) !== `${checksum(json)} `) return undefined;
  const record = JournalRecord.safeParse(JSON.parse(json));
  return record.success ? record.data : undefined;
}

const checksum = (json: string) => crc32(json).toString(16).padStart(8, '0');

/** The records of complete lines, and whether some could not be read. */
export function readLines(text: string): { records: JournalRecord[]; isDamaged: boolean } {
  const lines = text.split('\n').slice(0, -1);
  const records = lines.map(fromLine).filter((record) => record !== undefined);
  return { records, isDamaged: records.length < lines.length };
}
