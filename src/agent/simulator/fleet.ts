import { randomUUID } from 'node:crypto';
import path from 'node:path';
import { z } from 'zod';
import { LiveRunner } from '../work/live-runner.ts';
import { AgentConnection } from '../core/connection/connection.ts';
import { Credentials } from '../core/enrollment/credentials.ts';
import { CommandStore } from '../work/command-store.ts';
import { DurableRunner } from '../work/durable-runner.ts';
import { enroll } from '../core/enrollment/enroll.ts';
import { eventLogHandlers } from '../capabilities/event-logs/handlers.ts';
import { InventoryReports } from '../capabilities/inventory/inventory-reports.ts';
import { sendInventoryTo } from '../capabilities/inventory/send.ts';
import { readPrivateJson, writePrivateJson } from '../os/files/private-file.ts';
import { environmentNetwork } from '../os/network/open-network.ts';
import { EXIT, type ServerAccess, ServerCallError } from '../core/server/server-call.ts';
import { ServerClock } from '../core/server/server-clock.ts';
import { fixedToken } from '../core/enrollment/tokens.ts';
import { fraction } from './random.ts';
import { syntheticInventory } from './synthetic-inventory.ts';
import { SyntheticLogs } from './synthetic-logs.ts';
import { describeSynthetic, syntheticHeartbeat } from './synthetic-machine.ts';
import { memoryJournal, syntheticWork } from './synthetic-work.ts';

/** The events that the fleet reports to its caller. */
export type FleetEvent =
  | { event: 'fleet.enrolled'; done: number; total: number }
  | { event: 'fleet.connected'; devices: number; tookMs: number }
  | { event: 'fleet.stopped' };

export interface FleetOptions {
  server: string;
  /** Devices are distributed over the keys according to their shares. */
  keys: readonly { key: string; share: number }[];
  devices: number;
  dataDir: string;
  onEvent: (event: FleetEvent) => void;
}

/** The enrolled machines, stored so that the next start runs the same fleet. */
const FleetFile = z.object({ fleetId: z.string(), devices: z.record(z.string(), Credentials) });
type FleetFile = z.infer<typeof FleetFile>;

const ENROLLING_AT_ONCE = 8;
const CONNECTING_AT_ONCE = 50;
const ENROLL_TRIES = 10;
/** Few, because thousands of machines share this process. */
const SYNTHETIC_IDS = 100;
/** Inventories are spread over time, so that they do not coincide with the storm of connections. */
const INVENTORY_SPREAD_MS = 10_000;
const INVENTORY_EACH_MS = 20;

/** Many agents in one process: the real connection and the real runners, on top of simulated machines. */
export class Fleet {
  readonly #options: FleetOptions;
  readonly #access: ServerAccess;
  readonly #connections = new Map<number, AgentConnection>();
  readonly #inventories: InventoryReports[] = [];
  #stopped = false;

  constructor(options: FleetOptions) {
    this.#options = options;
    this.#access = { server: options.server, network: environmentNetwork() };
  }

  async start(): Promise<void> {
    const startedAt = performance.now();
    const { devices } = this.#options;
    const indexes = Array.from({ length: devices }, (_value, index) => index);
    const fleet = await this.#enrolled(indexes);
    await inParallel(indexes, CONNECTING_AT_ONCE, (index) => this.#connected(index, fleet));
    if (!this.#stopped) {
      this.#options.onEvent({
        event: 'fleet.connected',
        devices,
        tookMs: Math.round(performance.now() - startedAt),
      });
    }
  }

  stop(): void {
    if (this.#stopped) return;
    this.#stopped = true;
    for (const connection of this.#connections.values()) connection.stop();
    // An inventory that is not delivered before the program ends is sent after the next start.
    for (const inventory of this.#inventories) void inventory.stop();
    this.#options.onEvent({ event: 'fleet.stopped' });
  }

  async #enrolled(indexes: number[]): Promise<FleetFile> {
    const { dataDir, devices, onEvent } = this.#options;
    const file = path.join(dataDir, 'fleet.json');
    const kept = FleetFile.safeParse(await readPrivateJson(file));
    const fleet: FleetFile = kept.success ? kept.data : { fleetId: randomUUID(), devices: {} };
    const missing = indexes.filter((index) => fleet.devices[index] === undefined);
    let done = devices - missing.length;
    await inParallel(missing, ENROLLING_AT_ONCE, async (index) => {
      if (this.#stopped) return;
      fleet.devices[index] = await this.#enroll(index, fleet.fleetId);
      done += 1;
      if (done % 100 === 0 || done === devices) onEvent({ event: 'fleet.enrolled', done, total: devices });
    });
    if (missing.length > 0) await writePrivateJson(file, fleet);
    return fleet;
  }

  async #enroll(index: number, fleetId: string): Promise<Credentials> {
    const request = { ...describeSynthetic(index, fleetId), enrollmentKey: this.#keyFor(index) };
    for (let tries = 1; ; tries++) {
      try {
        return (await enroll(this.#access, request)).credentials;
      } catch (error) {
        const mayPass =
          error instanceof ServerCallError &&
          (error.exitCode === EXIT.notReached || error.retryAfterMs !== undefined);
        if (!mayPass || tries === ENROLL_TRIES || this.#stopped) throw error;
        await new Promise((resolve) => setTimeout(resolve, error.retryAfterMs ?? 500 * tries));
      }
    }
  }

  #keyFor(index: number): string {
    const { keys } = this.#options;
    const total = keys.reduce((sum, { share }) => sum + share, 0);
    let at = fraction(index, 99) * total;
    return (keys.find(({ share }) => (at -= share) < 0) ?? keys[0])?.key ?? '';
  }

  /** Resolves when the machine has connected for the first time. */
  async #connected(index: number, fleet: FleetFile): Promise<void> {
    const credentials = fleet.devices[index];
    if (this.#stopped || credentials === undefined) return;
    const clock = new ServerClock();
    const settings = { autoUpdate: true };
    const tokens = fixedToken(credentials.token);
    const inventory = new InventoryReports({
      collect: async () => syntheticInventory(index, describeSynthetic(index, fleet.fleetId)),
      send: sendInventoryTo(this.#access, credentials.deviceId),
      tokens,
      clock,
      warn: () => {},
      spreadMs: Math.max(INVENTORY_SPREAD_MS, this.#options.devices * INVENTORY_EACH_MS),
    });
    this.#inventories.push(inventory);
    await inventory.start();
    const queries = new LiveRunner(eventLogHandlers(new SyntheticLogs(index)), clock);
    const durable = new DurableRunner({
      store: new CommandStore(memoryJournal(), { keepIds: SYNTHETIC_IDS }),
      handlers: syntheticWork(index, settings, {
        reportNow: () => this.#connections.get(index)?.heartbeatNow(),
        refreshInventory: async (signal) => inventory.refresh(signal),
      }),
      clock,
      warn: () => {},
    });
    const { agentVersion } = syntheticHeartbeat(index, Date.now());
    await new Promise<void>((resolve) => {
      const connection = new AgentConnection({
        ...this.#access,
        deviceId: credentials.deviceId,
        tokens,
        handshake: {
          agentVersion,
          capabilities: [...queries.capabilities, ...durable.capabilities],
          bootId: `${fleet.fleetId}-${index}`,
        },
        queries,
        durable,
        clock,
        heartbeat: async () => ({ ...syntheticHeartbeat(index, Date.now()), ...settings }),
        onState: (now) => {
          inventory.onState(now);
          const { state } = now;
          if (state === 'connected' || state === 'stopped') resolve();
        },
      });
      this.#connections.set(index, connection);
      connection.start();
    });
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
