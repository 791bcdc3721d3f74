/**
 * The part of XPath 1.0 that queries of the Windows event log may use: conditions on the children of `System` and their
 * attributes, with `and`, `or`, brackets and `band`. Anything else throws, as `wevtutil` refuses it.
 */

/** The values of `System`: of an element by its name, of an attribute as `Provider/@Name`. */
export type SystemValues = ReadonlyMap<string, string>;
export type EventCondition = (values: SystemValues) => boolean;

const TOKEN = /\s*(?:('[^']*'|"[^"]*")|(\d+)|(>=|<=|!=|[=<>()[\],*])|(@?[A-Za-z]\w*))/y;

export function parseEventXPath(query: string): EventCondition {
  if (query === '*') return () => true;
  const tokens = tokensOf(query);
  const take = (expected?: string): string => {
    const token = tokens.shift();
    if (token === undefined || (expected !== undefined && token !== expected)) {
      throw new Error(`The query is invalid at ${token ?? 'its end'}: ${query}`);
    }
    return token;
  };

  /** @param within  the element whose attributes are compared; empty for the children of `System` */
  function anyOf(within: string): EventCondition {
    const parts = [allOf(within)];
    while (tokens[0] === 'or') parts.push((take(), allOf(within)));
    return (values) => parts.some((part) => part(values));
  }

  function allOf(within: string): EventCondition {
    const parts = [one(within)];
    while (tokens[0] === 'and') parts.push((take(), one(within)));
    return (values) => parts.every((part) => part(values));
  }

  function one(within: string): EventCondition {
    const name = take();
    if (name === '(') return closedBy(')', anyOf(within));
    if (name === 'band') {
      take('(');
      const [element, , mask] = [take(), take(','), BigInt(take())];
      return closedBy(')', (values) => (BigInt(values.get(element) || '0') & mask) !== 0n);
    }
    if (within === '' && tokens[0] === '[') {
      take('[');
      return closedBy(']', anyOf(name));
    }
    const [operator, wanted] = [take(), take()];
    const key = within === '' ? name : `${within}/${name}`;
    return (values) => compares(values.get(key), operator, wanted);
  }

  const closedBy = (bracket: string, condition: EventCondition): EventCondition => {
    take(bracket);
    return condition;
  };

  for (const token of ['*', '[', 'System', '[']) take(token);
  const condition = anyOf('');
  for (const token of [']', ']']) take(token);
  if (tokens.length > 0) throw new Error(`The query is invalid behind its end: ${query}`);
  return condition;
}

function tokensOf(query: string): string[] {
  const tokens: string[] = [];
  TOKEN.lastIndex = 0;
  while (TOKEN.lastIndex < query.length) {
    const found = TOKEN.exec(query);
    if (found === null) throw new Error(`The query is invalid: ${query}`);
    tokens.push(found[0].trim());
  }
  return tokens;
}

/** Times are compared as times, numbers as numbers; a value that does not exist meets no condition. */
function compares(value: string | undefined, operator: string, wanted: string): boolean {
  if (value === undefined) return false;
  const order = /^['"]/.test(wanted)
    ? compareTexts(value, wanted.slice(1, -1))
    : Number(value) - Number(wanted);
  switch (operator) {
    case '=':
      return order === 0;
    case '!=':
      return order !== 0;
    case '<':
      return order < 0;
    case '>':
      return order > 0;
    case '<=':
      return order <= 0;
    case '>=':
      return order >= 0;
    default:
      throw new Error(`There is no operator ${operator}.`);
  }
}

/** Times in ISO 8601 have the order of their texts, once they have the same number of digits. */
function compareTexts(one: string, other: string): number {
  const [left, right] = [one, other].map((text) =>
    text.replace(/^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)\.?(\d*)Z$/, (_all, second: string, fraction: string) => {
      return `${second}.${fraction.padEnd(9, '0')}Z`;
    }),
  ) as [string, string];
  return left < right ? -1 : left > right ? 1 : 0;
}
