import { randomUUID } from 'node:crypto';
import path from 'node:path';
import { AgentErrorCode } from '../../protocol/index.ts';
import { eventLogHandlers } from '../capabilities/event-logs/handlers.ts';
import { openEventLogs } from '../capabilities/event-logs/open-event-logs.ts';
import { UnpackSpace } from '../capabilities/event-logs/text/unpack-space.ts';
import { collectInventory } from '../capabilities/inventory/collect.ts';
import { inventoryHandlers } from '../capabilities/inventory/handlers.ts';
import { InventoryReports } from '../capabilities/inventory/inventory-reports.ts';
import { sendInventoryTo } from '../capabilities/inventory/send.ts';
import { machineSources } from '../capabilities/inventory/sources.ts';
import { LogShipping } from '../capabilities/log-shipping/log-shipping.ts';
import { powerHandlers } from '../capabilities/power/handlers.ts';
import { machineRebooter } from '../capabilities/power/reboot.ts';
import { scriptHandlers } from '../capabilities/scripts/handlers.ts';
import { findInterpreters } from '../capabilities/scripts/interpreters.ts';
import { ScriptFolder } from '../capabilities/scripts/script-folder.ts';
import { updateHandlers } from '../capabilities/update/handlers.ts';
import { AgentError } from '../core/agent-error.ts';
import { AgentConnection, type ConnectionState } from '../core/connection/connection.ts';
import type { Credentials } from '../core/enrollment/credentials.ts';
import { rotateByAge } from '../core/enrollment/rotate-token.ts';
import { KeptTokens } from '../core/enrollment/tokens.ts';
import { HeartbeatReporter } from '../core/heartbeat.ts';
import { INSECURE_REFUSAL, INSECURE_WARNING, isSecureServer } from '../core/server/server-address.ts';
import { EXIT, ServerCallError } from '../core/server/server-call.ts';
import { ServerClock } from '../core/server/server-clock.ts';
import { openDeviceFolder } from '../core/state/device-folder.ts';
import { Settings } from '../core/state/settings.ts';
import { StatusFile } from '../core/state/status-file.ts';
import { AGENT_VERSION } from '../core/version.ts';
import { CommandStore } from '../work/command-store.ts';
import { DurableRunner } from '../work/durable-runner.ts';
import { JournalFile } from '../work/journal-file.ts';
import { LiveRunner } from '../work/live-runner.ts';

export interface DeviceSession {
  stop(): Promise<void>;
}

const INVENTORY_IS_OFF = 'The settings of this machine forbid sending its inventory.';

export interface SessionOptions {
  dataDir: string;
  credentials: Credentials;
  onState: (state: ConnectionState) => void;
  /** For problems that the agent can work with and that its administrator should know about. */
  warn: (message: string) => void;
}

/** Starts the agent as one device of one server: its capabilities, its stored commands and its connection. */
export async function startSession(options: SessionOptions): Promise<DeviceSession> {
  const { dataDir, credentials, onState } = options;
  const { server, deviceId } = credentials;
  let shipping: LogShipping | undefined;
  const warn = (message: string) => {
    options.warn(message);
    shipping?.log('warn', 'agent', message);
  };
  const folder = await openDeviceFolder(dataDir, credentials);
  const clock = new ServerClock();
  const settings = await Settings.load(dataDir, warn);
  if (!isSecureServer(server)) {
    if (!settings.insecureHttp) throw new ServerCallError(EXIT.refused, INSECURE_REFUSAL);
    warn(INSECURE_WARNING);
  }
  const heartbeats = new HeartbeatReporter();
  const status = new StatusFile(dataDir, server);
  const scripts = new ScriptFolder(dataDir, warn);
  const tokens = new KeptTokens(dataDir, credentials);
  const unpackSpace = new UnpackSpace({ folder: path.join(dataDir, 'unpacked') });
  await unpackSpace.clear();
  const reader = await openEventLogs(unpackSpace);
  if (settings.shipLogs) {
    const parts = { server, deviceId, folder: path.join(folder, 'shipping'), tokens, reader, clock };
    shipping = new LogShipping({ ...parts, warn: options.warn });
    await shipping.start();
    shipping.log('info', 'agent', `agent ${AGENT_VERSION} started`);
  }
  const inventory = settings.sendInventory
    ? new InventoryReports({
        collect: async (signal) => collectInventory(machineSources(signal), warn),
        send: sendInventoryTo(server, deviceId),
        tokens,
        clock,
        file: path.join(folder, 'inventory.json'),
        warn,
      })
    : undefined;
  await inventory?.start();
  await scripts.clear();

  const queries = new LiveRunner(eventLogHandlers(reader), clock);
  const reportNow = () => {
    heartbeats.refresh();
    connection.heartbeatNow();
  };
  const durable = new DurableRunner({
    store: new CommandStore(new JournalFile(path.join(folder, 'commands.journal'), warn), {
      now: () => clock.now(),
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
      ...powerHandlers(settings.allowReboot, machineRebooter),
    },
    clock,
    warn,
  });
  const connection = new AgentConnection({
    server,
    ...(credentials.hubPath === undefined ? {} : { hubPath: credentials.hubPath }),
    tokens,
    handshake: {
      agentVersion: AGENT_VERSION,
      capabilities: [...queries.capabilities, ...durable.capabilities],
      bootId: randomUUID(),
    },
    queries,
    durable,
    clock,
    heartbeat: async () => ({ ...(await heartbeats.heartbeat()), autoUpdate: settings.autoUpdate }),
    onState(state) {
      status.put(state);
      shipping?.onState(state);
      inventory?.onState(state);
      onState(state);
    },
  });
  await durable.start();
  const rotation = rotateByAge(dataDir);
  connection.start();
  return {
    async stop() {
      rotation.stop();
      connection.stop();
      await durable.stop();
      await inventory?.stop();
      await shipping?.stop();
      await status.remove();
    },
  };
}
