import { z } from 'zod';
import { clock } from '../clock.ts';
import { type CommandResult, type CommandFrame, shortened, AgentErrorCode } from '../protocol/index.ts';
import type { AnswerChannel } from './core/answer-channel.ts';
import {
  type LiveQueries,
  type ConnectionState,
  reachesServer,
  StateLines,
} from './core/connection-options.ts';
import type { HealthCheck, HealthReport } from './os/supervision.ts';
import { randomUUID } from 'node:crypto';
import os from 'node:os';
import path from 'node:path';
import { openBackups, EngineWatch } from './capabilities/backup/handlers.ts';
import { openMachineRestores } from './capabilities/machine-restores/handlers.ts';
import { databasePorts, openDatabases } from './capabilities/databases/handlers.ts';
import { LocalEngine } from './repository/local-engine.ts';
import { eventLogHandlers } from './capabilities/event-logs/log-reader.ts';
import { openEventLogs } from './capabilities/event-logs/open-event-logs.ts';
import { UnpackSpace } from './capabilities/event-logs/text/unpack-space.ts';
import { imageHandlers } from './capabilities/images/handlers.ts';
import { machineQueries, openMachines } from './capabilities/hypervisors/handlers.ts';
import { findHypervisors } from './capabilities/hypervisors/hypervisors.ts';
import { collectInventory, OwnIdentity } from './capabilities/inventory/collect.ts';
import {
  inventoryHandlers,
  InventoryReports,
  sendInventoryTo,
} from './capabilities/inventory/inventory-reports.ts';
import { machineSources } from './os/machine-sources.ts';
import { LogShipping } from './capabilities/log-shipping/log-shipping.ts';
import { shippedLogs } from './capabilities/log-shipping/machine-events.ts';
import { MachineSampler } from './capabilities/metrics/machine-sampler.ts';
import { SampleReports } from './capabilities/metrics/sample-reports.ts';
import { MachineProcesses, processHandlers } from './capabilities/processes/machine-processes.ts';
import { MachineServices } from './capabilities/services/machine-services.ts';
import { ownServices, ServiceControl, serviceHandlers } from './capabilities/services/service-control.ts';
import { ServiceReports } from './capabilities/services/service-reports.ts';
import { powerHandlers, machineRebooter } from './capabilities/power.ts';
import { recoveryCheckHandlers } from './capabilities/recovery-checks.ts';
import { scriptHandlers, findInterpreters, ScriptFolder } from './capabilities/scripts.ts';
import { sqlServerHandlers, sqlServerQueries } from './capabilities/sql-server.ts';
import { sqlcmd } from './sql-server.ts';
import { shadowCopyHandlers } from './capabilities/shadow-copies.ts';
import { findPeopleNotice } from './capabilities/terminals/people-notice.ts';
import { Terminals } from './capabilities/terminals/terminals.ts';
import { findTerminalProcess } from './capabilities/terminals/terminal-process.ts';
import { updateHandlers, openUpdates } from './capabilities/update/updater.ts';
import { AgentError } from './core/agent-error.ts';
import { AgentConnection } from './core/connection.ts';
import { type Credentials, Settings } from './core/settings.ts';
import { rotateByAge, KeptTokens } from './core/tokens.ts';
import { INSECURE_REFUSAL, INSECURE_WARNING, EXIT, ServerCallError } from './core/server-call.ts';
import { isSecureServer, openNetwork } from './os/network/network.ts';
import { ServerClock } from './core/server-clock.ts';
import { openDeviceFolder } from './core/remove-data.ts';
import { StatusFile } from './core/status-file.ts';
import type { DiagnosticLog } from './os/diagnostic-log.ts';
import { osType } from './os/machine.ts';
import { findProgram, systemProgram } from './os/child-process.ts';
import type { WatchdogLink } from './core/watchdog-link.ts';
import { HeartbeatReporter } from './core/heartbeat.ts';
import { AGENT_VERSION } from './core/version.ts';
import { CommandStore } from './work/command-store.ts';
import { DurableRunner } from './work/durable-runner.ts';
import { JournalFile } from './work/journal-file.ts';
import { LiveRunner } from './work/live-runner.ts';

