import { PATH_TEXT_MAX, storableText } from '../../../protocol/index.ts';

/** What a device writes of a snapshot as it likes: kept for people to see, and within bounds. Nothing is decided by it. */

/** As many as a configuration names. */
const PATHS_MAX = 200;

export const writtenPaths = (paths: readonly string[]): string[] =>
  paths.slice(0, PATHS_MAX).map((path) => storableText(path.slice(0, PATH_TEXT_MAX)));

export function writtenInstant(text: string): Date | null {
  const at = new Date(text);
  return at.getUTCFullYear() >= 1970 && at.getUTCFullYear() <= 9999 ? at : null;
}
