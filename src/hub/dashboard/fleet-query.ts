import type { z } from 'zod';
import type { EventLogsQuery, LogEntry, QueryOutcome } from '../../protocol/index.ts';
import { liveQueryError, type LiveQueryOutcome } from '../device/live-query.ts';

const DEVICES_AT_ONCE = 64;

/** Queries one device. Never rejects. */
export type QueryDevice = (
  deviceId: string,
  onRows: (rows: LogEntry[]) => void,
  signal: AbortSignal,
) => Promise<LiveQueryOutcome<'eventlogs.query' | 'eventlogs.tail'>>;

/** Runs one live query on many devices, several at a time. Each device has an outcome of its own. */
export async function queryFleet(parts: {
  deviceIds: readonly string[];
  /** Why the caller may not query certain devices, by device. */
  refusals: ReadonlyMap<string, string>;
  /** Awaited before each device, because the client may be slow to take the rows. */
  ready: () => Promise<void>;
  queryDevice: QueryDevice;
  onRows: (deviceId: string, rows: LogEntry[]) => void;
  signal: AbortSignal;
}): Promise<QueryOutcome[]> {
  const { deviceIds, refusals, ready, queryDevice, onRows, signal } = parts;
  const outcomes = new Map<string, QueryOutcome>();
  const waiting = deviceIds.values();
  const worker = async () => {
    for (const deviceId of waiting) {
      const refusal = refusals.get(deviceId);
      let rows = 0;
      const end = (outcome: QueryOutcome['outcome'], details: Partial<QueryOutcome> = {}) =>
        outcomes.set(deviceId, { ...details, deviceId, outcome, rows });
      await ready();
      if (refusal !== undefined) end('error', { message: refusal });
      else if (signal.aborted) end('cancelled');
      else {
        const answer = await queryDevice(
          deviceId,
          (batch) => {
            rows += batch.length;
            onRows(deviceId, batch);
          },
          signal,
        );
        const { outcome, ...details } = describe(answer, rows);
        end(outcome, details);
      }
    }
  };
  await Promise.all(Array.from({ length: Math.min(DEVICES_AT_ONCE, deviceIds.length) }, worker));
  return deviceIds.map((id) => outcomes.get(id)).filter((outcome) => outcome !== undefined);
}

function describe(
  answer: LiveQueryOutcome<'eventlogs.query' | 'eventlogs.tail'>,
  rows: number,
): Omit<QueryOutcome, 'deviceId' | 'rows'> {
  if (answer.ok) return { ...answer.output, outcome: rows > 0 ? 'answered' : 'no_match' };
  switch (answer.reason) {
    case 'offline':
      return { outcome: 'offline' };
    case 'timeout':
      return { outcome: 'timed_out' };
    case 'cancelled':
      return { outcome: 'cancelled' };
    case 'agent':
      return { outcome: 'error', message: answer.message };
    default:
      return { outcome: 'error', message: liveQueryError(answer).message };
  }
}

/** The payload for one page of the newest entries of a device. */
export function pageOfNewest({
  deviceIds: _deviceIds,
  filterId: _filterId,
  ...payload
}: z.output<typeof EventLogsQuery>) {
  return { ...payload, page: 1 };
}