export interface DeviceSession {
  stop(): Promise<void>;
}

const STARTED = `agent ${AGENT_VERSION} started`;
const INVENTORY_IS_OFF = 'The settings of this machine forbid sending its inventory.';

export interface SessionOptions {
  dataDir: string;
  credentials: Credentials;
  onState: (state: ConnectionState) => void;
  /** For problems that do not stop the agent and that its administrator should know. */
  warn: (message: string) => void;
  /** The agent's log on this machine. */
  log: DiagnosticLog;
  /** For tests: see `ConnectionOptions`. */
  httpAfterMs?: number;
  /** The watchdog that runs this agent. Without one, the agent does not upgrade itself. */
  watchdog?: WatchdogLink;
}

/** Starts the agent as one device of one server: its capabilities, its stored commands and its connection. */
export async function startSession(options: SessionOptions): Promise<DeviceSession> {
  const { dataDir, credentials, onState, watchdog, log } = options;
  const { server, deviceId } = credentials;
  let shipping: LogShipping | undefined;
  const warn = (message: string) => {
    options.warn(message);
    log.write('warn', 'agent', message);
    shipping?.log('warn', 'agent', message);
  };
  log.write('info', 'agent', `${STARTED} as device ${deviceId} at ${server}`);
  const folder = await openDeviceFolder(dataDir, credentials);
  const serverClock = new ServerClock();
  const settings = await Settings.load(dataDir, warn);
  if (!isSecureServer(server)) {
    if (!settings.insecureHttp) throw new ServerCallError(EXIT.refused, INSECURE_REFUSAL);
    warn(INSECURE_WARNING);
  }
  const network = await openNetwork(dataDir);
  const access = { server, network };
  const hostname = () => settings.hostname ?? os.hostname();
  const heartbeats = new HeartbeatReporter(hostname);
  const machine = new OwnIdentity(machineSources(), hostname);
  // Read in the background, so that the first connection has it.
  void machine.read();
  const status = new StatusFile(dataDir, server, watchdog?.watchdogVersion);
  const stateLines = new StateLines();
  const scripts = new ScriptFolder(dataDir, warn);
  const tokens = new KeptTokens(dataDir, credentials);
  const unpackSpace = new UnpackSpace({ folder: path.join(dataDir, 'unpacked') });
  await unpackSpace.clear();
  const { reader, hasJournal } = await openEventLogs(unpackSpace);
  if (settings.shipLogs) {
    const parts = { access, deviceId, folder: path.join(folder, 'shipping'), tokens, reader, serverClock };
    shipping = new LogShipping({
      ...parts,
      logs: shippedLogs(process.platform, hasJournal),
      warn(message) {
        options.warn(message);
        log.write('warn', 'shipping', message);
      },
    });
    await shipping.start();
    shipping.log('info', 'agent', STARTED);
  }
  const inventory = settings.sendInventory
    ? new InventoryReports({
        collect: async (signal) => collectInventory(machineSources(signal), warn),
        send: sendInventoryTo(access, deviceId),
        tokens,
        serverClock,
        file: path.join(folder, 'inventory.json'),
        warn,
      })
    : undefined;
  await inventory?.start();
  await scripts.clear();
  const backupFolder = path.join(dataDir, 'backup');
  const engine = new LocalEngine({ folder: backupFolder, warn });
  const backupParts = { engine, server, network, dataDir, folder: backupFolder, warn };
  const backups = await openBackups(backupParts);
  const runSql = sqlcmd({ find: () => findProgram(['sqlcmd']), folder: backupFolder });
  const databases = await openDatabases(backupParts, databasePorts(runSql));
  const hypervisors = await findHypervisors(warn);
  const machines = await openMachines(backupParts, hypervisors);
  const machineRestores = await openMachineRestores(backupParts);

  const engineWatch = new EngineWatch({
    searchPath: process.env['PATH'],
    onChange: () => connection.renew(),
  });
  await engineWatch.start();

  const isWindows = osType() === 'windows';
  const sqlServer = {
    run: runSql,
    registry: systemProgram('reg'),
  };
  const vss = { vssadmin: systemProgram('vssadmin'), whoami: systemProgram('whoami') };
  const machineServices = new MachineServices(machineSources());
  const services = settings.sendInventory
    ? new ServiceReports({ read: () => machineServices.read(), serverClock, warn })
    : undefined;
  const serviceControl = new ServiceControl({
    read: () => machineServices.read(),
    onChanged: (restarted) => services?.refresh(restarted),
    ownServices,
  });
  const terminals = new Terminals({
    start: await findTerminalProcess(),
    notify: await findPeopleNotice(),
    dataDir,
  });
  await terminals.clear();
  const queries = new LiveRunner(
    {
      ...eventLogHandlers(reader),
      ...processHandlers(new MachineProcesses()),
      ...serviceHandlers(serviceControl),
      ...(isWindows ? { ...shadowCopyHandlers(vss), ...sqlServerQueries(sqlServer) } : {}),
      ...machineQueries(hypervisors),
      ...machineRestores.live,
      ...databases.live,
      ...(settings.allowTerminals ? terminals.handlers : {}),
    },
    serverClock,
  );
  const reportNow = () => {
    heartbeats.refresh();
    connection.heartbeatNow();
  };
  const durable = new DurableRunner({
    store: new CommandStore(new JournalFile(path.join(folder, 'commands.journal'), warn), {
      now: () => serverClock.now(),
    }),
    handlers: {
      ...scriptHandlers(await findInterpreters(), scripts),
      ...updateHandlers({ settings, reportNow }),
      ...inventoryHandlers({
        reportNow,
        async refreshInventory(signal) {
          if (inventory === undefined) throw new AgentError(AgentErrorCode.failed, INVENTORY_IS_OFF);
          await inventory.refresh(signal);
        },
      }),
      ...recoveryCheckHandlers(),
      ...powerHandlers(settings.allowReboot, machineRebooter),
      ...backups,
      ...imageHandlers(backupParts),
      ...machines,
      ...(isWindows ? sqlServerHandlers(sqlServer) : {}),
      ...machineRestores.durable,
      ...databases.durable,
    },
    serverClock,
    warn,
  });
  const updates =
    watchdog === undefined
      ? undefined
      : openUpdates({ dataDir, access, link: watchdog, work: durable, settings, warn });
  const sampler = new MachineSampler(machineSources(), () => clock.monotonic());
  const metrics = new SampleReports({
    sample: () => sampler.sample(),
    serverClock,
    file: path.join(folder, 'samples.json'),
    warn,
  });
  let isConnected = false;
  const connection = new AgentConnection({
    server,
    network,
    ...(credentials.hubPath === undefined ? {} : { hubPath: credentials.hubPath }),
    tokens,
    deviceId,
    ...(options.httpAfterMs === undefined ? {} : { httpAfterMs: options.httpAfterMs }),
    handshake: {
      agentVersion: AGENT_VERSION,
      get capabilities() {
        const ofUpdates = updates?.capabilities ?? [];
        const ofWork = [...queries.capabilities, ...durable.capabilities];
        return [...ofWork, ...ofUpdates, ...engineWatch.capabilities, ...hypervisors.capabilities];
      },
      bootId: randomUUID(),
    },
    machine: () => machine.read(),
    queries,
    onTerminalControl: (control) => terminals.control(control),
    durable,
    serverClock,
    async heartbeat() {
      await settings.refresh();
      return { ...(await heartbeats.heartbeat()), ...updates?.facts(), autoUpdate: settings.autoUpdate };
    },
    beatAtMostMs: () => watchdog?.beatEveryMs,
    onConnected(reports) {
      updates?.connected(reports.status);
      metrics.connected(reports.samples);
      services?.connected(reports.services);
    },
    onHeartbeatAck: (answer) => updates?.acknowledged(answer),
    onState(state) {
      isConnected = reachesServer(state);
      watchdog?.connection({ isConnected: state.state === 'connected', reachesServer: reachesServer(state) });
      status.put(state);
      const line = stateLines.next(state);
      if (line !== undefined) log.write(line.level, 'connection', line.message);
      if (state.state !== 'connected') {
        metrics.disconnected();
        services?.disconnected();
      }
      shipping?.onState(state);
      inventory?.onState(state);
      onState(state);
    },
  });
  await durable.start();
  await metrics.start();
  services?.start();
  watchdog?.answerChecks(() => selfCheck({ queries, checkLedger: () => durable.check() }));
  const rotation = rotateByAge(dataDir, () => isConnected);
  connection.start();
  return {
    async stop() {
      rotation.stop();
      engineWatch.stop();
      connection.stop();
      await terminals.close();
      await metrics.stop();
      services?.stop();
      await updates?.stop();
      await durable.stop();
      machineRestores.close();
      await inventory?.stop();
      await shipping?.stop();
      network.close();
      await status.remove();
      log.write('info', 'agent', 'agent stopped');
    },
  };
}

