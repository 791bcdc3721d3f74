import { clock, type Timer } from '../../clock.ts';
import type { Logger } from '../../platform/logger.ts';
import type { FleetDevice } from '../ports/fleet-store.ts';
import type { CompiledFilter, CompiledFilters } from './compiled-filters.ts';
import type { FleetView } from './fleet-view.ts';
import { BACKGROUND_PAUSE_MS, TimeSlice } from './time-slice.ts';

interface Parts {
  filters: Pick<CompiledFilters, 'values'>;
  view: Pick<FleetView, 'of'>;
  evaluate: (filter: CompiledFilter, device: FleetDevice) => void;
  everyMs: number;
  log: Logger;
}

/** Evaluates conditions about time again at intervals, because their result changes while the device does not. */
export class TimeSweep {
  readonly #parts: Parts;
  #timer: Timer | undefined;
  #isClosed = false;

  constructor(parts: Parts) {
    this.#parts = parts;
  }

  start(): void {
    if (this.#isClosed) return;
    const { filters, everyMs, log } = this.#parts;
    this.#timer ??= clock.setTimeout(() => {
      this.#sweep()
        .catch((error: unknown) => log.error({ err: error }, 'hub.live_sweep_failed'))
        .finally(() => {
          this.#timer = undefined;
          if ([...filters.values()].some(({ rules }) => rules.dependsOnTime)) this.start();
        });
    }, everyMs);
  }

  /** Evaluates everything now, beside the regular sweeps. */
  settle(): Promise<void> {
    return this.#sweep();
  }

  stop(): void {
    clock.clear(this.#timer);
    this.#timer = undefined;
  }

  close(): void {
    this.#isClosed = true;
    this.stop();
  }

  async #sweep(): Promise<void> {
    const { filters, view, evaluate } = this.#parts;
    const slice = new TimeSlice(BACKGROUND_PAUSE_MS);
    for (const filter of filters.values()) {
      if (!filter.rules.dependsOnTime) continue;
      for (const orgId of new Set([...filter.subscribers].flatMap(({ held }) => [...held]))) {
        for (const device of view.of(orgId)) {
          if (slice.isOver) await slice.next();
          if (this.#isClosed) return;
          evaluate(filter, device);
        }
      }
    }
  }
}
