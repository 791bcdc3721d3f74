import { z } from 'zod';
import { cutLine, ReportedInstant } from './primitives.ts';

/** Samples of a machine's figures, which an agent takes each minute and sends when it is connected. */

export const SAMPLE_SECONDS = 60;
/** For how long an agent keeps samples that it cannot send, and the server accepts them. */
export const SAMPLES_KEPT_HOURS = 24;
/** The most samples in one message: an hour. */
export const SAMPLES_PER_MESSAGE = 60;
export const VOLUMES_MAX = 64;
export const PROCESSES_MAX = 5;
/** The longest name of a volume or a process. */
export const LABEL_MAX = 100;

/** A figure that is not valid counts as one that could not be read, so that it costs nothing but itself. */
const figure = (max: number) => z.number().min(0).max(max).optional().catch(undefined);

const percent = figure(100);
/** The largest number that the history stores exactly. */
const amount = figure(Number.MAX_SAFE_INTEGER);

const Label = cutLine(LABEL_MAX).pipe(z.string().min(1));

/** Entries that are not valid are left out, and so are those beyond the limit. */
const fewValid = <S extends z.ZodType>(max: number, entry: S) =>
  z
    .preprocess(
      (all) => (Array.isArray(all) ? all.slice(0, max) : all),
      z.array(entry.nullable().catch(null)),
    )
    .optional()
    .catch(undefined);

export const VolumeSample = z.object({
  volume: Label.describe('Where it is mounted, or its drive letter.'),
  usedBytes: amount,
  totalBytes: amount,
});

export const ProcessSample = z.object({
  process: Label.describe('The name of the program.'),
  cpuPercent: percent.describe('Of all processors together.'),
  ramPercent: percent,
});

export const MetricSample = z.object({
  at: ReportedInstant.describe('The time by the clock of the server, as far as the agent knows it.'),
  cpuPercent: percent.describe('The average since the sample before.'),
  ramPercent: percent,
  swapPercent: percent,
  load: figure(1_000_000).describe('The average number of processes that ran or waited in the last minute.'),
  uptimeSeconds: figure(10_000_000_000),
  networkReceivedPerSecond: amount.describe('Bytes, over all external interfaces.'),
  networkSentPerSecond: amount,
  diskReadPerSecond: amount.describe('Bytes, over all disks.'),
  diskWrittenPerSecond: amount,
  volumes: fewValid(VOLUMES_MAX, VolumeSample).describe(`The first ${VOLUMES_MAX} count.`),
  processes: fewValid(PROCESSES_MAX, ProcessSample).describe('The busiest ones, if they use much.'),
});
export type MetricSample = z.infer<typeof MetricSample>;

export const MetricSamples = z.object({
  samples: z
    .array(MetricSample.nullable().catch(null))
    .min(1)
    .max(SAMPLES_PER_MESSAGE)
    .describe('Figures that could not be read are left out. A sample that is not valid is ignored.'),
});
export type MetricSamples = z.infer<typeof MetricSamples>;
