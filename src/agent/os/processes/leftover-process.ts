import { performance } from 'node:perf_hooks';
import { setTimeout as delay } from 'node:timers/promises';
import { isRunning, type KnownProcess } from './process-mark.ts';
import { signalGroup } from './process-group.ts';

const GRACE_MS = 300;
const KILLED_MS = 2000;
const LOOK_MS = 20;

/**
 * Ends the process group of a script that an agent has left behind. Nothing is done to a process that has the same
 * number and was started at another time. Answers whether it is gone.
 */
export async function endLeftover(script: KnownProcess): Promise<boolean> {
  for (const [signal, ms] of [
    ['SIGTERM', GRACE_MS],
    ['SIGKILL', KILLED_MS],
  ] as const) {
    // Without a mark nobody knows whose number this is now.
    if (script.mark === '' || !(await isRunning(script))) return true;
    signalGroup(script.pid, signal);
    const until = performance.now() + ms;
    while (performance.now() < until && (await isRunning(script))) await delay(LOOK_MS);
    // Its children may have been deaf to the first signal.
    if (!(await isRunning(script))) signalGroup(script.pid, 'SIGKILL');
  }
  return !(await isRunning(script));
}
