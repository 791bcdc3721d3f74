/** The past of the demo, counted back from the moment in which it is seeded. */
export interface DemoTime {
  now: Date;
  daysAgo(days: number): Date;
  hoursAgo(hours: number): Date;
}

const HOUR_MS = 3_600_000;

export function demoTime(now: Date): DemoTime {
  const hoursAgo = (hours: number) => new Date(now.getTime() - hours * HOUR_MS);
  return { now, hoursAgo, daysAgo: (days) => hoursAgo(24 * days) };
}

/** A number from 0 to 1, without 1, the same for the same place in the story. */
export function chance(...place: number[]): number {
  let hash = 2_166_136_261;
  for (const part of place) hash = Math.imul(hash ^ part, 16_777_619) ^ (hash >>> 13);
  hash = Math.imul(hash ^ (hash >>> 15), 2_246_822_519);
  return ((hash ^ (hash >>> 13)) >>> 0) / 2 ** 32;
}

export function choose<const T>(items: readonly T[], ...place: number[]): T {
  const chosen = items[Math.floor(chance(...place) * items.length)];
  if (chosen === undefined) throw new Error('There is nothing to choose from.');
  return chosen;
}
