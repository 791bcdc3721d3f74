import { Counter, Gauge, Histogram, Registry, collectDefaultMetrics } from 'prom-client';

let ofProcess: Registry | undefined;

/**
 * Process and heap figures, and the event-loop lag with its percentiles: once a process, because prom-client never ends
 * the timer and the observer that it measures them with, and each server would leave its own behind.
 */
function processMetrics(): Registry {
  if (ofProcess === undefined) {
    ofProcess = new Registry();
    collectDefaultMetrics({ register: ofProcess });
  }
  return ofProcess;
}

/**
 * The Prometheus metrics of a server and of its process. One instance a server, never prom-client's global registry, so
 * that tests can run several servers side by side.
 */
export type Metrics = ReturnType<typeof createMetrics>;

export function createMetrics() {
  const registry = Registry.merge([processMetrics()]);
  const registers = [registry];
  return {
    registry,
    httpRequests: new Counter({
      name: 'http_requests_total',
      help: 'Requests answered, by route pattern and status.',
      labelNames: ['method', 'route', 'status'] as const,
      registers,
    }),
    httpDuration: new Histogram({
      name: 'http_request_duration_seconds',
      help: 'Time to answer, by route pattern.',
      labelNames: ['method', 'route'] as const,
      buckets: [0.005, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10, 30],
      registers,
    }),
    refusedRecords: new Counter({
      name: 'muster_refused_records_total',
      help: 'Records that the database refused and that were left out of their batch. Each is in the log as an error.',
      labelNames: ['records'] as const,
      registers,
    }),
    /** A gauge that is read when it is scraped. */
    gauge(name: string, help: string, read: () => number): void {
      new Gauge({
        name,
        help,
        registers,
        collect() {
          this.set(read());
        },
      });
    },
    /** The same with one label. */
    labelledGauge(name: string, help: string, label: string, read: () => Record<string, number>): void {
      new Gauge({
        name,
        help,
        labelNames: [label],
        registers,
        collect() {
          for (const [value, count] of Object.entries(read())) this.set({ [label]: value }, count);
        },
      });
    },
    counter<L extends string>(name: string, help: string, labelNames: readonly L[]): Counter<L> {
      return new Counter({ name, help, labelNames: [...labelNames], registers });
    },
    histogram<L extends string>(
      name: string,
      help: string,
      labelNames: readonly L[],
      buckets: number[],
    ): Histogram<L> {
      return new Histogram({ name, help, labelNames: [...labelNames], buckets, registers });
    },
  };
}
