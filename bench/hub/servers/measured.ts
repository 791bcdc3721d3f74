import { monitorEventLoopDelay } from 'node:perf_hooks';

/** Measurements that every server reports on request. Only the event loop delay is recorded continuously. */
export interface Usage {
  /** User and system CPU time of all threads since the start, in microseconds. */
  cpuMicros: number;
  rssKiB: number;
  /** Used heap and external memory in KiB. */
  heapKiB: number;
  externalKiB: number;
}

/** The event loop delay in milliseconds since the previous call. */
export interface LoopDelay {
  p50: number;
  p99: number;
  max: number;
}

export interface MeasuredCommands {
  usage: Usage;
  /** Memory usage after a full collection; the process must run with --expose-gc. */
  settled: Usage;
  loopDelay: LoopDelay;
}

const COLLECTIONS = 4;
const LOOP_RESOLUTION_MS = 5;

export function answerMeasurements(more: Record<string, (ask: unknown) => Promise<unknown>> = {}): void {
  const delay = monitorEventLoopDelay({ resolution: LOOP_RESOLUTION_MS });
  delay.enable();
  const answers: Record<string, (ask: unknown) => Promise<unknown>> = {
    usage: async () => usage(),
    async settled() {
      for (let turn = 0; turn < COLLECTIONS; turn++) {
        globalThis.gc?.();
        await new Promise((resolve) => setTimeout(resolve, 250));
      }
      return usage();
    },
    async loopDelay(): Promise<LoopDelay> {
      const ms = (nanoseconds: number) => Math.max(0, nanoseconds / 1e6 - LOOP_RESOLUTION_MS);
      const answer = { p50: ms(delay.percentile(50)), p99: ms(delay.percentile(99)), max: ms(delay.max) };
      delay.reset();
      return answer;
    },
    ...more,
  };
  process.on('message', ({ number, command, ask }: { number: number; command: string; ask: unknown }) => {
    const work = answers[command];
    if (work === undefined) throw new Error(`There is no command ${command}.`);
    work(ask).then(
      (answer) => process.send?.({ number, answer }),
      (error: unknown) => process.send?.({ number, error: String(error) }),
    );
  });
}

function usage(): Usage {
  const { user, system } = process.cpuUsage();
  const { rss, heapUsed, external } = process.memoryUsage();
  return {
    cpuMicros: user + system,
    rssKiB: rss / 1024,
    heapKiB: heapUsed / 1024,
    externalKiB: external / 1024,
  };
}
