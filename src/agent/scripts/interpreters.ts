import { access, constants } from 'node:fs/promises';
import path from 'node:path';
import type { ScriptLanguage } from '../../protocol/index.ts';

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
      const command = await firstOf(names, searchPath);
      return command === undefined ? [] : [[language, { ...interpreter, command }] as const];
    }),
  );
  return Object.fromEntries(found.flat());
}

async function firstOf(names: readonly string[], searchPath: string): Promise<string | undefined> {
  const ending = process.platform === 'win32' ? '.exe' : '';
  for (const name of names) {
    // What a relative folder holds depends on where the agent was started.
    for (const folder of searchPath.split(path.delimiter).filter((entry) => path.isAbsolute(entry))) {
      const file = path.join(folder, name + ending);
      // The store's stand-in for Python on Windows starts nothing.
      if (!file.includes('WindowsApps') && (await isExecutable(file))) return file;
    }
  }
  return undefined;
}

async function isExecutable(file: string): Promise<boolean> {
  try {
    await access(file, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}
