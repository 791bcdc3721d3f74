import { ReleaseArchitecture, ReleaseComponent, ReleaseSystem, ReleaseTarget } from '../../protocol/index.ts';
import { compareVersions as compareParsed, parseVersion, ReleaseVersion } from '../../platform/semver.ts';

/** Version of a release: semantic versioning, of which the only pre-releases are candidates such as 1.4.0-rc.2. */
export const Version = ReleaseVersion;

export const isPrerelease = (version: string): boolean => version.includes('-');

/** Negative if `a` comes before `b`, by the precedence of semver: a candidate before its release. Throws for what is
 * no version. */
export const compareVersions = (a: string, b: string): number => compareParsed(parsed(a), parsed(b));

function parsed(version: string) {
  const found = parseVersion(version);
  if (found === undefined) throw new Error(`not a version: ${version}`);
  return found;
}

/** The target of a release, as devices and people name it. */

export const Component = ReleaseComponent;
export type Component = ReleaseComponent;
export const OperatingSystem = ReleaseSystem;
export type OperatingSystem = ReleaseSystem;
export const Architecture = ReleaseArchitecture;
export type Architecture = ReleaseArchitecture;
export const Target = ReleaseTarget;
export type Target = ReleaseTarget;

export type ReleaseName = Target & { version: string };
