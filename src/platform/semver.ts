import { z } from 'zod';

/** Versions in the syntax and the order of semver.org 2.0.0, and the part of that syntax that releases use. */

const RELEASE_NUMBER = String.raw`(0|[1-9]\d{0,8})`;

/** The version of a release. Its only pre-releases are candidates. */
export const ReleaseVersion = z
  .string()
  .max(20)
  .regex(
    new RegExp(
      String.raw`^${RELEASE_NUMBER}\.${RELEASE_NUMBER}\.${RELEASE_NUMBER}(?:-rc\.${RELEASE_NUMBER})?$`,
    ),
    'must be a version such as 1.4.0 or 1.4.0-rc.2',
  );

/** Numbers stay digits, because they may be longer than a number holds exactly. */
export interface Version {
  core: readonly string[];
  /** Empty for a version that is not a pre-release. */
  prerelease: readonly string[];
}

const NUMBER = '(?:0|[1-9]\\d*)';
const PRERELEASE_PART = `(?:${NUMBER}|\\d*[A-Za-z-][\\dA-Za-z-]*)`;
const SYNTAX = new RegExp(
  `^(${NUMBER}\\.${NUMBER}\\.${NUMBER})(?:-(${PRERELEASE_PART}(?:\\.${PRERELEASE_PART})*))?(?:\\+[\\dA-Za-z-]+(?:\\.[\\dA-Za-z-]+)*)?$`,
);
/** Longer than any version that people write, and short enough to be matched in no time. */
const MAX_LENGTH = 100;

/** @returns `undefined` for a text that is not a version; `v1.2.0` is none. */
export function parseVersion(text: string): Version | undefined {
  if (text.length > MAX_LENGTH) return undefined;
  const [, core, prerelease] = SYNTAX.exec(text) ?? [];
  if (core === undefined) return undefined;
  return { core: core.split('.'), prerelease: prerelease?.split('.') ?? [] };
}

/**
 * Negative if `a` comes before `b`, positive if it comes after, and 0 if neither does (semver.org 11). Build
 * metadata does not count.
 */
export function compareVersions(a: Version, b: Version): number {
  const byCore = compareLists(a.core, b.core);
  if (byCore !== 0) return byCore;
  // A release comes after all its pre-releases.
  if (a.prerelease.length === 0 || b.prerelease.length === 0) {
    return Number(a.prerelease.length === 0) - Number(b.prerelease.length === 0);
  }
  return compareLists(a.prerelease, b.prerelease);
}

/** By the first part that differs; of two lists that begin alike, the shorter one comes first. */
function compareLists(a: readonly string[], b: readonly string[]): number {
  for (const [at, part] of a.entries()) {
    const other = b[at];
    if (other === undefined) return 1;
    const order = compareParts(part, other);
    if (order !== 0) return order;
  }
  return a.length - b.length;
}

/** Numbers by their value and before words, words by their ASCII codes. */
function compareParts(a: string, b: string): number {
  const [isNumber, isOtherNumber] = [/^\d+$/.test(a), /^\d+$/.test(b)];
  if (isNumber !== isOtherNumber) return isNumber ? -1 : 1;
  // Without leading zeros, the longer number is the greater one.
  if (isNumber && a.length !== b.length) return a.length - b.length;
  if (a === b) return 0;
  return a < b ? -1 : 1;
}
