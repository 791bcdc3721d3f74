import os from 'node:os';
import path from 'node:path';

/** The variables that are set, before they are parsed. */
export type Values = Readonly<Record<string, string | undefined>>;

/** The environment of this process, for a program that passes it on to its parts. */
export const environmentOfProcess = (): Values => process.env;

/** The folder of Muster below the configuration of the user who runs the command line. */
export function userConfigFolder({ XDG_CONFIG_HOME, APPDATA, HOME }: Values): string {
  const named = process.platform === 'win32' ? APPDATA : XDG_CONFIG_HOME;
  // The standard of these folders ignores relative paths, which would depend on where the command is typed.
  if (named !== undefined && path.isAbsolute(named)) return path.join(named, 'muster');
  const home = process.platform === 'win32' || HOME === undefined || HOME === '' ? os.homedir() : HOME;
  return path.join(home, '.config', 'muster');
}
