import type { Logger } from '../../platform/logger.ts';
import type { MetricHistory, MetricReport } from '../ports.ts';
import { AcknowledgedWriter } from './acknowledged-writer.ts';

const NONE_STORED: ReadonlySet<string> = new Set();

/** Writes the samples of devices. Without a history, agents keep theirs. */
export const createSampleWriter = ({
  history,
  ...parts
}: {
  history: MetricHistory | undefined;
  log: Logger;
  onRefused: (count: number) => void;
}): AcknowledgedWriter<MetricReport, ReadonlySet<string>> =>
  new AcknowledgedWriter({
    ...parts,
    what: 'metrics',
    write: async (reports) => (await history?.record(reports)) ?? NONE_STORED,
    isStored: ({ deviceId }, stored) => stored.has(deviceId),
    // Agents wait ten seconds for the acknowledgement. The more samples are written together, the cheaper each is.
    batchMs: 1000,
    batch: 500,
    // At most some ten megabytes, because nearly all messages have five samples.
    waitingMax: 5000,
    // One message in five minutes, and those of a day of outage, an hour in each.
    budget: { requests: 40, windowMs: 600_000 },
  });
