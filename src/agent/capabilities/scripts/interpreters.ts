import type { ScriptLanguage } from '../../../protocol/index.ts';
import { findProgram } from '../../os/processes/find-program.ts';

/** The program that runs scripts of one language. */
export interface Interpreter {
  command: string;
  /** The arguments before the name of the script. */
  args: readonly string[];
  extension: string;
  /** Text that the file needs before the script. */
  head: string;
  /** How lines end in the file, where the interpreter needs them to end in one way. */
  lineEnd?: '\r\n';
}

export type Interpreters = { readonly [L in ScriptLanguage]?: Interpreter };

// Without this mark, Windows PowerShell reads a file in the code page of the machine.
const BYTE_ORDER_MARK = '\uFEFF';
const POWERSHELL = ['-NoLogo', '-NoProfile', '-NonInteractive', '-ExecutionPolicy', 'Bypass', '-File'];
const KNOWN = [
  { language: 'bash', names: ['bash'], args: [], extension: '.sh', head: '' },
  // -u turns off buffering, so that output is streamed when it is printed.
  { language: 'python', names: ['python3', 'python'], args: ['-u'], extension: '.py', head: '' },
  {
    language: 'powershell',
    names: process.platform === 'win32' ? ['pwsh', 'powershell'] : ['pwsh'],
    args: POWERSHELL,
    extension: '.ps1',
    head: BYTE_ORDER_MARK,
  },
  {
    language: 'cmd',
    names: process.platform === 'win32' ? ['cmd'] : [],
    // /d leaves out the commands that the registry may hold for each start.
    args: ['/d', '/q', '/c'],
    extension: '.cmd',
    // Without this code page, characters beyond ASCII are those of the machine's own.
    head: '@chcp 65001 >nul\r\n',
    // Jumps to labels fail with others.
    lineEnd: '\r\n',
  },
] as const satisfies readonly (Omit<Interpreter, 'command'> & {
  language: ScriptLanguage;
  names: readonly string[];
})[];

/** The languages that this machine supports, with the first program for each on the search path. */
export async function findInterpreters(
  searchPath: string = process.env['PATH'] ?? '',
): Promise<Interpreters> {
  const found = await Promise.all(
    KNOWN.map(async ({ language, names, ...interpreter }) => {
      const command = await findProgram(names, searchPath);
      return command === undefined ? [] : [[language, { ...interpreter, command }] as const];
    }),
  );
  return Object.fromEntries(found.flat());
}
