import { randomUUID } from 'node:crypto';
import { AgentConnection, type ConnectionState } from './connection.ts';
import { CommandRunner } from './command-runner.ts';
import type { Credentials } from './credentials.ts';
import { eventLogHandlers } from './event-logs/handlers.ts';
import { openEventLogs } from './event-logs/open-event-logs.ts';
import { MachineReporter } from './machine.ts';
import { rotateByAge } from './rotate-token.ts';
import { StatusFile } from './status-file.ts';
import { KeptTokens } from './tokens.ts';
import { AGENT_VERSION } from './version.ts';

export interface RunningAgent {
  stop(): Promise<void>;
}

/** The agent of this machine: its logs, its load, one connection. */
export async function runAgent(options: {
  dataDir: string;
  credentials: Credentials;
  onState: (state: ConnectionState) => void;
}): Promise<RunningAgent> {
  const { dataDir, credentials, onState } = options;
  const { server } = credentials;
  const runner = new CommandRunner(eventLogHandlers(await openEventLogs()));
  const reporter = new MachineReporter();
  const status = new StatusFile(dataDir, server);
  const connection = new AgentConnection({
    server,
    tokens: new KeptTokens(dataDir, credentials),
    handshake: {
      agentVersion: AGENT_VERSION,
      capabilities: runner.capabilities,
      bootId: randomUUID(),
    },
    runner,
    heartbeat: () => reporter.heartbeat(),
    onState(state) {
      status.put(state);
      onState(state);
    },
  });
  const rotation = rotateByAge(dataDir);
  connection.start();
  return {
    async stop() {
      rotation.stop();
      connection.stop();
      await status.remove();
    },
  };
}
