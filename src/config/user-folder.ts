import os from 'node:os';
import path from 'node:path';

/** The folder of Muster below the configuration of the user who runs the command line. */
export function userConfigFolder(): string {
  const { XDG_CONFIG_HOME, APPDATA } = process.env;
  const named = process.platform === 'win32' ? APPDATA : XDG_CONFIG_HOME;
  // The standard of these folders ignores relative paths, which would depend on where the command is typed.
  const base = named !== undefined && path.isAbsolute(named) ? named : path.join(os.homedir(), '.config');
  return path.join(base, 'muster');
}
