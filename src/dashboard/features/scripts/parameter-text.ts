/** The parameters of a script in its text: in environment variables, which each language reads in its own way. Pure. */

export type CodeLanguage = 'bash' | 'powershell' | 'python' | 'cmd';

/** What of a parameter the text depends on. */
export interface Declared {
  name: string;
  type: 'text' | 'number' | 'boolean' | 'secret';
}

export const variableOf = ({ name, type }: Declared): string =>
  `${type === 'secret' ? 'SECRET' : 'PARAM'}_${name}`;

/** How a language reads an environment variable. */
const READING: Record<CodeLanguage, { begin: string; end: string }> = {
  bash: { begin: '$', end: '' },
  powershell: { begin: '$env:', end: '' },
  python: { begin: "os.environ['", end: "']" },
  cmd: { begin: '%', end: '%' },
};

/** Windows ignores the case of the names of variables. */
const keyOf = (variable: string, language: CodeLanguage): string =>
  language === 'powershell' || language === 'cmd' ? variable.toLowerCase() : variable;

const VARIABLE = /(?<!\w)(PARAM|SECRET)_([A-Za-z_]\w*)/g;
const VARIABLE_OF_WINDOWS = new RegExp(VARIABLE.source, 'gi');

export interface Reference {
  from: number;
  to: number;
  variable: string;
  /** What declares it. */
  declares: Declared;
}

/** The variables that the text names and that no parameter declares: each place, the first ones if there are many. */
export function undeclaredIn(
  text: string,
  declared: readonly Declared[],
  language: CodeLanguage,
  atMost: number,
): Reference[] {
  const known = new Set(declared.map((one) => keyOf(variableOf(one), language)));
  const isOfWindows = language === 'powershell' || language === 'cmd';
  const found: Reference[] = [];
  for (const match of text.matchAll(isOfWindows ? VARIABLE_OF_WINDOWS : VARIABLE)) {
    const [variable, kind = '', name = ''] = match;
    if (known.has(keyOf(variable, language))) continue;
    if (found.length === atMost) break;
    const type = kind.toUpperCase() === 'SECRET' ? 'secret' : 'text';
    const { index: from } = match;
    found.push({ from, to: from + variable.length, variable, declares: { name, type } });
  }
  return found;
}

/** Where a completion begins, counted back from the cursor, and what it inserts for a variable. */
export interface CompletionPlace {
  length: number;
  insert: (variable: string) => string;
}

/**
 * What the line holds before the cursor decides what a completion inserts: the whole expression that reads the variable,
 * or its name alone where the expression has been begun. Undefined if nothing was begun and nothing was asked for.
 */
export function completionPlace(
  line: string,
  language: CodeLanguage,
  isAskedFor: boolean,
): CompletionPlace | undefined {
  const { begin, end } = READING[language];
  const word = /\w*$/.exec(line)?.[0] ?? '';
  const before = line.slice(0, line.length - word.length);
  if (before.endsWith(begin)) return { length: word.length, insert: (variable) => variable + end };
  // `${` and quotes have an end of their own.
  if (/[{'"%:]$/.test(before)) return { length: word.length, insert: (variable) => variable };
  if (word === '' && !isAskedFor) return undefined;
  return { length: word.length, insert: (variable) => begin + variable + end };
}
