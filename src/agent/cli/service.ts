import { execFile } from 'node:child_process';
import { rm } from 'node:fs/promises';
import { isSea } from 'node:sea';
import path from 'node:path';
import { promisify } from 'node:util';
import type { Command } from 'commander';
import { loadCredentials, NOT_ENROLLED } from '../core/settings.ts';
import { PROGRAM } from '../core/version.ts';
import { hasCode } from '../os/files/private-file.ts';
import { openPrivateFolder } from '../os/files/private-folder.ts';
import {
  defaultDataDir,
  defaultProgramsDir,
  ownProgramsDir,
  programFile,
  stableProgram,
} from '../os/releases/layout.ts';
import {
  commandScript,
  installProgram,
  writeIfChanged,
  runManager,
  serviceManager,
  type ServiceManager,
} from '../os/service-manager.ts';
import { linkedProgram, type ServicePlace } from '../os/service-definitions.ts';

const EXIT = { running: 0, stopped: 1, not_installed: 2, noManager: 3 } as const;
const VERSION_MS = 30_000;

interface Options {
  dataDir?: string;
  programs?: string;
  prefix: string;
}

export function addService(program: Command): void {
  const service = program
    .command('service')
    .description('the agent as a service of this machine, which starts with it');
  const verb = (name: string, description: string, action: (place: ServicePlace) => Promise<void>) =>
    withPlace(service.command(name).description(description)).action(async (options: Options) =>
      action(placeOf(options)),
    );

  withPlace(service.command('install'))
    .description('copy this program to its place, install the service and start it')
    .option('--no-start', 'only copy the program, as for a container')
    .action(async (options: Options & { start: boolean }) => install(placeOf(options), options.start));
  verb('start', 'start the service', async (place) => {
    await (await managerOf(place)).start();
    console.log('The service is started.');
  });
  verb('stop', 'stop the service until it is started again', async (place) => {
    await (await managerOf(place)).stop();
    console.log('The service is stopped.');
  });
  verb('status', 'exit 0: running, 1: stopped, 2: not installed, 3: no service manager', async (place) => {
    const manager = await managerOf(place);
    const state = await manager.state();
    console.log(`${manager.name}, ${manager.file}: ${state.replace('_', ' ')}`);
    process.exitCode = EXIT[state];
  });
  verb('remove', 'stop the service and remove it; programs and data stay', remove);
}

const withPlace = (command: Command): Command =>
  command
    .option('--data-dir <folder>', 'folder of the agent')
    .option('--programs <folder>', 'folder of the programs')
    .option(
      '--prefix <folder>',
      'for images and tests: a folder in place of / for everything that is installed',
      process.env['MUSTER_PREFIX'] ?? '',
    );

async function install(place: ServicePlace, starts: boolean): Promise<void> {
  if (!isSea()) throw new Error('Only the packaged program installs itself. Build it: npm run build:agent');
  assertRights(place);
  await openPrivateFolder(place.dataDir);
  if ((await loadCredentials(place.dataDir)) === undefined) {
    throw Object.assign(new Error(NOT_ENROLLED), { exitCode: 2 });
  }
  // Check before anything is written: without a service manager, nothing would start the installed program.
  const manager = starts ? await managerOf(place) : undefined;
  const version = await ownVersion();
  const programChanged = await installProgram(place.programs, process.execPath, version).catch(
    (error: unknown) => {
      throw explained(error, place.programs);
    },
  );
  console.log(`Program: ${programFile(place.programs, 'watchdog', version)}`);
  await placeCommand(place);
  if (manager === undefined) return;
  const serviceChanged = await manager.install().catch((error: unknown) => {
    if (!isNotWritable(error)) throw error;
    const message = `The service cannot be installed: ${manager.file} cannot be written (is the folder mounted read-only?). Nothing starts the agent with the machine, so keep this running: ${foregroundCommand(place)}`;
    throw new Error(message, { cause: error });
  });
  console.log(`Service: ${manager.file}`);
  const state = await manager.state();
  if (!programChanged && !serviceChanged && state === 'running') {
    console.log('Everything was installed before, and the service is running.');
    return;
  }
  await manager.restart();
  console.log('The service is started.');
}

/** The service does not need the command, so a folder that cannot be written to is not an error. */
async function placeCommand(place: ServicePlace): Promise<void> {
  const command = commandFile(place);
  if (command === undefined) return;
  try {
    await writeIfChanged(command, commandScript(place), 0o755);
    console.log(`Command: ${command}`);
  } catch (error) {
    if (!isNotWritable(error)) throw error;
    console.error(`${command} cannot be written. Use ${linkedProgram(place)} in its place.`);
  }
}

