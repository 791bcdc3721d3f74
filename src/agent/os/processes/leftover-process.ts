import { clock } from '../../../clock.ts';
import { isRunning, type KnownProcess } from './process-mark.ts';
import { signalGroup } from './process-group.ts';

const GRACE_MS = 300;
const KILLED_MS = 2000;
const POLL_MS = 20;

/** The signal by which a program ends in good order, and how long it may take for that. */
export interface FirstSignal {
  signal: 'SIGINT' | 'SIGTERM';
  ms: number;
}

/**
 * Ends the process group that an earlier agent has left running. A process that has the same number but was started at
 * another time is left alone. Returns whether the process has ended.
 */
export async function endLeftover(
  leftover: KnownProcess,
  first: FirstSignal = { signal: 'SIGTERM', ms: GRACE_MS },
): Promise<boolean> {
  for (const [signal, ms] of [
    [first.signal, first.ms],
    ['SIGKILL', KILLED_MS],
  ] as const) {
    // Without a mark, another process may have this number now.
    if (leftover.mark === '' || !(await isRunning(leftover))) return true;
    signalGroup(leftover.pid, signal);
    const until = clock.monotonic() + ms;
    while (clock.monotonic() < until && (await isRunning(leftover))) await clock.sleep(POLL_MS);
    // Its children may have ignored the first signal.
    if (!(await isRunning(leftover))) signalGroup(leftover.pid, 'SIGKILL');
  }
  return !(await isRunning(leftover));
}