/**
 * The self-checks before and after an upgrade: whether a release can do the work of an agent. Each check uses the code
 * path of the server's own queries and commands, as far as that is possible without the server.
 */

interface SelfCheckParts {
  queries: Pick<LiveQueries, 'run'>;
  /** Writes to the journal of commands. Rejects if that is not possible. */
  checkLedger: () => Promise<void>;
}

type Checks = Record<HealthCheck, () => Promise<void>>;

const CHECK_MS = 10_000;
/** At most this many logs are tried until one can be read. */
const LOGS_TRIED = 3;
const FAULT_MAX = 200;

let lastId = 0;

export async function selfCheck({ queries, checkLedger }: SelfCheckParts): Promise<HealthReport> {
  const checks: Checks = {
    live_query: async () => void (await logsOf(queries)),
    event_log: () => readOneLog(queries),
    command_ledger: checkLedger,
  };
  const report: HealthReport = { works: [], faults: [] };
  // One after another: a query that hangs ends with its time limit, and the others can still report.
  for (const check of ['live_query', 'event_log', 'command_ledger'] as const) {
    try {
      await within(CHECK_MS, checks[check]());
      report.works.push(check);
    } catch (error) {
      const message = error instanceof Error ? error.message : String(error);
      report.faults.push({ check, message: shortened(message, FAULT_MAX) });
    }
  }
  return report;
}

