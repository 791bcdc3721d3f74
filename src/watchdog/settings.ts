import { HOUR_MS, MINUTE_MS, SECOND_MS } from '../clock.ts';
import path from 'node:path';
import { z } from 'zod';
import { readPrivateJson } from '../agent/os/files/private-file.ts';

/** Timers of more than 24 days would fire at once. */
const ms = (value: number) =>
  z
    .number()
    .int()
    .positive()
    .max(24 * 24 * HOUR_MS)
    .default(value);

/**
 * The time limits of the watchdog. The file `watchdog.json` is in the agent's folder, which only the agent's user can
 * write to, as are the credentials. No setting changes what is trusted.
 */
export const WatchdogSettings = z.strictObject({
  pingEveryMs: ms(10 * SECOND_MS),
  /** A program that leaves this many pings unanswered is killed. */
  missedPings: z.number().int().positive().max(100).default(3),
  /** How long a program may take until its first message. */
  helloMs: ms(MINUTE_MS),
  /** How long a program may take to shut down cleanly. */
  stopMs: ms(30 * SECOND_MS),
  /** A release on trial: the first acknowledged heartbeat, and several in a row. */
  firstHeartbeatMs: ms(2 * MINUTE_MS),
  heartbeatsMs: ms(3 * MINUTE_MS),
  heartbeatsInARow: z.number().int().positive().max(100).default(3),
  beatEveryMs: ms(30 * SECOND_MS),
  /** How long a trial waits for a server that serves no device. */
  unservedMs: ms(24 * HOUR_MS),
  /** How often a release on trial is started at most. */
  trialStarts: z.number().int().positive().max(10).default(2),
  /** The wait before a restart: it doubles up to the second value. */
  restartMs: ms(SECOND_MS),
  restartMaxMs: ms(MINUTE_MS),
  /** A program that has run for this long has not crashed at its start. */
  steadyMs: ms(MINUTE_MS),
  /** This many crashes at the start, one after another, are a crash loop. */
  crashLoop: z.number().int().positive().max(100).default(5),
  /** The shortest interval of reports, and the interval of attempts. */
  reportEveryMs: ms(MINUTE_MS),
});
export type WatchdogSettings = z.infer<typeof WatchdogSettings>;

/** An invalid file is ignored: the watchdog must run. */
export async function watchdogSettings(
  dataDir: string,
  warn: (message: string) => void,
): Promise<WatchdogSettings> {
  const file = path.join(dataDir, 'watchdog.json');
  try {
    return WatchdogSettings.parse((await readPrivateJson(file)) ?? {});
  } catch (error) {
    warn(`${file} cannot be used, so the default values apply: ${String(error)}`);
    return WatchdogSettings.parse({});
  }
}
