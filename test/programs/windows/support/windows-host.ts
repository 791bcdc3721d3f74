import { readFileSync } from 'node:fs';
import { mkdir, readFile } from 'node:fs/promises';
import type { DeviceHost } from '../../watchdog/support/device-bench.ts';
import { builtWindowsAgent } from './built-windows-agent.ts';
import { answerAsWindows, type TaskScheduler } from './windows-answers.ts';
import { startWineMachine, type WineMachine } from './wine-machine.ts';

export const DATA_DIR = String.raw`C:\ProgramData\muster-agent`;
export const PROGRAMS_DIR = String.raw`C:\Program Files\Muster`;

export interface WindowsHost extends DeviceHost {
  machine: WineMachine;
  scheduler: TaskScheduler;
}

/** A Windows machine for a bench of upgrades, with the executables of releases, and the Task Scheduler as the service manager. */
export async function startWindowsHost(): Promise<WindowsHost> {
  const { program } = await builtWindowsAgent('1.0.0');
  const machine = await startWineMachine();
  const { scheduler, rights } = answerAsWindows(machine);
  const dataDir = machine.host(DATA_DIR);
  await mkdir(dataDir, { recursive: true });
  rights.protect(DATA_DIR);
  const outputs: string[] = [];
  return {
    machine,
    scheduler,
    dataDir,
    programs: machine.host(PROGRAMS_DIR),
    platform: { os: 'windows', architecture: 'x64' },
    async install() {
      const { code, output } = await machine.run(program, ['service', 'install']);
      if (code !== 0) throw new Error(`The service was not installed: ${output}`);
      scheduler.program?.child.kill('SIGKILL');
      await scheduler.program?.ended;
    },
    launch() {
      scheduler.trigger();
      if (scheduler.program === undefined) throw new Error('The task does not exist.');
      outputs.push(scheduler.program.outputFile);
      return scheduler.program.child;
    },
    output: () => outputs.map((file) => readFileSync(file, 'utf8')).join(''),
    watchdogRelease: async (version) => readFile((await builtWindowsAgent(version)).program),
    close: () => machine.close(),
  };
}
