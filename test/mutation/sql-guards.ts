import { parseSync, Visitor } from 'oxc-parser';

/**
 * Changes of SQL, which Stryker takes for text: each makes one guard of a statement ineffective. A condition becomes true
 * and stays in the statement, so that its parameters keep their places and their types. In statements written as text:
 *
 * - a condition after `and`, `where` or `having` is made true;
 * - `for update` and `skip locked` are left out;
 * - `<`, `<=`, `>` and `>=` take in the bound or leave it out, except beside the time, which no test meets exactly;
 * - an assignment of a `set` list is left out, unless it is of a parameter, which Postgres would then not know.
 *
 * In chains of a query builder, a call such as `.whereNull(...)` or `.forUpdate()`, a property of `.where({ ... })` and
 * one of `.update({ ... })` or `.patch({ ... })` is left out.
 */
export interface SqlChange {
  /** From and to which character of the source. */
  start: number;
  end: number;
  replacement: string;
}

interface Span {
  start: number;
  end: number;
}

/** What a piece of SQL has and a sentence has not. */
const IS_SQL =
  /^\s*(?:with|select|insert into|update|delete from)\s|\bselect\b.*\bfrom\b|^\s*(?:and|where|exists|on conflict)[\s(]|^\s*[a-z_."]+\s(?:<|>|<=|>=|=|is null|is not)|\bset\s+\w+ = |\bwhere\b.*(?: = | is (?:not )?null)/s;
const IS_SET_FRAGMENT = /^\s*\w+ = [^=].*,\s*\S+/s;
const FILTERS = /^(?:and|or)?(?:where|having)(?:Not|In|NotIn|Null|NotNull|Raw|Exists|NotExists|Between)?$/i;
const LOCKS = /^(?:forUpdate|forShare|forNoKeyUpdate|skipLocked)$/;
const WRITES = /^(?:update|patch)$/;
const PARAMETER = /\$\d|\?|(?<!:):\w/;
/** Words after which a condition, or a list of assignments, is over. */
const ENDS =
  /(?:(?<!\bbetween (?:(?!\band\b)[^()])*)and|or|where|group by|order by|having|limit|offset|for (?:no key )?update|for share|on conflict|returning|union|then|when|else|as|left|join|cross|(?<!distinct )from)\b/y;

/** All changes of one file, in the order of their places. */
export function sqlChanges(path: string, source: string): SqlChange[] {
  const { program, errors } = parseSync(path, source);
  if (errors.length > 0) throw new Error(`${path}: ${errors[0]?.message}`);
  const found: SqlChange[] = [];
  const readText = ({ start, end }: Span) => {
    const text = source.slice(start + 1, end - 1);
    for (const change of changesOfText(text)) {
      found.push({
        ...change,
        start: start + 1 + change.start,
        end: start + 1 + change.end,
      });
    }
  };
  new Visitor({
    Literal(node) {
      if (typeof node.value === 'string') readText(node);
    },
    TemplateLiteral: readText,
    CallExpression(node) {
      const { callee } = node;
      if (callee.type !== 'MemberExpression' || callee.property.type !== 'Identifier') return;
      const { name } = callee.property;
      const [first] = node.arguments;
      const properties = first?.type === 'ObjectExpression' ? first.properties : [];
      if (WRITES.test(name) || (FILTERS.test(name) && properties.length > 1)) {
        if (properties.length > 1) found.push(...properties.map((each) => withoutItem(source, each)));
      } else if (LOCKS.test(name) || (FILTERS.test(name) && !isKey(source.slice(callee.end, node.end)))) {
        found.push({ start: callee.object.end, end: node.end, replacement: '' });
      }
    },
  }).visit(program);
  // A template within a template has been read twice.
  const unique = new Map(found.map((change) => [`${change.start} ${change.end}`, change]));
  return [...unique.values()].toSorted((a, b) => a.start - b.start);
}

/** What chooses the row by its key is noticed by every test. */
const isKey = (condition: string) => /^\W*(?:\w+\.)?(?:id|token_hash)\b\W/.test(condition);

function changesOfText(text: string): SqlChange[] {
  const masked = mask(text);
  if (!IS_SQL.test(masked) && !IS_SET_FRAGMENT.test(masked)) return [];
  return [
    ...ineffectiveConditions(text, masked),
    ...[...masked.matchAll(/\s+for (?:no key )?update(?: of \w+)?(?: skip locked)?/g)].map(left),
    ...[...masked.matchAll(/ skip locked/g)].map(left),
    ...movedBounds(masked),
    ...assignments(masked),
  ];
}

const left = ({ index, 0: text }: RegExpExecArray) => ({
  start: index,
  end: index + text.length,
  replacement: '',
});

function ineffectiveConditions(text: string, masked: string): SqlChange[] {
  return [...masked.matchAll(/(?:^|[\s(])(and|where|having)(?=[\s(])/g)].flatMap((match) => {
    const begin = match.index + match[0].length;
    const end = endOf(masked, begin);
    const start = begin + (masked.slice(begin).search(/\S/) || 0);
    const condition = text.slice(start, end).trimEnd();
    const isOfBetween = /\bbetween\b[^()]*$/.test(
      masked
        .slice(0, match.index)
        .split(/\band\b/)
        .at(-1) ?? '',
    );
    if (condition === '' || condition === 'true' || isOfBetween) return [];
    if (match[1] === 'where' && isKey(condition)) return [];
    return [{ start, end: start + condition.length, replacement: `(${condition} or true)` }];
  });
}

function movedBounds(masked: string): SqlChange[] {
  return [...masked.matchAll(/(?<=\s)[<>]=?(?=\s)/g)].flatMap(({ index, 0: operator }) => {
    const around = masked.slice(startOf(masked, index), endOf(masked, index));
    if (/\bnow\(\)|clock_timestamp\(\)/.test(around)) return [];
    const replacement = operator.endsWith('=') ? operator.charAt(0) : `${operator}=`;
    return [{ start: index, end: index + operator.length, replacement }];
  });
}

function assignments(masked: string): SqlChange[] {
  const lists = [...masked.matchAll(/\bset\s+(?=\w+ =)/g)].map(({ index, 0: word }) => index + word.length);
  if (lists.length === 0 && IS_SET_FRAGMENT.test(masked)) lists.push(0);
  return lists.flatMap((begin) => {
    const items = listItems(masked, begin);
    if (items.length < 2) return [];
    return items
      .filter(({ start, end }) => !PARAMETER.test(masked.slice(start, end)))
      .map((item) => withoutItem(masked, item));
  });
}

function listItems(masked: string, begin: number): Span[] {
  const items: Span[] = [];
  let start = begin;
  for (;;) {
    const end = endOf(masked, start);
    items.push({
      start: start + masked.slice(start, end).search(/\S|$/),
      end: start + masked.slice(start, end).trimEnd().length,
    });
    if (masked.charAt(end) !== ',') return items;
    start = end + 1;
  }
}

/** Leaves out an item of a list, with the comma after it, or else the one before it. */
function withoutItem(text: string, { start, end }: Span): SqlChange {
  const after = /^\s*,\s*/.exec(text.slice(end));
  if (after !== null) return { start, end: end + after[0].length, replacement: '' };
  const before = /,?\s*$/.exec(text.slice(0, start));
  return { start: start - (before?.[0].length ?? 0), end, replacement: '' };
}

/** Where the condition or the assignment that begins at `from` is over. */
function endOf(masked: string, from: number): number {
  let depth = 0;
  for (let at = from; at < masked.length; at++) {
    const isWord = /[\s(),]/.test(masked.charAt(at - 1));
    if (/[([]/.test(masked.charAt(at)) || (isWord && /^case\b/.test(masked.slice(at, at + 5)))) depth++;
    if (/[)\]]/.test(masked.charAt(at)) || (isWord && /^end\b/.test(masked.slice(at, at + 4)))) depth--;
    if (depth < 0 || (depth === 0 && masked.charAt(at) === ',')) return at;
    ENDS.lastIndex = at;
    if (depth === 0 && isWord && ENDS.test(masked) && masked.slice(from, at).trim() !== '') return at;
  }
  return masked.length;
}

function startOf(masked: string, from: number): number {
  const before = masked.slice(0, from);
  return Math.max(0, ...[...before.matchAll(/\b(?:and|or|where|when|on)\b|,/g)].map(({ index }) => index));
}

/** The text with strings and interpolations made of letters only, at the same places. */
function mask(text: string): string {
  let masked = '';
  let depth = 0;
  let quote = '';
  for (let at = 0; at < text.length; at++) {
    const char = text.charAt(at);
    if (depth === 0 && quote === '' && char === '$' && text.charAt(at + 1) === '{') depth = -1;
    if (depth !== 0) {
      masked += 'x';
      if (char === '{') depth = depth < 0 ? 1 : depth + 1;
      if (char === '}') depth--;
      continue;
    }
    if (quote !== '') {
      if (char === quote) quote = '';
      masked += 'x';
    } else if (char === "'") {
      quote = char;
      masked += 'x';
    } else masked += char;
  }
  return masked;
}
