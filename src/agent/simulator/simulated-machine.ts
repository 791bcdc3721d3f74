import { randomUUID } from 'node:crypto';
import { clock, type Timer } from '../../clock.ts';
import {
  AgentErrorCode,
  type HeartbeatAck,
  type UpdateStatus,
  UPGRADE_CAPABILITY,
} from '../../protocol/index.ts';
import { eventLogHandlers } from '../capabilities/event-logs/log-reader.ts';
import {
  InventoryReports,
  sendInventoryTo,
  inventoryHandlers,
} from '../capabilities/inventory/inventory-reports.ts';
import { processHandlers } from '../capabilities/processes/machine-processes.ts';
import { serviceHandlers } from '../capabilities/services/service-control.ts';
import { ServiceReports } from '../capabilities/services/service-reports.ts';
import { powerHandlers } from '../capabilities/power.ts';
import { updateHandlers } from '../capabilities/update/updater.ts';
import { AgentError } from '../core/agent-error.ts';
import type { SendStatus } from '../core/answer-channel.ts';
import { AgentConnection } from '../core/connection.ts';
import type { Credentials } from '../core/settings.ts';
import type { ServerAccess } from '../core/server-call.ts';
import { ServerClock } from '../core/server-clock.ts';
import { fixedToken } from '../core/tokens.ts';
import { CommandStore } from '../work/command-store.ts';
import { DurableRunner } from '../work/durable-runner.ts';
import type { DurableHandlers } from '../work/handler.ts';
import type { Journal } from '../work/journal-file.ts';
import { LiveRunner } from '../work/live-runner.ts';
import { SyntheticLogs } from './synthetic-logs.ts';
import { SyntheticProcesses } from './synthetic-processes.ts';
import { SyntheticServices, syntheticServices } from './synthetic-services.ts';
import { syntheticSample, SyntheticSamples } from './synthetic-samples.ts';
import {
  type Circumstances,
  mix,
  describeSynthetic,
  type HostNames,
  syntheticHeartbeat,
  pick,
  syntheticInventory,
} from './synthetic-machine.ts';

export interface MachineOptions {
  access: ServerAccess;
  index: number;
  fleetId: string;
  names: HostNames | undefined;
  credentials: Credentials;
  agentVersion: string;
  circumstances: Circumstances;
  /** Inventories are spread over this time, so that they do not coincide with the wave of connections. */
  inventorySpreadMs: number;
  /** Called after an upgrade. */
  onUpgraded: (version: string) => void;
}

/** Few, because thousands of machines share this process. */
const SYNTHETIC_IDS = 100;
/** How long a poor connection holds, and how long it is gone: longer than the grace period of the server. */
const CONNECTED_MS = { least: 40_000, more: 50_000 };
const GONE_MS = { least: 9000, more: 14_000 };
/** Soon, because a simulated machine has no services that are still starting. */
const SERVICES_FIRST_MS = 1000;
/** Duration of an agent's restart. */
const RESTART_MS = 3000;

/** One simulated machine: the real connection and the real runners, with invented logs, figures and software. */
export class SimulatedMachine {
  readonly #options: MachineOptions;
  readonly #serverClock = new ServerClock();
  readonly #settings = { autoUpdate: true };
  readonly #inventory: InventoryReports;
  readonly #queries: LiveRunner;
  readonly #durable: DurableRunner;
  readonly #upgrades: SyntheticUpgrades | undefined;
  readonly #samples: SyntheticSamples | undefined;
  readonly #services: ServiceReports | undefined;
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
    const liveServices = new SyntheticServices({
      read: () => syntheticServices(index, clock.now(), circumstances),
      onChanged: (restarted) => this.#services?.refresh(restarted),
    });
    this.#queries = new LiveRunner(
      {
        ...eventLogHandlers(new SyntheticLogs(index, { hostname, hasFailingDisk })),
        ...processHandlers(new SyntheticProcesses(index)),
        ...serviceHandlers(liveServices),
      },
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
    if (circumstances.sendsSamples) {
      this.#samples = new SyntheticSamples({
        index,
        sampleAt: (at) => syntheticSample(index, at, this.#figures()),
        now: () => this.#serverClock.now(),
      });
    }
    if (circumstances.reportsServices) {
      this.#services = new ServiceReports({
        read: async () => liveServices.now(),
        serverClock: this.#serverClock,
        warn: () => {},
        firstMs: SERVICES_FIRST_MS,
      });
    }
  }

  /** Resolves when the machine has connected for the first time, or was stopped. */
  async start(): Promise<void> {
    await this.#inventory.start();
    this.#services?.start();
    await this.#connect();
    if (this.#options.circumstances.hasPoorConnection) this.#loseConnectionSoon();
  }

  stop(): void {
    this.#isStopped = true;
    clock.clear(this.#timer);
    this.#upgrades?.stop();
    this.#samples?.stop();
    this.#services?.stop();
    this.#connection?.stop();
    // An inventory that is not delivered before the program ends is sent after the next start.
    void this.#inventory.stop();
  }

  #connect(): Promise<void> {
    const { access, index, fleetId, credentials } = this.#options;
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
          ...syntheticHeartbeat(index, clock.now(), this.#figures()),
          ...this.#settings,
        }),
        onHeartbeatAck: (answer) => this.#upgrades?.acknowledged(answer),
        onConnected: ({ status, samples, services }) => {
          this.#upgrades?.connected(status);
          this.#samples?.connected(samples);
          this.#services?.connected(services);
        },
        onState: (now) => {
          this.#inventory.onState(now);
          const { state } = now;
          if (state !== 'connected') this.#services?.disconnected();
          if (state === 'connected' || state === 'stopped') resolve();
        },
      });
      this.#connection = connection;
      connection.start();
    });
  }

  /** What the figures of the machine depend on. */
  #figures() {
    return {
      agentVersion: this.#agentVersion,
      hasFailingDisk: this.#options.circumstances.hasFailingDisk,
    };
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

/** The durable commands of a simulated machine. None of them affects the machine that runs the simulation. */
function syntheticWork(
  index: number,
  hostname: string,
  settings: { autoUpdate: boolean },
  report: { reportNow: () => void; refreshInventory: (signal: AbortSignal) => Promise<void> },
): DurableHandlers {
  return {
    ...updateHandlers({
      settings: {
        async setAutoUpdate(enabled) {
          settings.autoUpdate = enabled;
        },
      },
      reportNow: report.reportNow,
    }),
    ...inventoryHandlers(report),
    ...powerHandlers(true, { check() {}, async reboot() {} }),
    async 'script.run'({ language, content }, { signal, rows }) {
      const stdout = `${hostname}: ${content.length} characters of ${language} were not run: this machine is simulated.\n`;
      await rows([{ stream: 'stdout', text: stdout }]);
      await clock.sleep(pick([200, 500, 1000, 2000], index, 20), { signal }).catch(() => {
        throw new AgentError(AgentErrorCode.cancelled, 'The script was stopped.');
      });
      return { exitCode: 0, stdout, stderr: '', truncated: false };
    },
  };
}

/** A simulated machine stores nothing beyond the life of its process. */
export function memoryJournal(): Journal {
  return {
    size: 0,
    open: async () => ({ records: [], isDamaged: false }),
    async write(_record, written) {
      written?.();
    },
    async replace() {},
    async close() {},
  };
}

/**
 * The upgrades of a simulated machine: it reports the phases of a real one, connects again and names the new version.
 * Nothing is downloaded and nothing is installed.
 */

interface Machine {
  index: number;
  /** An upgrade to a new release fails. */
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
