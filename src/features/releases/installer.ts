import type { Architecture, OperatingSystem } from './release-name.ts';

/** The values that an installer is filled in with. */
export interface Installer {
  /** The address of this server, without a slash at its end. */
  server: string;
  /** An enrollment key; empty if the user who runs the installer gives it. */
  key: string;
  programs: readonly InstallableProgram[];
}

/** The promoted executable of a platform. */
export interface InstallableProgram {
  os: OperatingSystem;
  architecture: Architecture;
  version: string;
  sha256: string;
  size: number;
}

export const downloadUrl = (server: string, { version, os, architecture }: InstallableProgram): string =>
  `${server}/api/v1/agent-versions/${encodeURIComponent(version)}/download?component=watchdog&os=${os}&architecture=${architecture}`;

/** Text as one literal word of a script. Pure. Throws for control characters, which no value of ours has. */

export function shellWord(text: string): string {
  assertPlain(text);
  return `'${text.replaceAll("'", String.raw`'\''`)}'`;
}

/** PowerShell ends a string at typographic quotation marks as well. */
export function powershellWord(text: string): string {
  assertPlain(text);
  return `'${text.replaceAll(/['\u2018-\u201B]/g, '$&$&')}'`;
}

function assertPlain(text: string): void {
  if (/\p{Cc}/u.test(text)) throw new Error('control characters cannot be in an installer');
}
