import { randomUUID } from 'node:crypto';
import os from 'node:os';
import path from 'node:path';
import { AgentErrorCode } from '../../protocol/index.ts';
import { openBackups } from '../capabilities/backup/handlers.ts';
import { openMachineRestores } from '../capabilities/machine-restores/machine-handlers.ts';
import { databasePorts, openDatabases } from '../capabilities/databases/handlers.ts';
import { EngineWatch } from '../capabilities/backup/engine-watch.ts';
import { LocalEngine } from '../repository/local-engine.ts';
import { eventLogHandlers } from '../capabilities/event-logs/handlers.ts';
import { openEventLogs } from '../capabilities/event-logs/open-event-logs.ts';
import { UnpackSpace } from '../capabilities/event-logs/text/unpack-space.ts';
import { imageHandlers } from '../capabilities/images/handlers.ts';
import { machineQueries, openMachines } from '../capabilities/hypervisors/handlers.ts';
import { findHypervisors } from '../capabilities/hypervisors/hypervisors.ts';
import { collectInventory } from '../capabilities/inventory/collect.ts';
import { inventoryHandlers } from '../capabilities/inventory/handlers.ts';
import { InventoryReports } from '../capabilities/inventory/inventory-reports.ts';
import { OwnIdentity } from '../capabilities/inventory/own-identity.ts';
import { sendInventoryTo } from '../capabilities/inventory/send.ts';
import { machineSources } from '../capabilities/inventory/sources.ts';
import { LogShipping } from '../capabilities/log-shipping/log-shipping.ts';
import { shippedLogs } from '../capabilities/log-shipping/machine-events.ts';
import { powerHandlers } from '../capabilities/power/handlers.ts';
import { machineRebooter } from '../capabilities/power/reboot.ts';
import { recoveryCheckHandlers } from '../capabilities/recovery-checks/handlers.ts';
import { scriptHandlers } from '../capabilities/scripts/handlers.ts';
import { findInterpreters } from '../capabilities/scripts/interpreters.ts';
import { ScriptFolder } from '../capabilities/scripts/script-folder.ts';
import { sqlServerHandlers, sqlServerQueries } from '../capabilities/sql-server/handlers.ts';
import { sqlcmd } from '../sql-server/sqlcmd.ts';
import { shadowCopyHandlers } from '../capabilities/shadow-copies/handlers.ts';
import { updateHandlers } from '../capabilities/update/handlers.ts';
import { openUpdates } from '../capabilities/update/updates.ts';
import { AgentError } from '../core/agent-error.ts';
import { AgentConnection } from '../core/connection/connection.ts';
import { type ConnectionState, reachesServer } from '../core/connection/connection-state.ts';
import { StateLines } from '../core/connection/state-lines.ts';
import type { Credentials } from '../core/enrollment/credentials.ts';
import { rotateByAge } from '../core/enrollment/rotate-token.ts';
import { KeptTokens } from '../core/enrollment/tokens.ts';
import { HeartbeatReporter } from '../core/heartbeat.ts';
import { INSECURE_REFUSAL, INSECURE_WARNING } from '../core/server/server-address.ts';
import { isSecureServer } from '../os/network/secure-server.ts';
import { EXIT, ServerCallError } from '../core/server/server-call.ts';
import { ServerClock } from '../core/server/server-clock.ts';
import { openDeviceFolder } from '../core/state/device-folder.ts';
import { Settings } from '../core/state/settings.ts';
import { StatusFile } from '../core/state/status-file.ts';
import type { DiagnosticLog } from '../os/diagnostics/diagnostic-log.ts';
import { osType } from '../os/machine/os-type.ts';
import { openNetwork } from '../os/network/open-network.ts';
import { findProgram } from '../os/processes/find-program.ts';
import { systemProgram } from '../os/processes/system-program.ts';
import type { WatchdogLink } from '../core/supervision/watchdog-link.ts';
import { AGENT_VERSION } from '../core/version.ts';
import { CommandStore } from '../work/command-store.ts';
import { DurableRunner } from '../work/durable-runner.ts';
import { JournalFile } from '../work/journal-file.ts';
import { LiveRunner } from '../work/live-runner.ts';
import { selfCheck } from './self-check.ts';

export interface DeviceSession {
  stop(): Promise<void>;
}

const STARTED = `agent ${AGENT_VERSION} started`;
const INVENTORY_IS_OFF = 'The settings of this machine forbid sending its inventory.';

export interface SessionOptions {
  dataDir: string;
  credentials: Credentials;
  onState: (state: ConnectionState) => void;
  /** For problems that the agent can work with and that its administrator should know about. */
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
  // Read meanwhile, so that the first connection has it.
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
  const queries = new LiveRunner(
    {
      ...eventLogHandlers(reader),
      ...(isWindows ? { ...shadowCopyHandlers(vss), ...sqlServerQueries(sqlServer) } : {}),
      ...machineQueries(hypervisors),
      ...machineRestores.live,
      ...databases.live,
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
    durable,
    serverClock,
    async heartbeat() {
      await settings.refresh();
      return { ...(await heartbeats.heartbeat()), ...updates?.facts(), autoUpdate: settings.autoUpdate };
    },
    beatAtMostMs: () => watchdog?.beatEveryMs,
    onConnected: (sendStatus) => updates?.connected(sendStatus),
    onHeartbeatAck: (answer) => updates?.acknowledged(answer),
    onState(state) {
      isConnected = reachesServer(state);
      watchdog?.connection({ isConnected: state.state === 'connected', reachesServer: reachesServer(state) });
      status.put(state);
      const line = stateLines.next(state);
      if (line !== undefined) log.write(line.level, 'connection', line.message);
      shipping?.onState(state);
      inventory?.onState(state);
      onState(state);
    },
  });
  await durable.start();
  watchdog?.answerChecks(() => selfCheck({ queries, checkLedger: () => durable.check() }));
  const rotation = rotateByAge(dataDir, () => isConnected);
  connection.start();
  return {
    async stop() {
      rotation.stop();
      engineWatch.stop();
      connection.stop();
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
