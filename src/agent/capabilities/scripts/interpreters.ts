import type { ScriptLanguage } from '../../../protocol/index.ts';
import { findProgram } from '../../os/processes/find-program.ts';

/** What runs a script of one language. */
export interface Interpreter {
  command: string;
  /** Before the name of the script. */
  args: readonly string[];
  extension: string;
  /** What the file begins with, before the script. */
  head: string;
}

export type Interpreters = { readonly [L in ScriptLanguage]?: Interpreter };

// Windows PowerShell reads a file without this mark in the code page of the machine.
const BYTE_ORDER_MARK = '\uFEFF';
const POWERSHELL = ['-NoLogo', '-NoProfile', '-NonInteractive', '-ExecutionPolicy', 'Bypass', '-File'];
const KNOWN = [
  { language: 'bash', names: ['bash'], args: [], extension: '.sh', head: '' },
  // Without a buffer of its own, so that what it prints is seen when it prints it.
  { language: 'python', names: ['python3', 'python'], args: ['-u'], extension: '.py', head: '' },
  {
    language: 'powershell',
    names: process.platform === 'win32' ? ['pwsh', 'powershell'] : ['pwsh'],
    args: POWERSHELL,
    extension: '.ps1',
    head: BYTE_ORDER_MARK,
  },
] as const satisfies readonly (Omit<Interpreter, 'command'> & {
  language: ScriptLanguage;
  names: string[];
})[];

/** The languages that this machine can run, with the first program of each on the search path. */
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
