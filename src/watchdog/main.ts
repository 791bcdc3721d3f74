// This import must be first: its listener must exist before any other code runs.
import { guardProcess } from './guard.ts';
import { runAgentCommand } from './agent-script.ts';
import { runWatchdogCommand } from './watchdog-command.ts';

/**
 * The executable `muster-agent`. `muster-agent watchdog …` is the watchdog; every other command line is one of the
 * agent, whose script runs in this process.
 */
async function main(): Promise<void> {
  const words = process.argv.slice(2);
  if (words[0] === 'watchdog') await runWatchdogCommand(words.slice(1));
  else await runAgentCommand(words);
}

guardProcess();
main().catch((error: unknown) => {
  console.error(error instanceof Error ? error.message : String(error));
  process.exitCode = 1;
});
