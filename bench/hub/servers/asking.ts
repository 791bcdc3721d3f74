import { percentile, rounded, sortedCopy } from '../harness.ts';

/**
 * The commands that make a node query devices, and their responses. Both ends are ours, so the types are the
 * contract.
 */
export interface AskOrder {
  deviceIds: string[];
  /** Queries in progress at any time; each is followed by the next as soon as it ends. */
  inFlight: number;
  seconds: number;
}
export interface AskTally {
  asked: number;
  answered: number;
  /** The outcomes of queries that were not answered. */
  failures: Record<string, number>;
  seconds: number;
  /** Milliseconds until a query ended. */
  p50: number;
  p99: number;
  max: number;
}
export interface AskingCommands {
  ask: { ask: AskOrder; answer: AskTally };
  /** When each query ended, in milliseconds since 1970 with fractions, and its outcome. */
  askOnce: { ask: { deviceIds: string[] }; answer: { how: string; at: number }[] };
}

/** @returns the outcome, `answered` if there was a response */
export type AskOne = (deviceId: string) => Promise<string>;

/** Queries devices in turn until the time is over, then waits for queries in progress. */
export async function askInTurn(
  askOne: AskOne,
  { deviceIds, inFlight, seconds }: AskOrder,
): Promise<AskTally> {
  const took: number[] = [];
  const failures: Record<string, number> = {};
  const startedAt = performance.now();
  const end = startedAt + seconds * 1000;
  let at = 0;
  const lane = async () => {
    while (performance.now() < end) {
      const deviceId = deviceIds[at++ % deviceIds.length] ?? '';
      const askedAt = performance.now();
      const how = await askOne(deviceId);
      took.push(performance.now() - askedAt);
      if (how !== 'answered') failures[how] = (failures[how] ?? 0) + 1;
    }
  };
  await Promise.all(Array.from({ length: inFlight }, lane));
  const sorted = sortedCopy(took);
  const failed = Object.values(failures).reduce((sum, count) => sum + count, 0);
  return {
    asked: took.length,
    answered: took.length - failed,
    failures,
    seconds: (performance.now() - startedAt) / 1000,
    p50: rounded(percentile(sorted, 0.5), 3),
    p99: rounded(percentile(sorted, 0.99), 3),
    max: rounded(sorted.at(-1) ?? 0, 3),
  };
}

/** The responses of a node to its parent, whichever way it queries devices. */
export function answersFor(askOne: AskOne): Record<string, (ask: unknown) => Promise<unknown>> {
  return {
    ask: (order) => askInTurn(askOne, order as AskOrder),
    askOnce: (order) =>
      Promise.all(
        (order as { deviceIds: string[] }).deviceIds.map(async (deviceId) => {
          const how = await askOne(deviceId);
          return { how, at: performance.timeOrigin + performance.now() };
        }),
      ),
  };
}
