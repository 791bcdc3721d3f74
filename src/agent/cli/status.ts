import type { Command } from 'commander';
import { readUpgradeState, upgradeSentences } from '../capabilities/update/upgrade-state.ts';
import { HTTP_ONLY, PENDING } from '../core/connection-options.ts';
import { loadCredentials, NOT_ENROLLED, Settings } from '../core/settings.ts';
import { printable } from '../core/plain-text.ts';
import { AGENT_VERSION } from '../core/version.ts';
import { currentRelease, defaultDataDir, defaultProgramsDir } from '../os/releases/layout.ts';
import { runningAgent, type AgentStatus } from '../core/status-file.ts';

export function addStatus(program: Command): void {
  program
    .command('status')
    .description(
      'show whether the agent is enrolled, running and connected (exit 0: connected, 1: not connected, or over HTTP only, 2: not enrolled)',
    )
    .option('--data-dir <folder>', 'folder of the agent', defaultDataDir())
    .option('--json', 'print a JSON object', false)
    .option('--programs <folder>', 'folder of the programs', defaultProgramsDir())
    .action(async ({ dataDir, programs, json }: { dataDir: string; programs: string; json: boolean }) => {
      const credentials = await loadCredentials(dataDir);
      const running = credentials === undefined ? undefined : await runningAgent(dataDir);
      const enrollment =
        credentials === undefined
          ? undefined
          : { server: credentials.server, deviceId: credentials.deviceId };
      const versions = {
        agentVersion: running?.agentVersion ?? (await currentRelease(programs, 'agent')) ?? AGENT_VERSION,
        watchdogVersion: running?.watchdogVersion ?? (await currentRelease(programs, 'watchdog')) ?? null,
      };
      const settings = await Settings.load(dataDir, (message) => console.error(message));
      const upgrade = await readUpgradeState(dataDir, settings.autoUpdate);
      if (json) {
        const enrolled = enrollment !== undefined;
        console.log(
          JSON.stringify({ enrolled, ...enrollment, running: running ?? null, ...versions, upgrade }),
        );
      } else if (enrollment === undefined) console.log(NOT_ENROLLED);
      else {
        const lines = [
          sentence(enrollment, running),
          versionSentence(versions),
          ...upgradeSentences(upgrade),
        ];
        for (const line of lines) console.log(printable(line, LINE_MAX));
      }
      process.exitCode = enrollment === undefined ? 2 : running?.connection.state === 'connected' ? 0 : 1;
    });
}

const LINE_MAX = 3000;

function versionSentence(versions: { agentVersion: string; watchdogVersion: string | null }): string {
  const { agentVersion, watchdogVersion } = versions;
  return `The agent is ${agentVersion}; ${watchdogVersion === null ? 'no watchdog is installed' : `its watchdog is ${watchdogVersion}`}.`;
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
      return `Enrolled ${as}, running (process ${pid}), connected since ${connection.since}, last heartbeat ${connection.lastHeartbeatAt ?? 'none yet'}.${connection.isPending === true ? ` The device ${PENDING}.` : ''}`;
    case 'http_only':
      return `Enrolled ${as}, running (process ${pid}), ${HTTP_ONLY}. Since ${connection.since}, last heartbeat ${connection.lastHeartbeatAt}. ${connection.reason}`;
    case 'waiting':
      return `Enrolled ${as}, running (process ${pid}), not connected. ${connection.reason} The next attempt is at ${connection.nextTryAt}.`;
    default:
      return `Enrolled ${as}, running (process ${pid}), ${connection.state}.`;
  }
}
