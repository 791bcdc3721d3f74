import { Command } from 'commander';
import { addDoctor } from './cli/doctor.ts';
import { addEnroll, addRotateToken, addUnenroll } from './cli/enroll.ts';
import { addEventLog } from './cli/event-log.ts';
import { addLogs } from './cli/logs.ts';
import { addRecover } from './cli/recover.ts';
import { addRun, addSimulate } from './cli/run.ts';
import { addService } from './cli/service.ts';
import { addStatus } from './cli/status.ts';
import { addUpdate } from './cli/update.ts';
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
addUpdate(program);
addEventLog(program);
addLogs(program);
addService(program);
addDoctor(program);
addUnenroll(program);
addRecover(program);
addSimulate(program);

// No `await` at the top level: the program is also bundled as CommonJS, which has none.
program.parseAsync().catch((error: unknown) => {
  console.error(error instanceof Error ? error.message : String(error));
  process.exitCode =
    error instanceof Error && 'exitCode' in error && typeof error.exitCode === 'number' ? error.exitCode : 1;
});
