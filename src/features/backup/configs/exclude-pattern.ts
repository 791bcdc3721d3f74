import type { FileSources } from './sources.schema.ts';

/** Patterns of restic: it refuses a whole backup for one that is malformed, so a configuration takes none. */

/** They stand on the command line of restic, which Windows limits to 32,767 characters. */
const ALL_MAX = 15_000;

/** What is wrong with the excludes of a configuration, with the place of each fault in them. */
export function* faultsOfExcludes({
  excludes = [],
  paths,
}: Pick<FileSources, 'excludes' | 'paths'>): Generator<{ at: number | undefined; message: string }> {
  const hasEscapes = paths.linux !== undefined || paths.macos !== undefined;
  for (const [at, pattern] of excludes.entries()) {
    const fault =
      (hasEscapes ? patternFault(pattern, { isWindows: false }) : undefined) ??
      (paths.windows === undefined ? undefined : patternFault(pattern, { isWindows: true }));
    if (fault !== undefined) yield { at, message: fault };
  }
  const length = excludes.reduce((sum, pattern) => sum + pattern.length + 1, 0);
  if (length > ALL_MAX) yield { at: undefined, message: `must have at most ${ALL_MAX} characters in all` };
}

/**
 * Why restic does not take a pattern; `undefined`: it does. Each part between slashes is a pattern of Go's `filepath.Match`.
 * A backslash takes the meaning from the character behind it, and on Windows it separates parts.
 */
export function patternFault(pattern: string, { isWindows }: { isWindows: boolean }): string | undefined {
  const parts = pattern.replace(/^!/, '').split(isWindows ? /[\\/]/ : '/');
  for (const part of parts) {
    const fault = partFault(Array.from(part), !isWindows);
    if (fault !== undefined) return fault;
  }
  return undefined;
}

const NOT_CLOSED = 'has a [ without its ] in the same part of the path';
const BAD_SET = 'must have characters between [ and ], and a - there only between two of them';
const LAST_BACKSLASH =
  'must not end a part with a backslash, which takes the meaning from the next character';

function partFault(characters: readonly string[], hasEscapes: boolean): string | undefined {
  const isEscape = (at: number) => hasEscapes && characters[at] === '\\';
  /** The place behind a member of a set, or what is wrong with it. */
  const behindMember = (at: number): number | string => {
    const first = characters[at];
    if (first === undefined) return NOT_CLOSED;
    if (first === '-' || first === ']') return BAD_SET;
    const next = at + (isEscape(at) ? 2 : 1);
    return next >= characters.length ? NOT_CLOSED : next;
  };
  for (let at = 0; at < characters.length; at += 1) {
    if (isEscape(at)) {
      at += 1;
      if (at >= characters.length) return LAST_BACKSLASH;
    }
    // A character that has lost its meaning opens no set.
    else if (characters[at] === '[') {
      at += characters[at + 1] === '^' ? 2 : 1;
      for (let members = 0; members === 0 || characters[at] !== ']'; members += 1) {
        let next = behindMember(at);
        if (typeof next === 'number' && characters[next] === '-') next = behindMember(next + 1);
        if (typeof next === 'string') return next;
        at = next;
      }
    }
  }
  return undefined;
}
