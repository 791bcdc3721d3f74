import { Command } from 'commander';
import { addAdmin } from './admin/admin-commands.ts';
import { addAudit } from './audit/audit-commands.ts';
import { addCompletion } from './completion/completion-command.ts';
import { addDoctor } from './doctor/doctor-command.ts';
import { addInit } from './init/init-command.ts';
import { addInstallationBackup } from './installation-backup/backup-commands.ts';
import { addReleases } from './releases/release-commands.ts';
import { addRemote } from './remote/remote-commands.ts';
import { addSso } from './sso/sso-commands.ts';
import { addUpgrade } from './upgrade/upgrade-commands.ts';

/** `npm run muster -- <command>`: the command line of the operator, beside the server or far from it. */
const program = new Command('muster').description('Operates a Muster server.');
// Commands exit with 1 to report a finding, so failures and invalid calls exit with 2.
program.exitOverride().configureHelp({ showGlobalOptions: true });
addInit(program);
addDoctor(program);
addUpgrade(program);
addAdmin(program);
addInstallationBackup(program);
addAudit(program);
addSso(program);
addReleases(program);
addRemote(program);
addCompletion(program);

try {
  await program.parseAsync();
} catch (error) {
  const isCommander = error instanceof Error && 'exitCode' in error;
  if (!isCommander) process.stderr.write(`${error instanceof Error ? error.message : String(error)}\n`);
  process.exitCode = isCommander && error.exitCode === 0 ? 0 : 2;
}
