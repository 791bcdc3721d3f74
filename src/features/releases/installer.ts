import type { Architecture, OperatingSystem } from '../registry/platform.ts';

/** What an installer is filled in with. */
export interface Installer {
  /** The address of this server, without a slash at its end. */
  server: string;
  /** An enrollment key; empty where the user who runs the installer gives it. */
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
