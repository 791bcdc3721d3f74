import { clock, type Timer } from '../../clock.ts';
import { eventLogHandlers } from '../capabilities/event-logs/handlers.ts';
import { InventoryReports } from '../capabilities/inventory/inventory-reports.ts';
import { sendInventoryTo } from '../capabilities/inventory/send.ts';
import { AgentConnection } from '../core/connection/connection.ts';
import type { Credentials } from '../core/enrollment/credentials.ts';
import { fixedToken } from '../core/enrollment/tokens.ts';
import type { ServerAccess } from '../core/server/server-call.ts';
import { ServerClock } from '../core/server/server-clock.ts';
import { CommandStore } from '../work/command-store.ts';
import { DurableRunner } from '../work/durable-runner.ts';
import { LiveRunner } from '../work/live-runner.ts';
import type { Circumstances } from './circumstances.ts';
import { mix } from './random.ts';
import { syntheticInventory } from './synthetic-inventory.ts';
import { SyntheticLogs } from './synthetic-logs.ts';
import { describeSynthetic, type HostNames, syntheticHeartbeat } from './synthetic-machine.ts';
import { SyntheticUpgrades } from './synthetic-upgrades.ts';
import { memoryJournal, syntheticWork } from './synthetic-work.ts';

export interface MachineOptions {
  access: ServerAccess;
  index: number;
  fleetId: string;
  names: HostNames | undefined;
  credentials: Credentials;
  agentVersion: string;
  circumstances: Circumstances;
  /** Inventories are spread over so long, so that they do not coincide with the storm of connections. */
  inventorySpreadMs: number;
  /** Called when it runs another version. */
  onUpgraded: (version: string) => void;
}

/** Few, because thousands of machines share this process. */
const SYNTHETIC_IDS = 100;
/** For so long a poor connection holds, and for so long it is gone: longer than the grace of the server. */
const CONNECTED_MS = { least: 40_000, more: 50_000 };
const GONE_MS = { least: 9000, more: 14_000 };
/** A restart takes an agent so long. */
const RESTART_MS = 3000;

/** One simulated machine: the real connection and the real runners, on top of made-up logs, figures and software. */
export class SimulatedMachine {
  readonly #options: MachineOptions;
  readonly #serverClock = new ServerClock();
  readonly #settings = { autoUpdate: true };
  readonly #inventory: InventoryReports;
  readonly #queries: LiveRunner;
  readonly #durable: DurableRunner;
  readonly #upgrades: SyntheticUpgrades | undefined;
  #agentVersion: string;
  #connection: AgentConnection | undefined;
  #timer: Timer | undefined;
  #times = 0;
  #isStopped = false;

  constructor(options: MachineOptions) {
    this.#options = options;
    const { access, index, fleetId, names, credentials, circumstances } = options;
    this.#agentVersion = options.agentVersion;
    const described = describeSynthetic(index, fleetId, names);
    const { hostname } = described;
    this.#inventory = new InventoryReports({
      collect: async () => syntheticInventory(index, described),
      send: sendInventoryTo(access, credentials.deviceId),
      tokens: fixedToken(credentials.token),
      serverClock: this.#serverClock,
      warn: () => {},
      spreadMs: options.inventorySpreadMs,
    });
    const { hasFailingDisk } = circumstances;
    this.#queries = new LiveRunner(
      eventLogHandlers(new SyntheticLogs(index, { hostname, hasFailingDisk })),
      this.#serverClock,
    );
    this.#durable = new DurableRunner({
      store: new CommandStore(memoryJournal(), { keepIds: SYNTHETIC_IDS }),
      handlers: syntheticWork(index, hostname, this.#settings, {
        reportNow: () => this.#connection?.heartbeatNow(),
        refreshInventory: async (signal) => this.#inventory.refresh(signal),
      }),
      serverClock: this.#serverClock,
      warn: () => {},
    });
    if (circumstances.installsReleases) {
      this.#upgrades = new SyntheticUpgrades({
        index,
        rollsBack: circumstances.rollsBack,
        version: () => this.#agentVersion,
        restartAs: (version) => this.#restartAs(version),
      });
    }
  }

  /** Resolves when the machine has connected for the first time, or was stopped. */
  async start(): Promise<void> {
    await this.#inventory.start();
    await this.#connect();
    if (this.#options.circumstances.hasPoorConnection) this.#loseConnectionSoon();
  }

  stop(): void {
    this.#isStopped = true;
    clock.clear(this.#timer);
    this.#upgrades?.stop();
    this.#connection?.stop();
    // An inventory that is not delivered before the program ends is sent after the next start.
    void this.#inventory.stop();
  }

  #connect(): Promise<void> {
    const { access, index, fleetId, credentials, circumstances } = this.#options;
    const capabilities = [
      ...this.#queries.capabilities,
      ...this.#durable.capabilities,
      ...(this.#upgrades?.capabilities ?? []),
    ];
    return new Promise((resolve) => {
      const connection = new AgentConnection({
        ...access,
        deviceId: credentials.deviceId,
        tokens: fixedToken(credentials.token),
        handshake: {
          agentVersion: this.#agentVersion,
          capabilities,
          bootId: `${fleetId}-${index}-${this.#agentVersion}`,
        },
        queries: this.#queries,
        durable: this.#durable,
        serverClock: this.#serverClock,
        heartbeat: async () => ({
          ...syntheticHeartbeat(index, clock.now(), {
            agentVersion: this.#agentVersion,
            hasFailingDisk: circumstances.hasFailingDisk,
          }),
          ...this.#settings,
        }),
        onHeartbeatAck: (answer) => this.#upgrades?.acknowledged(answer),
        onConnected: (send) => this.#upgrades?.connected(send),
        onState: (now) => {
          this.#inventory.onState(now);
          const { state } = now;
          if (state === 'connected' || state === 'stopped') resolve();
        },
      });
      this.#connection = connection;
      connection.start();
    });
  }

  async #restartAs(version: string): Promise<void> {
    this.#connection?.stop();
    await clock.sleep(RESTART_MS);
    if (this.#isStopped) return;
    const isNew = version !== this.#agentVersion;
    this.#agentVersion = version;
    await this.#connect();
    if (isNew) this.#options.onUpgraded(version);
  }

  #loseConnectionSoon(): void {
    this.#after(CONNECTED_MS, () => {
      this.#connection?.stop();
      this.#after(GONE_MS, () => {
        void this.#connect();
        this.#loseConnectionSoon();
      });
    });
  }

  #after({ least, more }: { least: number; more: number }, work: () => void): void {
    if (this.#isStopped) return;
    this.#times += 1;
    this.#timer = clock.setTimeout(work, least + (mix(this.#options.index, this.#times) % more));
  }
}
