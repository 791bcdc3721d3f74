import type { Command } from 'commander';
import { openPrivateFolder } from '../../os/files/private-folder.ts';
import { defaultDataDir } from '../../os/installation/data-folder.ts';
import { defaultProgramsDir } from '../../os/installation/layout.ts';
import { openNetwork } from '../../os/network/open-network.ts';
import { serviceFinding } from '../service.ts';
import {
  checkConnection,
  checkDisk,
  checkEnrollment,
  checkEventLogs,
  checkLog,
  checkName,
  checkReleases,
  checkRestic,
  checkServer,
  type Finding,
} from './checks.ts';

export function addDoctor(program: Command): void {
  program
    .command('doctor')
    .description(
      'check what the agent needs on this machine (exit 0: everything is in order, 1: something is not)',
    )
    .option('--data-dir <folder>', 'folder of the agent', defaultDataDir())
    .option('--programs <folder>', 'folder of the programs', defaultProgramsDir())
    .option('--json', 'print a JSON object', false)
    .action(async (options: { dataDir: string; programs: string; json: boolean }) => {
      const dataDir = await openPrivateFolder(options.dataDir);
      const findings = await examine(dataDir, options.programs);
      const ok = findings.every((finding) => finding.ok);
      if (options.json) console.log(JSON.stringify({ ok, findings }));
      else for (const finding of findings) print(finding);
      process.exitCode = ok ? 0 : 1;
    });
}

async function examine(dataDir: string, programs: string): Promise<Finding[]> {
  const { finding, server } = await checkEnrollment(dataDir);
  const machine = await Promise.all([
    checkEventLogs(),
    ...(server === undefined ? [] : [checkConnection(dataDir)]),
    checkDisk(dataDir),
    checkLog(dataDir),
    checkRestic(),
    serviceFinding({ programs, dataDir, prefix: process.env['MUSTER_PREFIX'] ?? '' }),
    checkReleases(programs, dataDir),
  ]);
  return [finding, ...(server === undefined ? [] : await reach(dataDir, server)), ...machine.flat()];
}

async function reach(dataDir: string, server: URL): Promise<Finding[]> {
  try {
    const network = await openNetwork(dataDir);
    try {
      return [await checkName(server, network), ...(await checkServer(server, network))];
    } finally {
      network.close();
    }
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error);
    return [{ check: 'network', ok: false, message, fix: 'Correct the settings that the message names.' }];
  }
}

function print({ check, ok, message, fix }: Finding): void {
  console.log(`${ok ? '✔' : '✖'} ${check}: ${message}`);
  if (fix !== undefined) console.log(`  ${fix}`);
}
