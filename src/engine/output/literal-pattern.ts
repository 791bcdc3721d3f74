/**
 * A path as a pattern of restic that matches this path only. A character in brackets stands for itself on every
 * system; a backslash cannot stand in brackets on every system, so it is doubled.
 */
export function literalPattern(path: string): string {
  return path.replace(/[*?[]/g, '[$&]').replaceAll('\\', '\\\\');
}
