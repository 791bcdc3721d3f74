import path from 'node:path';
import { componentFolder } from '../installation/layout.ts';

/** Where the service of this machine finds its program and keeps its files. */
export interface ServicePlace {
  programs: string;
  dataDir: string;
  /** A folder in place of `/` for what is installed outside of the two above; empty on a machine. */
  prefix: string;
}

/** The program that the service manager starts, and its arguments. */
export function serviceCommand({ programs, dataDir }: ServicePlace, program: string): [string, ...string[]] {
  return [program, 'watchdog', 'run', '--programs', programs, '--data-dir', dataDir];
}

/** The program by the link that an upgrade of the watchdog moves. Windows has no such link. */
export const linkedProgram = ({ programs }: ServicePlace): string =>
  path.posix.join(componentFolder(programs, 'watchdog'), 'current', 'muster-agent');

/**
 * Variables of Node that would make the program load foreign code, or trust any server. The executable ignores
 * NODE_OPTIONS by itself; a program that it starts might not.
 */
export const UNWANTED_VARIABLES = [
  'NODE_OPTIONS',
  'NODE_PATH',
  'NODE_REPL_EXTERNAL_MODULE',
  'NODE_TLS_REJECT_UNAUTHORIZED',
] as const;
