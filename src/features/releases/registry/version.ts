import { z } from 'zod';

/** Version of a release: semantic versioning, of which the only pre-releases are candidates such as 1.4.0-rc.2. */

const NUMBER = String.raw`(0|[1-9]\d{0,8})`;
const PATTERN = new RegExp(String.raw`^${NUMBER}\.${NUMBER}\.${NUMBER}(?:-rc\.${NUMBER})?$`);

export const Version = z.string().max(20).regex(PATTERN, 'must be a version such as 1.4.0 or 1.4.0-rc.2');

export const isPrerelease = (version: string): boolean => version.includes('-');

/** Negative where `a` comes before `b`, by the precedence of semver: a candidate before its release. Throws for what is
 * no version. */
export function compareVersions(a: string, b: string): number {
  const [left, right] = [partsOf(a), partsOf(b)];
  for (let i = 0; i < left.length; i++) {
    const difference = (left[i] ?? 0) - (right[i] ?? 0);
    if (difference !== 0) return difference;
  }
  return 0;
}

/** Comes after every candidate. */
const NO_CANDIDATE = Number.MAX_SAFE_INTEGER;

function partsOf(version: string): number[] {
  const match = PATTERN.exec(version);
  if (match === null) throw new Error(`not a version: ${version}`);
  const [, major, minor, patch, candidate] = match;
  return [
    Number(major),
    Number(minor),
    Number(patch),
    candidate === undefined ? NO_CANDIDATE : Number(candidate),
  ];
}
