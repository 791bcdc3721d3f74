import type { Command } from 'commander';
import { defaultDataDir, loadCredentials, NOT_ENROLLED } from '../core/enrollment/credentials.ts';
import { runningAgent, type AgentStatus } from '../core/state/status-file.ts';

export function addStatus(program: Command): void {
  program
    .command('status')
    .description(
      'show whether the agent is enrolled, running and connected (exit 0: connected, 1: not connected, 2: not enrolled)',
    )
    .option('--data-dir <folder>', 'folder of the agent', defaultDataDir())
    .option('--json', 'print a JSON object', false)
    .action(async ({ dataDir, json }: { dataDir: string; json: boolean }) => {
      const credentials = await loadCredentials(dataDir);
      const running = credentials === undefined ? undefined : await runningAgent(dataDir);
      const enrollment =
        credentials === undefined
          ? undefined
          : { server: credentials.server, deviceId: credentials.deviceId };
      if (json) {
        console.log(
          JSON.stringify({ enrolled: enrollment !== undefined, ...enrollment, running: running ?? null }),
        );
      } else console.log(enrollment === undefined ? NOT_ENROLLED : sentence(enrollment, running));
      process.exitCode = enrollment === undefined ? 2 : running?.connection.state === 'connected' ? 0 : 1;
    });
}

function sentence(
  { server, deviceId }: { server: string; deviceId: string },
  running: AgentStatus | undefined,
): string {
  const as = `as device ${deviceId} at ${server}`;
  if (running === undefined) return `Enrolled ${as}, stopped.`;
  const { connection, pid } = running;
  switch (connection.state) {
    case 'connected':
      return `Enrolled ${as}, running (process ${pid}), connected since ${connection.since}, last heartbeat ${connection.lastHeartbeatAt ?? 'none yet'}.`;
    case 'waiting':
      return `Enrolled ${as}, running (process ${pid}), not connected. ${connection.reason} The next attempt is at ${connection.nextTryAt}.`;
    default:
      return `Enrolled ${as}, running (process ${pid}), ${connection.state}.`;
  }
}
