import { randomUUID } from 'node:crypto';
import { clock } from '../../clock.ts';
import { type HeartbeatAck, type UpdateStatus, UPGRADE_CAPABILITY } from '../../protocol/index.ts';
import type { SendStatus } from '../core/connection/answer-channel.ts';
import { mix } from './random.ts';

/**
 * The upgrades of a simulated machine: it reports the phases of a real one, connects again and names the new version.
 * Nothing is downloaded and nothing is installed.
 */

interface Machine {
  index: number;
  /** A new release does not run on it. */
  rollsBack: boolean;
  version(): string;
  /** Connects again as that version. Resolves when it is connected. */
  restartAs(version: string): Promise<void>;
  /** For tests: how it waits. */
  pause?: (ms: number) => Promise<void>;
}

const PHASES = [
  ['downloading', 4000],
  ['verifying', 1000],
  ['installing', 2000],
  ['restarting', 500],
] as const satisfies readonly (readonly [UpdateStatus['phase'], number])[];
/** Machines do not all begin at once. */
const FIRST_PAUSE_MS = 15_000;

export class SyntheticUpgrades {
  readonly capabilities = [UPGRADE_CAPABILITY];
  readonly #machine: Machine;
  readonly #stopping = new AbortController();
  #send: SendStatus | undefined;
  #isBusy = false;

  constructor(machine: Machine) {
    this.#machine = machine;
  }

  connected(send: SendStatus): void {
    this.#send = send;
  }

  acknowledged({ upgrade }: HeartbeatAck): void {
    const offer = upgrade.find(
      ({ component, version }) => component === 'agent' && version !== this.#machine.version(),
    );
    if (offer === undefined || this.#isBusy) return;
    this.#isBusy = true;
    this.#install(offer.version)
      // The machine was stopped, or its connection lost; the server offers the release again.
      .catch(() => {})
      .finally(() => (this.#isBusy = false));
  }

  stop(): void {
    this.#stopping.abort();
  }

  async #install(targetVersion: string): Promise<void> {
    const { index, rollsBack } = this.#machine;
    const fromVersion = this.#machine.version();
    const attempt = { component: 'agent', targetVersion, fromVersion, attemptId: randomUUID() };
    await this.#pause(mix(index, 42) % FIRST_PAUSE_MS);
    for (const [phase, ms] of PHASES) {
      await this.#send?.({ ...attempt, phase });
      await this.#pause(ms);
    }
    await this.#machine.restartAs(rollsBack ? fromVersion : targetVersion);
    await this.#send?.(
      rollsBack
        ? {
            ...attempt,
            phase: 'rolled_back',
            code: 'NOT_CONNECTED',
            error: 'The server acknowledged no heartbeat of the release within 120 s.',
          }
        : { ...attempt, phase: 'completed' },
    );
  }

  #pause(ms: number): Promise<void> {
    return this.#machine.pause?.(ms) ?? clock.sleep(ms, { signal: this.#stopping.signal });
  }
}
