/** Figures of a device at one time. */
export interface Sample {
  at: number;
  cpu: number;
  ram: number;
  disk: number;
}

const SAMPLES_MAX = 360;
const KEPT_MS = 3_600_000;

/** The samples with another one, unless it is known already: those of the last hour. */
export function withSample(samples: readonly Sample[], next: Sample): readonly Sample[] {
  const last = samples.at(-1);
  if (last !== undefined && next.at <= last.at) return samples;
  return [...samples, next].filter(({ at }) => at > next.at - KEPT_MS).slice(-SAMPLES_MAX);
}
