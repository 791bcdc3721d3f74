import type { Command } from 'commander';
import { clock } from '../../clock.ts';
import { type ConnectionState, HTTP_ONLY } from '../core/connection/connection-state.ts';
import { loadCredentials, NOT_ENROLLED } from '../core/enrollment/credentials.ts';
import { defaultDataDir } from '../os/installation/data-folder.ts';
import { openWatchdogLink } from '../core/supervision/watchdog-link.ts';
import { onShutdown } from '../os/processes/shutdown.ts';
import { openPrivateFolder } from '../os/files/private-folder.ts';
import { runAgent } from '../session/run-agent.ts';

export function addRun(program: Command): void {
  program
    .command('run')
    .description('stay connected to the server, in the foreground')
    .option('--data-dir <folder>', 'folder of the agent', defaultDataDir())
    .option('--json', 'print one JSON object per line', false)
    .option('--parent-watch', 'stop when the parent process ends', false)
    .action(async (options: { dataDir: string; json: boolean; parentWatch: boolean }) => {
      const { json, parentWatch } = options;
      const dataDir = await openPrivateFolder(options.dataDir);
      const credentials = await loadCredentials(dataDir);
      if (credentials === undefined) throw Object.assign(new Error(NOT_ENROLLED), { exitCode: 2 });
      const print = json ? printJson : printText;
      const warn = json ? warnJson : warnText;
      // Until the agent has started, there is nothing to be stopped in good order.
      let stop = (): void => process.exit(0);
      const watchdog = await openWatchdogLink(() => stop());
      const agent = await runAgent({
        dataDir,
        credentials,
        onState: changesOnly(print),
        warn,
        ...(watchdog === undefined ? {} : { watchdog }),
      });
      stop = onShutdown({ parentWatch }, () => agent.stop());
    });
}

/** Drops repeated states: those that differ in the time of the last heartbeat only. */
function changesOnly(print: (state: ConnectionState) => void): (state: ConnectionState) => void {
  let last = '';
  return (state) => {
    const { lastHeartbeatAt: _changesEachTime, ...kept } = { lastHeartbeatAt: null, ...state };
    const text = JSON.stringify(kept);
    if (text !== last) print(state);
    last = text;
  };
}

function printJson(state: ConnectionState): void {
  console.log(JSON.stringify({ at: clock.date().toISOString(), event: 'agent.state', ...state }));
}

function warnJson(message: string): void {
  console.log(JSON.stringify({ at: clock.date().toISOString(), event: 'agent.warning', message }));
}

function warnText(message: string): void {
  console.error(`${clock.date().toLocaleTimeString()}  ${message}`);
}

function printText(state: ConnectionState): void {
  const time = clock.date().toLocaleTimeString();
  if (state.state === 'waiting') {
    const seconds = Math.max(0, Math.round((Date.parse(state.nextTryAt) - clock.now()) / 1000));
    console.log(`${time}  ${state.reason} The next attempt is in ${seconds} s.`);
  } else if (state.state === 'http_only') {
    console.log(`${time}  ${HTTP_ONLY}. ${state.reason}`);
  } else {
    console.log(`${time}  ${state.state}`);
  }
}
