import { z } from 'zod';

const NUMBER = String.raw`(0|[1-9]\d{0,8})`;
const SYNTAX = new RegExp(String.raw`^${NUMBER}\.${NUMBER}\.${NUMBER}(?:-rc\.${NUMBER})?$`);

/** A version that may become the name of a folder: `1.4.0`, or a candidate such as `1.4.0-rc.2`. */
export const ReleaseVersion = z
  .string()
  .max(20)
  .regex(SYNTAX, 'must be a version such as 1.4.0 or 1.4.0-rc.2');

/**
 * Negative where `a` comes before `b`, by the order of semantic versions: a candidate comes before its release. Text
 * that is no version comes before all versions.
 */
export function compareReleases(a: string, b: string): number {
  const [one, other] = [partsOf(a), partsOf(b)];
  for (const [at, part] of one.entries()) {
    const order = part - (other[at] ?? 0);
    if (order !== 0) return order;
  }
  return 0;
}

function partsOf(version: string): number[] {
  const found = SYNTAX.exec(version);
  if (found === null || version.length > 20) return [-1, 0, 0, 0];
  const [major, minor, patch, candidate] = found.slice(1);
  // A release comes after all of its candidates.
  return [
    Number(major),
    Number(minor),
    Number(patch),
    candidate === undefined ? Number.MAX_SAFE_INTEGER : Number(candidate),
  ];
}
