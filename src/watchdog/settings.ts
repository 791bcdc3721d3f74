import path from 'node:path';
import { z } from 'zod';
import { readPrivateJson } from '../agent/os/files/private-file.ts';

const SECOND = 1000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
/** Timers of more than 24 days would fire at once. */
const ms = (value: number) =>
  z
    .number()
    .int()
    .positive()
    .max(24 * 24 * HOUR)
    .default(value);

/**
 * How patient the watchdog is. The file `watchdog.json` is in the agent's folder, where only the agent's user can write,
 * as are the credentials. Nothing in it changes what is trusted.
 */
export const WatchdogSettings = z.strictObject({
  pingEveryMs: ms(10 * SECOND),
  /** A program that leaves so many pings unanswered is killed. */
  missedPings: z.number().int().positive().max(100).default(3),
  /** How long a program may take until it says hello. */
  helloMs: ms(MINUTE),
  /** How long a program may take to end in good order. */
  stopMs: ms(30 * SECOND),
  /** A release on trial: the first acknowledged heartbeat, and several in a row. */
  firstHeartbeatMs: ms(2 * MINUTE),
  heartbeatsMs: ms(3 * MINUTE),
  heartbeatsInARow: z.number().int().positive().max(100).default(3),
  beatEveryMs: ms(30 * SECOND),
  /** How long a trial waits for a server that serves nobody. */
  unservedMs: ms(24 * HOUR),
  /** How often a release on trial is started. */
  trialStarts: z.number().int().positive().max(10).default(2),
  /** The wait before a restart: it doubles up to the second value. */
  restartMs: ms(SECOND),
  restartMaxMs: ms(MINUTE),
  /** A program that has run for so long has not crashed at its start. */
  steadyMs: ms(MINUTE),
  /** So many crashes at the start, one after another, are a crash loop. */
  crashLoop: z.number().int().positive().max(100).default(5),
  /** How often the watchdog reports at most, and how often it tries to. */
  reportEveryMs: ms(MINUTE),
});
export type WatchdogSettings = z.infer<typeof WatchdogSettings>;

/** A file that cannot be used counts as none: the watchdog must run. */
export async function watchdogSettings(
  dataDir: string,
  warn: (message: string) => void,
): Promise<WatchdogSettings> {
  const file = path.join(dataDir, 'watchdog.json');
  try {
    return WatchdogSettings.parse((await readPrivateJson(file)) ?? {});
  } catch (error) {
    warn(`${file} cannot be used, so the default values hold: ${String(error)}`);
    return WatchdogSettings.parse({});
  }
}