const Logs = z.object({ logs: z.array(z.object({ name: z.string() })) });

async function logsOf(queries: SelfCheckParts['queries']): Promise<z.infer<typeof Logs>['logs']> {
  const { output } = await ask(queries, 'eventlogs.list', {});
  return Logs.parse(output).logs;
}

async function readOneLog(queries: SelfCheckParts['queries']): Promise<void> {
  const logs = await logsOf(queries);
  let fault: unknown = new Error('This machine has no event log that can be read.');
  for (const { name } of logs.slice(0, LOGS_TRIED)) {
    try {
      await ask(queries, 'eventlogs.query', { name, page: 1, limit: 1 });
      return;
    } catch (error) {
      fault = error;
    }
  }
  throw fault;
}

/** A live query whose result is returned to this process instead of the server. */
async function ask(
  queries: SelfCheckParts['queries'],
  type: string,
  payload: unknown,
): Promise<CommandResult> {
  let result: CommandResult | undefined;
  const channel: AnswerChannel = {
    rows: async () => {},
    progress: async () => {},
    result: async (one) => void (result = one),
  };
  const frame: CommandFrame = {
    id: `self-check-${(lastId += 1)}`,
    type,
    payload,
    epoch: 0,
    deadline: new Date(clock.now() + CHECK_MS).toISOString(),
    attempt: 1,
  };
  await queries.run(frame, channel);
  if (result?.status === 'succeeded') return result;
  throw new Error(result?.error?.message ?? `${type} was not answered.`);
}

async function within(ms: number, check: Promise<void>): Promise<void> {
  const timer = new AbortController();
  const late = clock.sleep(ms, { signal: timer.signal }).then(() => {
    throw new Error(`It did not answer within ${ms / 1000} s.`);
  });
  // The sleep is aborted below, and rejects then.
  late.catch(() => {});
  try {
    await Promise.race([check, late]);
  } finally {
    timer.abort();
  }
}
