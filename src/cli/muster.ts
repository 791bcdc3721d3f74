import { Command } from 'commander';
import { addAudit } from './audit/audit-commands.ts';

/** `npm run muster -- <command>`: what an operator does beside the server. */
const program = new Command('muster').description('Operates a Muster server.');
// 1 is for what a command has found; a call that it cannot make anything of is a failure.
program.exitOverride().configureHelp({ showGlobalOptions: true });
addAudit(program);

try {
  await program.parseAsync();
} catch (error) {
  const isCommander = error instanceof Error && 'exitCode' in error;
  if (!isCommander) process.stderr.write(`${error instanceof Error ? error.message : String(error)}\n`);
  process.exitCode = isCommander && error.exitCode === 0 ? 0 : 2;
}
