import { advanceRollouts } from '../../../../src/features/agent-upgrades/rollout.work.ts';
import { liveRollouts } from '../../../../src/features/agent-upgrades/rollout.queries.ts';
import { waveOf } from '../../../../src/features/agent-upgrades/resolve-target.ts';
import { newId } from '../../../../src/platform/ids.ts';
import { quietLog } from '../../../support/quiet-log.ts';
import type { TestApp } from '../../../support/test-app.ts';
import { type FleetDevice, inSystem } from '../../../support/agent-upgrades/rollout-fleet.ts';

/**
 * A fleet that upgrades itself on a clock of its own: devices that a wave has reached begin, take some minutes, and end
 * as the release makes them. What they report is written as the server writes it, and the real conductor decides.
 */

export type Fate = 'healthy' | 'rolled_back' | 'silent';

interface SimulatedDevice extends FleetDevice {
  isConnected: boolean;
  begun?: { attemptId: string; endsAt: number; isEnded: boolean };
}

export interface SimulationOptions {
  /** Each decides in every round, all at the same time. */
  nodes: readonly TestApp[];
  devices: readonly FleetDevice[];
  /** What the release does to a device. */
  fateOf: (device: FleetDevice) => Fate;
  /** When a device is connected. Always, where it is left out. */
  isAwake?: (device: FleetDevice, at: Date) => boolean;
  /** From 0 to 1. */
  random?: () => number;
}

const MINUTE_MS = 60_000;
const LONGEST_UPGRADE_MINUTES = 10;

export class RolloutSimulation {
  readonly #options: Required<SimulationOptions>;
  readonly #devices: SimulatedDevice[];
  readonly #startedMs = Date.now();
  #nowMs = this.#startedMs;

  constructor(options: SimulationOptions) {
    this.#options = { isAwake: () => true, random: Math.random, ...options };
    this.#devices = options.devices.map((device) => ({ ...device, isConnected: true }));
  }

  get minutes(): number {
    return (this.#nowMs - this.#startedMs) / MINUTE_MS;
  }

  /** How many devices have begun with the release. */
  get touched(): number {
    return this.#devices.filter(({ begun }) => begun !== undefined).length;
  }

  /** Goes on until the rollout does not run any more, for so many minutes at most. */
  async run({ stepMinutes, forMinutes }: { stepMinutes: number; forMinutes: number }): Promise<void> {
    const untilMs = this.#nowMs + forMinutes * MINUTE_MS;
    let isRunning = true;
    while (isRunning && this.#nowMs < untilMs) {
      // The time between two waves passes without an event.
      const isQuiet = this.#devices.every(({ begun }) => begun === undefined || begun.isEnded);
      this.#nowMs += (isQuiet ? Math.max(stepMinutes, LONGEST_UPGRADE_MINUTES) : stepMinutes) * MINUTE_MS;
      isRunning = await this.step();
    }
  }

  /** What happens at this moment. Answers whether a rollout is still running. */
  async step(): Promise<boolean> {
    await this.#connectAndDisconnect();
    await this.#end();
    await this.#begin();
    const rounds = await Promise.all(
      this.#options.nodes.map((node) =>
        advanceRollouts(
          { db: node.server.database.jobPool, log: quietLog },
          { now: new Date(this.#nowMs), isWhole: true },
        ),
      ),
    );
    return rounds.some(({ isRunning }) => isRunning);
  }

  get #node(): TestApp {
    return this.#options.nodes[0]!;
  }

  async #connectAndDisconnect(): Promise<void> {
    const now = new Date(this.#nowMs);
    const changed = this.#devices.filter((device) => {
      const hasFallenSilent = device.begun?.isEnded === true && this.#options.fateOf(device) === 'silent';
      const isConnected = !hasFallenSilent && this.#options.isAwake(device, now);
      const isChanged = isConnected !== device.isConnected;
      device.isConnected = isConnected;
      return isChanged;
    });
    if (changed.length === 0) return;
    await inSystem(this.#node, (tx) =>
      tx.raw(
        `update device_presence p set state = c.state, reason = case when c.state = 'connected' then 'connected' else 'socket_closed' end,
          since = ?::timestamptz, last_seen_at = ?::timestamptz
        from unnest(?::uuid[], ?::text[]) as c (id, state) where p.device_id = c.id`,
        [
          now,
          now,
          changed.map(({ id }) => id),
          changed.map(({ isConnected }) => (isConnected ? 'connected' : 'disconnected')),
        ],
      ),
    );
  }

  async #end(): Promise<void> {
    const ended = this.#devices.filter(
      ({ begun }) => begun !== undefined && !begun.isEnded && begun.endsAt <= this.#nowMs,
    );
    if (ended.length === 0) return;
    const states = ended.map((device) =>
      this.#options.fateOf(device) === 'rolled_back' ? 'rolled_back' : 'completed',
    );
    for (const { begun } of ended) begun!.isEnded = true;
    await inSystem(this.#node, async (tx) => {
      await tx.raw(
        `update device_upgrades u set state = c.state, finished_at = c.at, updated_at = c.at
        from unnest(?::uuid[], ?::text[], ?::timestamptz[]) as c (id, state, at) where u.id = c.id`,
        [
          ended.map(({ begun }) => begun!.attemptId),
          states,
          ended.map(({ begun }) => new Date(begun!.endsAt)),
        ],
      );
      await tx.raw(
        `update devices set agent_version = u.target_version from device_upgrades u
        where u.id = any(?::uuid[]) and u.state = 'completed' and devices.id = u.device_id`,
        [ended.map(({ begun }) => begun!.attemptId)],
      );
    });
  }

  async #begin(): Promise<void> {
    const [rollout] = await inSystem(this.#node, liveRollouts);
    if (rollout === undefined) return;
    const beginning = this.#devices.filter(
      (device) =>
        device.isConnected && device.begun === undefined && waveOf(rollout, device.id) === 'reached',
    );
    for (const device of beginning) {
      const minutes = 2 + this.#options.random() * (LONGEST_UPGRADE_MINUTES - 2);
      device.begun = { attemptId: newId(), endsAt: this.#nowMs + minutes * MINUTE_MS, isEnded: false };
    }
    const now = new Date(this.#nowMs);
    const rows = beginning.map(({ id, orgId, begun }) => ({
      id: begun!.attemptId,
      attempt_id: begun!.attemptId,
      org_id: orgId,
      device_id: id,
      component: rollout.component,
      from_version: '1.0.0',
      target_version: rollout.version,
      state: 'installing',
      rollout_id: rollout.id,
      started_at: now,
      updated_at: now,
    }));
    await inSystem(this.#node, async (tx) => {
      await tx.batchInsert('device_upgrades', rows, 1000);
    });
  }
}
