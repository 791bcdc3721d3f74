import type { LiveQueryOutcome } from '../../hub/index.ts';
import {
  type LogEntry,
  type LogQuerySummary,
  shortened,
  storableJson,
  storableText,
} from '../../protocol/index.ts';

/** What asking a device comes to: rules without I/O. */

/** What is kept of the answer of one device, in bytes of JSON. */
export const ANSWER_MAX_BYTES = 512 * 1024;
/** So often a device is asked that gives no answer. */
export const ASKS_MAX = 3;
const CODE_MAX = 64;
const MESSAGE_MAX = 2000;

/** Why a device has no answer, for programs and for people. */
export interface Failure {
  code: string;
  message: string;
}

export interface DeviceAnswer {
  entries: LogEntry[];
  bytes: number;
  /** Entries that were not kept, because they were too large. */
  leftOut: number;
  summary: LogQuerySummary;
}

/** Collects the entries of a device up to what is kept of an answer, in the form in which Postgres stores them. */
export class EntryCollector {
  readonly entries: LogEntry[] = [];
  bytes = 0;
  leftOut = 0;

  add(rows: readonly LogEntry[]): void {
    for (const row of rows) {
      const bytes = Buffer.byteLength(JSON.stringify(row));
      if (this.bytes + bytes > ANSWER_MAX_BYTES) {
        this.leftOut += 1;
        continue;
      }
      this.bytes += bytes;
      this.entries.push(storableJson(row) as LogEntry);
    }
  }
}

export type NextMove =
  | { move: 'answered'; answer: DeviceAnswer }
  /** It was not asked: that does not count. */
  | { move: 'not_asked' }
  /** It was asked, and may be asked again. */
  | { move: 'again' }
  | { move: 'failed'; failure: Failure };

/** @param asks  how often the device has been asked by now */
export function afterQuery(
  outcome: LiveQueryOutcome<'eventlogs.query'>,
  collected: EntryCollector,
  asks: number,
): NextMove {
  if (outcome.ok) {
    const { entries, bytes, leftOut } = collected;
    return {
      move: 'answered',
      answer: { entries, bytes, leftOut, summary: storableSummary(outcome.output) },
    };
  }
  const failed = (code: string, message: string): NextMove => ({
    move: 'failed',
    failure: { code, message },
  });
  switch (outcome.reason) {
    case 'offline':
    case 'busy':
    case 'unavailable':
      return { move: 'not_asked' };
    case 'disconnected':
    case 'node_lost':
      if (asks < ASKS_MAX) return { move: 'again' };
      return failed('DISCONNECTED', `The device lost its connection each of the ${asks} times it was asked.`);
    case 'timeout':
      if (asks < ASKS_MAX) return { move: 'again' };
      return failed('TIMED_OUT', `The device did not answer in time, although it was asked ${asks} times.`);
    case 'cancelled':
      return failed('CANCELLED_BY_DEVICE', 'The device has cancelled the query.');
    case 'capability_missing':
      return failed('CAPABILITY_MISSING', 'The agent on this device cannot search event logs. Update it.');
    case 'agent':
      return failed(
        shortened(storableText(outcome.code), CODE_MAX),
        shortened(storableText(outcome.message), MESSAGE_MAX),
      );
    default:
      return outcome satisfies never;
  }
}

/** The remark is a text of the device, of any length, and not part of `bytes`. */
const storableSummary = ({ note, ...summary }: LogQuerySummary): LogQuerySummary => ({
  ...summary,
  ...(note === undefined ? {} : { note: shortened(storableText(note), MESSAGE_MAX) }),
});

/** The second of a device within a time, so that devices that connect together are asked one after the other. */
export function spreadMs(deviceId: string, withinMs: number): number {
  // The last digits of the id are random.
  return Math.floor((Number.parseInt(deviceId.slice(-8), 16) / 0x1_0000_0000) * withinMs);
}
