import type { LiveHandlers } from '../../work/live-runner.ts';
import type { EventLogReader } from './reader.ts';

/** The event log commands, on top of the reader for this machine. */
export function eventLogHandlers(reader: EventLogReader): LiveHandlers {
  return {
    'eventlogs.list': async (_payload, { signal }) => ({ logs: await reader.list(signal) }),
    'eventlogs.get': async ({ name }, { signal }) => ({ log: await reader.get(name, signal) }),
    'eventlogs.record': async ({ name, recordId }, { signal }) => ({
      entry: await reader.record(name, recordId, signal),
    }),
    'eventlogs.query': async (query, { signal, timeUp, row }) => {
      const entries = reader.query(query, AbortSignal.any([signal, timeUp]));
      try {
        for (;;) {
          const next = await entries.next();
          if (next.done === true) return next.value;
          await row(next.value);
        }
      } finally {
        // Closes the reader, also when the rows could not be sent.
        await entries.return({ scanned: 0, truncated: true });
      }
    },
    'eventlogs.tail': async (query, { signal, row }) => {
      for await (const entry of reader.tail(query, signal)) await row(entry);
      return {};
    },
  };
}
