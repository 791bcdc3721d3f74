import { randomUUID } from 'node:crypto';
import path from 'node:path';
import { AgentErrorCode } from '../../protocol/index.ts';
import { AgentError } from '../core/agent-error.ts';
import { CommandRunner } from '../work/live-runner.ts';
import { AgentConnection, type ConnectionState } from '../core/connection/connection.ts';
import type { Credentials } from '../core/enrollment/credentials.ts';
import { openDeviceFolder } from '../core/state/device-folder.ts';
import { agentHandlers } from '../capabilities/agent-handlers.ts';
import { CommandStore } from '../work/command-store.ts';
import { DurableRunner } from '../work/durable-runner.ts';
import { JournalFile } from '../work/journal-file.ts';
import { eventLogHandlers } from '../capabilities/event-logs/handlers.ts';
import { openEventLogs } from '../capabilities/event-logs/open-event-logs.ts';
import { UnpackSpace } from '../capabilities/event-logs/text/unpack-space.ts';
import { gatherInventory } from '../capabilities/inventory/gather.ts';
import { InventoryReports } from '../capabilities/inventory/inventory-reports.ts';
import { sendInventoryTo } from '../capabilities/inventory/send.ts';
import { machineSources } from '../capabilities/inventory/sources.ts';
import { MachineReporter } from '../capabilities/inventory/machine.ts';
import { machineRebooter } from '../capabilities/power/reboot.ts';
import { rotateByAge } from '../core/enrollment/rotate-token.ts';
import { scriptHandlers } from '../capabilities/scripts/handlers.ts';
import { findInterpreters } from '../capabilities/scripts/interpreters.ts';
import { ScriptFolder } from '../capabilities/scripts/script-folder.ts';
import { INSECURE_REFUSAL, INSECURE_WARNING, isSecureServer } from '../core/server/server-address.ts';
import { EXIT, ServerCallError } from '../core/server/server-call.ts';
import { ServerClock } from '../core/server/server-clock.ts';
import { Settings } from '../core/state/settings.ts';
import { LogShipping } from '../capabilities/log-shipping/log-shipping.ts';
import { StatusFile } from '../core/state/status-file.ts';
import { KeptTokens } from '../core/enrollment/tokens.ts';
import { AGENT_VERSION } from '../core/version.ts';

export interface DeviceSession {
  stop(): Promise<void>;
}

const INVENTORY_IS_OFF = 'The inventory of this machine is not sent: its settings say so.';

export interface SessionOptions {
  dataDir: string;
  credentials: Credentials;
  onState: (state: ConnectionState) => void;
  /** What a person should know about and the agent can live with. */
  warn: (message: string) => void;
}

/** The agent as one device at one server: its logs, its load, what it is told to do, one connection. */
export async function startSession(options: SessionOptions): Promise<DeviceSession> {
  const { dataDir, credentials, onState } = options;
  const { server, deviceId } = credentials;
  let shipping: LogShipping | undefined;
  const warn = (message: string) => {
    options.warn(message);
    shipping?.log('warn', 'agent', message);
  };
  const own = await openDeviceFolder(dataDir, credentials);
  const clock = new ServerClock();
  const settings = await Settings.load(dataDir, warn);
  if (!isSecureServer(server)) {
    if (!settings.insecureHttp) throw new ServerCallError(EXIT.refused, INSECURE_REFUSAL);
    warn(INSECURE_WARNING);
  }
  const reporter = new MachineReporter();
  const status = new StatusFile(dataDir, server);
  const scripts = new ScriptFolder(dataDir, warn);
  const tokens = new KeptTokens(dataDir, credentials);
  const unpackSpace = new UnpackSpace({ folder: path.join(dataDir, 'unpacked') });
  await unpackSpace.clear();
  const reader = await openEventLogs(unpackSpace);
  if (settings.shipLogs) {
    const parts = { server, deviceId, folder: path.join(own, 'shipping'), tokens, reader, clock };
    shipping = new LogShipping({ ...parts, warn: options.warn });
    await shipping.start();
    shipping.log('info', 'agent', `agent ${AGENT_VERSION} started`);
  }
  const inventory = settings.sendInventory
    ? new InventoryReports({
        gather: async (signal) => gatherInventory(machineSources(signal), warn),
        send: sendInventoryTo(server, deviceId),
        tokens,
        clock,
        file: path.join(own, 'inventory.json'),
        warn,
      })
    : undefined;
  await inventory?.start();
  await scripts.clear();

  const runner = new CommandRunner(eventLogHandlers(reader), clock);
  const durable = new DurableRunner({
    store: new CommandStore(new JournalFile(path.join(own, 'commands.journal'), warn), {
      now: () => clock.now(),
    }),
    handlers: {
      ...scriptHandlers(await findInterpreters(), scripts),
      ...agentHandlers({
        settings,
        rebooter: machineRebooter,
        reportNow() {
          reporter.refresh();
          connection.heartbeatNow();
        },
        async refreshInventory(signal) {
          if (inventory === undefined) throw new AgentError(AgentErrorCode.failed, INVENTORY_IS_OFF);
          await inventory.refresh(signal);
        },
      }),
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
      capabilities: [...runner.capabilities, ...durable.capabilities],
      bootId: randomUUID(),
    },
    runner,
    durable,
    clock,
    heartbeat: async () => ({ ...(await reporter.heartbeat()), autoUpdate: settings.autoUpdate }),
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
