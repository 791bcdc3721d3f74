import { randomUUID } from 'node:crypto';
import path from 'node:path';
import { z } from 'zod';
import { clock, type Timer } from '../../clock.ts';
import { Credentials } from '../core/settings.ts';
import { enroll } from '../core/enroll.ts';
import { readPrivateJson, writePrivateJson } from '../os/files/private-file.ts';
import { environmentNetwork } from '../os/network/network.ts';
import { EXIT, type ServerAccess, ServerCallError } from '../core/server-call.ts';
import {
  circumstancesOf,
  fraction,
  describeSynthetic,
  firstVersionOf,
  type HostNames,
} from './synthetic-machine.ts';
import { SimulatedMachine } from './simulated-machine.ts';

/** The events that the fleet reports to its caller. */
export type FleetEvent =
  | { event: 'fleet.enrolled'; done: number; total: number }
  | { event: 'fleet.connected'; devices: number; tookMs: number }
  | { event: 'fleet.stopped' };

export interface FleetKey {
  key: string;
  share: number;
  /** The naming pattern of machines that are enrolled with this key. */
  hosts?: HostNames | undefined;
}

export interface FleetOptions {
  server: string;
  /** Devices are distributed over the keys according to their shares. */
  keys: readonly FleetKey[];
  devices: number;
  /**
   * Events happen: a disk fails, connections are lost, releases are installed, and one more machine is enrolled later.
   * Without this, nothing happens, so a load test has constant load.
   */
  isEventful?: boolean;
  dataDir: string;
  onEvent: (event: FleetEvent) => void;
}

/** The enrolled machines, stored so that the next start runs the same fleet. */
const FleetFile = z.object({
  fleetId: z.string(),
  devices: z.record(z.string(), Credentials),
  /** The versions of machines that were upgraded. */
  versions: z.record(z.string(), z.string()).optional(),
});
type FleetFile = z.infer<typeof FleetFile>;

const ENROLLING_AT_ONCE = 8;
const CONNECTING_AT_ONCE = 50;
const ENROLL_TRIES = 10;
const INVENTORY_SPREAD_MS = 10_000;
const INVENTORY_EACH_MS = 20;
/** Late enough for a user to have opened the page on which it appears. */
const LATE_MS = 45_000;

/** Many simulated machines in one process. */
export class Fleet {
  readonly #options: FleetOptions;
  readonly #access: ServerAccess;
  readonly #file: string;
  readonly #machines: SimulatedMachine[] = [];
  #late: Timer | undefined;
  #saving = Promise.resolve();
  #stopped = false;

  constructor(options: FleetOptions) {
    this.#options = options;
    this.#file = path.join(options.dataDir, 'fleet.json');
    this.#access = { server: options.server, network: environmentNetwork() };
  }

  async start(): Promise<void> {
    const startedAt = clock.monotonic();
    const { devices, isEventful = false } = this.#options;
    const indexes = Array.from({ length: devices }, (_value, index) => index);
    const fleet = await this.#enrolled(indexes);
    await inParallel(indexes, CONNECTING_AT_ONCE, (index) => this.#connected(index, fleet));
    if (this.#stopped) return;
    this.#options.onEvent({
      event: 'fleet.connected',
      devices,
      tookMs: Math.round(clock.monotonic() - startedAt),
    });
    if (!isEventful) return;
    if (fleet.devices[devices] === undefined) this.#welcomeLater(devices, fleet);
    else await this.#connected(devices, fleet);
  }

  stop(): void {
    if (this.#stopped) return;
    this.#stopped = true;
    clock.clear(this.#late);
    for (const machine of this.#machines) machine.stop();
    this.#options.onEvent({ event: 'fleet.stopped' });
  }

  async #enrolled(indexes: number[]): Promise<FleetFile> {
    const { devices, onEvent } = this.#options;
    const kept = FleetFile.safeParse(await readPrivateJson(this.#file));
    const fleet: FleetFile = kept.success ? kept.data : { fleetId: randomUUID(), devices: {} };
    const missing = indexes.filter((index) => fleet.devices[index] === undefined);
    let done = devices - missing.length;
    await inParallel(missing, ENROLLING_AT_ONCE, async (index) => {
      if (this.#stopped) return;
      fleet.devices[index] = await this.#enroll(index, fleet.fleetId);
      done += 1;
      if (done % 100 === 0 || done === devices) onEvent({ event: 'fleet.enrolled', done, total: devices });
    });
    if (missing.length > 0) await this.#save(fleet);
    return fleet;
  }

  async #enroll(index: number, fleetId: string): Promise<Credentials> {
    const { key = '', hosts } = this.#keyFor(index) ?? {};
    const request = { ...describeSynthetic(index, fleetId, hosts), enrollmentKey: key };
    for (let tries = 1; ; tries++) {
      try {
        return (await enroll(this.#access, request)).credentials;
      } catch (error) {
        const mayPass =
          error instanceof ServerCallError &&
          (error.exitCode === EXIT.notReached || error.retryAfterMs !== undefined);
        if (!mayPass || tries === ENROLL_TRIES || this.#stopped) throw error;
        await clock.sleep(error.retryAfterMs ?? 500 * tries);
      }
    }
  }

  #keyFor(index: number): FleetKey | undefined {
    const { keys } = this.#options;
    const total = keys.reduce((sum, { share }) => sum + share, 0);
    let at = fraction(index, 99) * total;
    return keys.find(({ share }) => (at -= share) < 0) ?? keys[0];
  }

  /** Resolves when the machine has connected for the first time. */
  async #connected(index: number, fleet: FleetFile): Promise<void> {
    const credentials = fleet.devices[index];
    if (this.#stopped || credentials === undefined) return;
    const { devices, isEventful = false } = this.#options;
    const machine = new SimulatedMachine({
      access: this.#access,
      index,
      fleetId: fleet.fleetId,
      names: this.#keyFor(index)?.hosts,
      credentials,
      agentVersion: fleet.versions?.[index] ?? firstVersionOf(index),
      circumstances: circumstancesOf(index, isEventful),
      inventorySpreadMs: Math.max(INVENTORY_SPREAD_MS, devices * INVENTORY_EACH_MS),
      onUpgraded: (version) => {
        fleet.versions = { ...fleet.versions, [index]: version };
        void this.#save(fleet);
      },
    });
    this.#machines.push(machine);
    await machine.start();
  }

  /** Enrolls one machine while users are already watching. */
  #welcomeLater(index: number, fleet: FleetFile): void {
    this.#late = clock.setTimeout(() => {
      this.#enroll(index, fleet.fleetId)
        .then((credentials) => {
          fleet.devices[index] = credentials;
          return Promise.all([this.#save(fleet), this.#connected(index, fleet)]);
        })
        // It is enrolled after the next start.
        .catch(() => {});
    }, LATE_MS);
  }

  /** One after another, so that the last state is the one that is stored. */
  #save(fleet: FleetFile): Promise<void> {
    this.#saving = this.#saving.then(() => writePrivateJson(this.#file, fleet));
    return this.#saving;
  }
}

async function inParallel<T>(
  items: readonly T[],
  width: number,
  work: (item: T) => Promise<void>,
): Promise<void> {
  const waiting = items.values();
  const worker = async () => {
    for (const item of waiting) await work(item);
  };
  await Promise.all(Array.from({ length: width }, worker));
}
