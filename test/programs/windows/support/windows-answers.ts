import { statSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { TASK_NAME } from '../../../../src/agent/os/service-definitions.ts';
import type { StandIns } from './stand-ins.ts';
import type { WineMachine, WineProgram } from './wine-machine.ts';

/** The answers of a Windows 10 machine whose user is its administrator. */

/** The account of the services, as `whoami /user` prints it for Windows in English. */
const SYSTEM_USER = '"nt authority\\system","S-1-5-18"\r\n';

/** What a new folder below ProgramData inherits: every user may create files in it. */
const INHERITED =
  'O:BAG:SYD:AI(A;OICIID;FA;;;SY)(A;OICIID;FA;;;BA)(A;OICIIOID;GA;;;CO)(A;OICIID;0x1200a9;;;BU)(A;CIID;DCLCRPCR;;;BU)';

interface FolderRights {
  /** In SDDL. */
  of(folder: string): string;
  /** Leaves them to the system and its administrators, as the agent does with a new folder. */
  protect(folder: string): void;
}

/** The rights of folders, which Wine does not keep. They belong to the folder and not to its name. */
function folderRights(machine: WineMachine, standIns: StandIns): FolderRights {
  const rights = new Map<string, string>();
  const keyOf = (folder: string) => {
    const { dev, ino } = statSync(machine.host(folder));
    return `${dev}:${ino}`;
  };
  const grant = (folder: string, holders: readonly string[]) => {
    const entries = holders.map((sid) => `(A;OICI;FA;;;${SHORT[sid] ?? sid})`);
    rights.set(keyOf(folder), `O:BAG:SYD:PAI${entries.join('')}`);
  };
  standIns.on('icacls', ({ args: [folder = '', ...words] }) => {
    const holders = words.flatMap((word) => /^\*(S-[\d-]+):\(OI\)\(CI\)F$/.exec(word)?.[1] ?? []);
    if (words[0] === '/inheritance:r') grant(folder, holders);
    return {
      output: `processed file: ${folder}\r\nSuccessfully processed 1 files; Failed processing 0 files\r\n`,
    };
  });
  return {
    of: (folder) => rights.get(keyOf(folder)) ?? INHERITED,
    protect: (folder) => grant(folder, Object.keys(SHORT)),
  };
}

const SHORT: Readonly<Record<string, string>> = { 'S-1-5-18': 'SY', 'S-1-5-32-544': 'BA' };

/** The Task Scheduler with at most the agent's task. */
export interface TaskScheduler {
  /** The task as it was created; `undefined` if there is none. */
  task: { command: string; args: string[]; isEnabled: boolean } | undefined;
  program: WineProgram | undefined;
  isRunning(): boolean;
  /** As its trigger each five minutes does: starts the task unless it runs or is disabled. */
  trigger(): void;
}

const NO_TASK = { code: 1, errors: 'ERROR: The system cannot find the file specified.\r\n' };

function taskScheduler(machine: WineMachine, standIns: StandIns): TaskScheduler {
  const scheduler: TaskScheduler = {
    task: undefined,
    program: undefined,
    isRunning: () =>
      scheduler.program?.child.exitCode === null && scheduler.program.child.signalCode === null,
    trigger() {
      const { task } = scheduler;
      if (task === undefined || !task.isEnabled || scheduler.isRunning()) return;
      scheduler.program = machine.start(task.command, task.args);
    },
  };
  standIns.on('schtasks', async ({ args: [verb, , name, ...words] }) => {
    if (name !== TASK_NAME) return NO_TASK;
    const { task } = scheduler;
    if (verb === '/Create') {
      const xml = await readFile(machine.host(words[1] ?? ''), 'utf16le');
      const text = (element: string) =>
        (new RegExp(`<${element}>([^<]*)</${element}>`).exec(xml)?.[1] ?? '')
          .replaceAll('&lt;', '<')
          .replaceAll('&gt;', '>')
          .replaceAll('&amp;', '&');
      scheduler.task = {
        command: text('Command').replaceAll('"', ''),
        args: wordsOf(text('Arguments')),
        isEnabled: true,
      };
    } else if (task === undefined) {
      return NO_TASK;
    } else if (verb === '/Delete') scheduler.task = undefined;
    else if (verb === '/Change') task.isEnabled = words[0] === '/ENABLE';
    else if (verb === '/Run') scheduler.trigger();
    else if (verb === '/End') {
      scheduler.program?.child.kill('SIGKILL');
      await scheduler.program?.ended;
    }
    return { output: 'SUCCESS.\r\n' };
  });
  return scheduler;
}

/** The words of a command line, by the rules of CommandLineToArgvW for quotes. */
const wordsOf = (line: string) =>
  [...line.matchAll(/"([^"]*)"|(\S+)/g)].map(([, quoted, plain]) => quoted ?? plain ?? '');

/** What `Get-CimInstance` and the registry say, as the agent's script prints it. No such output is recorded. */
const INVENTORY = {
  manufacturer: 'LENOVO',
  model: '20XW0026GE',
  serial: 'PF2ABCDE',
  processor: '11th Gen Intel(R) Core(TM) i7-1165G7 @ 2.80GHz',
  graphics: 'Intel(R) Iris(R) Xe Graphics',
  interface: 'Ethernet',
  user: String.raw`FRONT\anna`,
  software: [
    { name: '7-Zip 23.01 (x64)', version: '23.01', publisher: 'Igor Pavlov', installed: '20260115' },
    { name: 'Microsoft Edge', version: '131.0.2903.70', publisher: 'Microsoft Corporation', installed: '' },
  ],
};

/** The state of each asked log, as `EventLogSession` reports it. */
export type LogStates = (
  names: readonly string[],
) => { name: string; count: string; maxSize: string; written: string }[];

export interface WindowsAnswers {
  scheduler: TaskScheduler;
  rights: FolderRights;
}

export function answerAsWindows(machine: WineMachine, states: LogStates = () => []): WindowsAnswers {
  const { standIns } = machine;
  const rights = folderRights(machine, standIns);
  const scheduler = taskScheduler(machine, standIns);
  standIns.on('whoami', ({ args }) =>
    args[0] === '/user'
      ? { output: SYSTEM_USER }
      : { output: '"Mandatory Label\\System Mandatory Level","Label","S-1-16-16384",""\r\n' },
  );
  standIns.on('taskkill', async ({ args }) => {
    const pid = Number(args[args.indexOf('/PID') + 1]);
    return (await machine.endTree(pid))
      ? { output: `SUCCESS: The process with PID ${pid} has been terminated.\r\n` }
      : { code: 128, errors: `ERROR: The process "${pid}" not found.\r\n` };
  });
  standIns.on('powershell', ({ args, env }) => {
    const script = scriptOf(args);
    if (script.includes('Get-Acl')) return { output: `${rights.of(env['MUSTER_FOLDER'] ?? '')}\r\n` };
    if (script.includes('Get-ScheduledTask')) {
      if (scheduler.task === undefined) return { code: 1, errors: 'No MSFT_ScheduledTask objects found\r\n' };
      return { output: scheduler.isRunning() ? 'Running\r\n' : 'Ready\r\n' };
    }
    if (script.includes('Win32_ComputerSystem')) {
      const software = script.startsWith('$WithSoftware = $true') ? INVENTORY.software : null;
      return { output: `${JSON.stringify({ ...INVENTORY, software })}\r\n` };
    }
    if (script.includes('EventLogSession')) {
      const names = JSON.parse(env['MUSTER_LOGS'] ?? '[]') as string[];
      return { output: `${JSON.stringify(states(names))}\r\n` };
    }
    // The time at which a process was started, in units of 100 ns.
    if (script.includes('StartTime')) return { output: `1337${/-Id (\d+)/.exec(script)?.[1] ?? ''}\r\n` };
    return { code: 1, errors: `The test has no answer for this script: ${script.slice(0, 200)}\r\n` };
  });
  return { scheduler, rights };
}

function scriptOf(args: readonly string[]): string {
  const encoded = args[args.indexOf('-EncodedCommand') + 1];
  if (args.includes('-EncodedCommand')) return Buffer.from(encoded ?? '', 'base64').toString('utf16le');
  return args[args.indexOf('-Command') + 1] ?? '';
}
