import { LiveRunner } from '../../../src/agent/work/live-runner.ts';
import { environmentNetwork } from '../../../src/agent/os/network/network.ts';
import { AgentConnection } from '../../../src/agent/core/connection.ts';
import { CommandStore } from '../../../src/agent/work/command-store.ts';
import { DurableRunner } from '../../../src/agent/work/durable-runner.ts';
import { ServerClock } from '../../../src/agent/core/server-clock.ts';
import { memoryJournal } from '../../../src/agent/simulator/simulated-machine.ts';
import { fixedToken } from '../../../src/agent/core/tokens.ts';
import type { FleetDevice } from '../e2e/faults/support/fleet.ts';

const AGENT_VERSION = '1.0.0';
const ROWS = 3;
/** So long that a command is often in the middle of its work when a fault comes. */
const SCRIPT_MS = 150;

/** The rows that a device answers to a live query with this marker; no other device or query has them. */
export const expectedRows = (deviceId: string, marker: string): string[] =>
  Array.from({ length: ROWS }, (_value, index) => `${deviceId} ${marker} ${index}`);

/** The parts of the real agent, with scripts that only count and logs that repeat what they were asked. */
export interface SimulatedAgent {
  deviceId: string;
  /** It wants to be connected. */
  isPresent(): boolean;
  isConnected(): boolean;
  leave(): void;
  comeBack(): void;
  stop(): Promise<void>;
}

export function simulateAgent(
  device: FleetDevice,
  server: string,
  happened: (effectId: string) => void,
): SimulatedAgent {
  const { deviceId, token } = device;
  const serverClock = new ServerClock();
  const queries = new LiveRunner(
    {
      async 'eventlogs.query'({ text = '' }, { row }) {
        const rows = expectedRows(deviceId, text);
        for (const [recordId, message] of rows.entries()) {
          await row({
            recordId,
            timeCreated: serverClock.timestamp(),
            level: 'information',
            source: 'fault suite',
            eventId: 1,
            message,
            category: '',
            user: null,
            computer: deviceId,
          });
        }
        return { scanned: ROWS, truncated: false, total: ROWS };
      },
    },
    serverClock,
  );
  // It outlives every connection, as the disk of a machine does.
  const durable = new DurableRunner({
    store: new CommandStore(memoryJournal()),
    handlers: {
      async 'script.run'({ parameters }) {
        happened(parameters?.['ID'] ?? '');
        await new Promise((resolve) => setTimeout(resolve, SCRIPT_MS));
        return { exitCode: 0, stdout: '', stderr: '', truncated: false };
      },
    },
    serverClock,
    warn: () => {},
  });
  const network = environmentNetwork({});
  let isConnected = false;
  const connect = () => {
    const connection = new AgentConnection({
      server,
      network,
      deviceId,
      tokens: fixedToken(token),
      handshake: {
        agentVersion: AGENT_VERSION,
        capabilities: [...queries.capabilities, ...durable.capabilities],
        bootId: deviceId,
      },
      queries,
      durable,
      serverClock,
      heartbeat: async () => ({ at: serverClock.timestamp(), agentVersion: AGENT_VERSION }),
      onState: ({ state }) => (isConnected = state === 'connected'),
    });
    connection.start();
    return connection;
  };
  let connection: AgentConnection | undefined = connect();
  const leave = () => {
    connection?.stop();
    connection = undefined;
  };
  return {
    deviceId,
    isPresent: () => connection !== undefined,
    isConnected: () => isConnected,
    leave,
    comeBack() {
      connection ??= connect();
    },
    async stop() {
      leave();
      await durable.stop();
    },
  };
}
