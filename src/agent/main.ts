import { Command } from 'commander';
import { addEnroll } from './cli/enroll.ts';
import { addEventLog } from './cli/event-log.ts';
import { addRotateToken } from './cli/rotate-token.ts';
import { addRun } from './cli/run.ts';
import { addSimulate } from './cli/simulate.ts';
import { addStatus } from './cli/status.ts';
import { AGENT_VERSION } from './core/version.ts';

/** `muster-agent`, the program on a managed machine. */
const program = new Command('muster-agent').description(
  'Reports this machine to a Muster server and carries out its commands.',
);
program.version(AGENT_VERSION, '--version', 'print the release of this agent');
program
  .command('version')
  .description('print the release of this agent')
  .action(() => console.log(AGENT_VERSION));
addEnroll(program);
addRun(program);
addStatus(program);
addRotateToken(program);
addEventLog(program);
addSimulate(program);

try {
  await program.parseAsync();
} catch (error) {
  console.error(error instanceof Error ? error.message : String(error));
  process.exitCode =
    error instanceof Error && 'exitCode' in error && typeof error.exitCode === 'number' ? error.exitCode : 1;
}
