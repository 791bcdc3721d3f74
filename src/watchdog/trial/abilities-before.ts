import { clock, type Timer } from '../../clock.ts';
import type { FromChild, HealthReport } from '../../agent/os/supervision/messages.ts';
import type { Ability } from './judge.ts';

/** Longer than the checks of an agent take that hang one after another. */
const ANSWER_MS = 35_000;

/** Finds out what a running release can do, so that the next one is compared with it. */
export class AbilitiesBefore {
  readonly #ask: () => void;
  #checks: readonly string[] = [];
  #isConnected = false;
  #hadSocket = false;
  #answered: ((report: HealthReport) => void) | undefined;

  /** @param ask  asks the release what it can do */
  constructor(ask: () => void) {
    this.#ask = ask;
  }

  hello(checks: Extract<FromChild, { type: 'hello' }>['checks']): void {
    this.#checks = checks ?? [];
  }

  connection(isConnected: boolean): void {
    this.#isConnected = isConnected;
  }

  /** The socket may be closed at the moment of the upgrade: what counts is that it has worked. */
  heartbeat(): void {
    if (this.#isConnected) this.#hadSocket = true;
  }

  health(report: HealthReport): void {
    this.#answered?.(report);
  }

  /** A release that gives no answer has proved nothing, so nothing is expected of the next one. */
  async read(): Promise<Ability[]> {
    const socket: Ability[] = this.#hadSocket ? ['socket'] : [];
    if (this.#checks.length === 0) return socket;
    let timer: Timer | undefined;
    const report = await new Promise<HealthReport | undefined>((resolve) => {
      this.#answered = resolve;
      timer = clock.setTimeout(() => resolve(undefined), ANSWER_MS);
      this.#ask();
    });
    clock.clear(timer);
    this.#answered = undefined;
    return [...socket, ...(report?.works ?? [])];
  }
}
