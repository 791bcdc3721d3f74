import { compareVersions as compareParsed, parseVersion, ReleaseVersion } from '../../../platform/semver.ts';

/** Version of a release: semantic versioning, of which the only pre-releases are candidates such as 1.4.0-rc.2. */
export const Version = ReleaseVersion;

export const isPrerelease = (version: string): boolean => version.includes('-');

/** Negative where `a` comes before `b`, by the precedence of semver: a candidate before its release. Throws for what is
 * no version. */
export const compareVersions = (a: string, b: string): number => compareParsed(parsed(a), parsed(b));

function parsed(version: string) {
  const found = parseVersion(version);
  if (found === undefined) throw new Error(`not a version: ${version}`);
  return found;
}
