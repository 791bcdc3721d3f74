import os from 'node:os';
import path from 'node:path';
import type { UpgradableComponent } from '../../../protocol/index.ts';
import { osType } from '../machine/os-type.ts';
import { ReleaseVersion } from './release-version.ts';

/**
 * Where the programs of this machine are: `<programs>/<component>/<version>/` holds one release and its `release.json`,
 * and `<programs>/<component>/current` names the one that is used. A release that runs is never written to.
 */
export function defaultProgramsDir(): string {
  const own = ownProgramsDir();
  if (own !== undefined) return own;
  switch (osType()) {
    case 'windows':
      return path.win32.join(process.env['ProgramFiles'] ?? String.raw`C:\Program Files`, 'Muster');
    case 'macos':
      return '/Library/Muster';
    default:
      return '/opt/muster';
  }
}

/** The platform of this machine as releases name it. */
export const ownPlatform = (): { os: string; architecture: string } => ({
  os: osType(),
  architecture: os.arch(),
});

/** The program in the folder of a release. */
export const programName = (component: UpgradableComponent): string =>
  component === 'agent' ? 'muster-agent.cjs' : osType() === 'windows' ? 'muster-agent.exe' : 'muster-agent';

export const RELEASE_FILE = 'release.json';

export const componentFolder = (programs: string, component: UpgradableComponent): string =>
  path.join(programs, component);

/** Throws for a version that cannot be the name of a folder. */
export const releaseFolder = (programs: string, component: UpgradableComponent, version: string): string =>
  path.join(componentFolder(programs, component), ReleaseVersion.parse(version));

export const programFile = (programs: string, component: UpgradableComponent, version: string): string =>
  path.join(releaseFolder(programs, component, version), programName(component));

/**
 * The folder that this program is installed in, as the executable of a version or as the one that a task of Windows starts;
 * `undefined` where it runs from anywhere else.
 */
export function ownProgramsDir(executable: string = process.execPath): string | undefined {
  const folder = path.dirname(executable);
  for (const component of [path.dirname(folder), folder]) {
    if (path.basename(component) === 'watchdog') return path.dirname(component);
  }
  return undefined;
}
