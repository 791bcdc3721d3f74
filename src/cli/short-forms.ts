/** `muster devices --status offline` is short for `muster devices list --status offline`. */
export const SHORT_FORMS: Readonly<Record<string, string>> = { devices: 'list' };

/** The words of the command line without short forms. Pure. */
export function inFull(args: readonly string[]): readonly string[] {
  const [command = '', next = '-'] = args;
  const left = Object.hasOwn(SHORT_FORMS, command) ? SHORT_FORMS[command] : undefined;
  if (left === undefined || !next.startsWith('-') || HELP_WORDS.has(next)) return args;
  return [command, left, ...args.slice(1)];
}
const HELP_WORDS: ReadonlySet<string> = new Set(['-h', '--help']);
