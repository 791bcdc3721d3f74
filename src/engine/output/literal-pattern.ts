import { isUtf8 } from 'node:buffer';
import { pathBytes, printedPath } from '../../protocol/index.ts';

/**
 * A path as a pattern of restic that matches this path only. A character in brackets stands for itself on every
 * system; a backslash cannot stand in brackets on every system, so it is doubled.
 */
export function literalPattern(path: string): string {
  return path.replace(/[*?[]/g, '[$&]').replaceAll('\\', '\\\\');
}

/**
 * The same for a path as `pathText` writes it. An argument of a program cannot hold a byte that is not UTF-8. Go takes such
 * a byte of a name for U+FFFD where it compares it with a class, so that the pattern of such a path also matches those that
 * have another such byte in the same place.
 */
export function includePattern(path: string): string {
  const pattern = literalPattern(printedPath(path));
  return isUtf8(pathBytes(path)) ? pattern : pattern.replaceAll('\ufffd', '[\ufffd]');
}