const NOT_WRITABLE = ['EROFS', 'EACCES', 'EPERM'];
const isNotWritable = (error: unknown) => NOT_WRITABLE.some((code) => hasCode(error, code));

/** Advice for a programs folder that cannot be written to. */
function explained(error: unknown, programs: string): unknown {
  if (!isNotWritable(error)) return error;
  const message = `The program cannot be installed in ${programs}, which cannot be written to (is it mounted read-only?). Choose another folder: ${PROGRAM} service install --programs FOLDER`;
  return new Error(message, { cause: error });
}

/** For `doctor`. A machine without a service manager is in order: its agent runs in the foreground. */
export async function serviceFinding(
  place: ServicePlace,
): Promise<{ check: string; ok: boolean; message: string; fix?: string }> {
  const check = 'service';
  const manager = await findManager(place);
  if (manager === undefined) return { check, ok: true, message: 'no service manager on this machine' };
  const state = await manager.state();
  const message = `${manager.name}: ${state.replace('_', ' ')}`;
  if (state === 'running') return { check, ok: true, message };
  const verb = state === 'stopped' ? 'start' : 'install';
  return { check, ok: false, message, fix: `Run: ${PROGRAM} service ${verb}` };
}

async function remove(place: ServicePlace): Promise<void> {
  assertRights(place);
  const manager = await findManager(place);
  await manager?.remove();
  const command = commandFile(place);
  if (command !== undefined) await rm(command, { force: true });
  console.log('The service is removed.');
}

/** The version of the executable, which differs from the version of the script that runs in it. */
async function ownVersion(): Promise<string> {
  const { stdout } = await promisify(execFile)(process.execPath, ['watchdog', 'version'], {
    timeout: VERSION_MS,
    windowsHide: true,
  });
  return stdout.trim();
}

function placeOf({ dataDir, programs, prefix }: Options): ServicePlace {
  const root = prefix === '' ? '' : path.resolve(prefix);
  const inRoot = (folder: string) => (root === '' ? folder : path.join(root, folder));
  return {
    prefix: root,
    programs: path.resolve(programs ?? ownProgramsDir() ?? inRoot(defaultProgramsDir())),
    dataDir: path.resolve(dataDir ?? process.env['MUSTER_AGENT_DIR'] ?? inRoot(defaultDataDir())),
  };
}

/** The command as a user types it. On Windows, the folder of the programs is not on the search path. */
const commandFile = ({ prefix }: ServicePlace): string | undefined =>
  process.platform === 'win32' ? undefined : path.join(prefix, '/usr/local/bin/muster-agent');

async function findManager(place: ServicePlace): Promise<ServiceManager | undefined> {
  const program = isSea() ? stableProgram(place.programs) : process.execPath;
  return serviceManager({ place, run: runManager, program });
}

async function managerOf(place: ServicePlace): Promise<ServiceManager> {
  const manager = await findManager(place);
  if (manager !== undefined) return manager;
  const message = `${NO_MANAGER} Keep this running: ${foregroundCommand(place)}`;
  throw Object.assign(new Error(message), { exitCode: EXIT.noManager });
}

const NO_MANAGER =
  'This machine has no service manager that Muster knows: neither systemd nor OpenRC is running, so nothing starts the agent with the machine.';

/** Runs the agent without a service manager, as in a container. */
const foregroundCommand = (place: ServicePlace): string =>
  `${programIn(place)} watchdog run --programs ${place.programs} --data-dir ${place.dataDir}`;

/** This program as people call it: installed, by the link that upgrades move, and not by the folder of its version. */
function programIn(place: ServicePlace): string {
  if (!isSea()) return PROGRAM;
  return ownProgramsDir() === place.programs ? linkedProgram(place) : process.execPath;
}

/** What to do after the enrollment, so that the device connects. */
export async function howToStart(dataDir: string): Promise<string> {
  if (!isSea()) return `Start it with: ${PROGRAM} run`;
  const place = placeOf({ dataDir, prefix: process.env['MUSTER_PREFIX'] ?? '' });
  if ((await findManager(place)) === undefined) {
    return `${NO_MANAGER} The device connects once you start this, and for as long as it runs: ${foregroundCommand(place)}`;
  }
  return `The device connects once you install the service: ${programIn(place)} service install --data-dir ${dataDir}`;
}

function assertRights({ prefix }: ServicePlace): void {
  const uid = process.getuid?.();
  if (prefix !== '' || uid === undefined || uid === 0) return;
  throw new Error('Installing a service needs the rights of root: run this with sudo.');
}
