import type { z } from 'zod';
import type { EventLogsQuery, LogEntry, QueryOutcome } from '../../protocol/index.ts';
import { askError, type AskOutcome } from '../device/live-query.ts';

/** One live question to many devices: so many at a time, each with an outcome of its own. */

const AT_ONCE = 64;

/** Asks one device. Never rejects. */
export type AskDevice = (
  deviceId: string,
  onRows: (rows: LogEntry[]) => void,
  signal: AbortSignal,
) => Promise<AskOutcome<'eventlogs.query' | 'eventlogs.tail'>>;

export async function queryFleet(parts: {
  deviceIds: readonly string[];
  /** Of the devices that may not be asked, why. */
  refusals: ReadonlyMap<string, string>;
  /** Waited for before each device: whoever asks may be slow to take the answers. */
  ready: () => Promise<void>;
  ask: AskDevice;
  onRows: (deviceId: string, rows: LogEntry[]) => void;
  signal: AbortSignal;
}): Promise<QueryOutcome[]> {
  const { deviceIds, refusals, ready, ask, onRows, signal } = parts;
  const outcomes = new Map<string, QueryOutcome>();
  const waiting = deviceIds.values();
  const worker = async () => {
    for (const deviceId of waiting) {
      const refusal = refusals.get(deviceId);
      let rows = 0;
      const end = (outcome: QueryOutcome['outcome'], message?: string) =>
        outcomes.set(deviceId, { deviceId, outcome, rows, ...(message === undefined ? {} : { message }) });
      await ready();
      if (refusal !== undefined) end('error', refusal);
      else if (signal.aborted) end('cancelled');
      else {
        const answer = await ask(
          deviceId,
          (batch) => {
            rows += batch.length;
            onRows(deviceId, batch);
          },
          signal,
        );
        const { outcome, message } = described(answer, rows);
        end(outcome, message);
      }
    }
  };
  await Promise.all(Array.from({ length: Math.min(AT_ONCE, deviceIds.length) }, worker));
  return deviceIds.map((id) => outcomes.get(id)).filter((outcome) => outcome !== undefined);
}

function described(answer: AskOutcome, rows: number): Pick<QueryOutcome, 'outcome' | 'message'> {
  if (answer.ok) return { outcome: rows > 0 ? 'answered' : 'no_match' };
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
      return { outcome: 'error', message: askError(answer).message };
  }
}

/** What a device is asked for one page of its newest entries. */
export function pageOfNewest({
  deviceIds: _deviceIds,
  filterId: _filterId,
  ...asked
}: z.output<typeof EventLogsQuery>) {
  return { ...asked, page: 1 };
}
