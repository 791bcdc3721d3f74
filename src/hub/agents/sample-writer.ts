import type { Logger } from '../../platform/logger.ts';
import type { MetricHistory, MetricReport } from '../ports.ts';
import { AcknowledgedWriter } from './acknowledged-writer.ts';

const NONE_STORED: ReadonlySet<string> = new Set();

/** About as many as a sample has. */
const figuresIn = (sample: MetricReport['samples'][number]): number =>
  10 + 3 * ((sample?.volumes?.length ?? 0) + (sample?.processes?.length ?? 0));

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
    sizeOf: ({ samples }) => samples.reduce((sum, sample) => sum + figuresIn(sample), 0),
    // Some fifty megabytes, and 5,000 messages of five samples as most machines send them.
    waitingMax: 500_000,
    // One message in five minutes, and those of a day of outage, an hour in each.
    budget: { requests: 40, windowMs: 600_000 },
  });
