import { setImmediate as nextTurn } from 'node:timers/promises';
import type { Latencies } from './commands.ts';
import { percentile, rounded, sortedCopy } from './percentiles.ts';
import type { SimulatedAgent } from './simulated-agent.ts';

/**
 * Sends heartbeats at a fixed rate over all agents in turn. It never waits for responses, so a slow server cannot
 * slow it down.
 */
export async function openLoop(
  agents: readonly SimulatedAgent[],
  { seconds, perSecond }: { seconds: number; perSecond: number },
  listen: (onAnswered: (agent: SimulatedAgent) => void) => void,
): Promise<Latencies> {
  const took: number[] = [];
  const late: number[] = [];
  let sent = 0;
  let skipped = 0;
  listen((agent) => took.push(performance.now() - agent.sentAt));
  const startedAt = performance.now();
  const total = seconds * perSecond;
  for (let at = 0; at < total; await nextTurn()) {
    const elapsed = performance.now() - startedAt;
    const due = Math.min(total, Math.floor((elapsed / 1000) * perSecond));
    for (; at < due; at++) {
      const agent = agents[at % agents.length];
      if (agent === undefined || agent.sentAt !== 0 || !agent.isConnected) {
        skipped += 1;
        continue;
      }
      const now = performance.now();
      late.push(now - startedAt - (at / perSecond) * 1000);
      agent.heartbeat(now);
      sent += 1;
    }
  }
  await new Promise((resolve) => setTimeout(resolve, 2000));
  const sorted = sortedCopy(took);
  return {
    sent,
    answered: took.length,
    skipped,
    p50: rounded(percentile(sorted, 0.5), 3),
    p99: rounded(percentile(sorted, 0.99), 3),
    p999: rounded(percentile(sorted, 0.999), 3),
    max: rounded(sorted.at(-1) ?? 0, 3),
    loadLateP99: rounded(percentile(sortedCopy(late), 0.99), 3),
  };
}
