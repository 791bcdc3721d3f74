// Which places of a source cut a list, a line or an output to a limit, from the text alone.
import { parseSync, Visitor } from 'oxc-parser';

interface Node {
  type: string;
  start: number;
  end: number;
}

/** `LIMIT`, `LIMIT + 1`, `LIMIT - read.length`, `LIMITS.names`. */
const NAMED_LIMIT = /^[A-Z][A-Z0-9_]+(?:\.\w+)?(?: [-+] [\w.#]+)?$/;
/** `names`, `found.disks`, `this.#rows`, and what returns a list. */
const LIST = /(?:[a-z]s|\bmap|flatMap|filter|toSorted|sort|reverse|values|list|all|found|some)$/i;
/** Small numbers are positions and not limits. */
const LEAST = 3;
/** Of a text, smaller numbers are parts of a format: a day, the head of a hash, the prefix of a key. */
const TEXT_LEAST = 40;

/**
 * Each cut as `receiver limit`:
 * - `x.slice(0, LIMIT)`, `x.slice(-LIMIT)` and `subarray`, where the limit is a constant;
 * - the same with a number where the receiver is a list. Of a text the number is a limit from forty on. `shortened` ends what it cuts with `…`,
 *   and is none of what this looks for;
 * - `if (x.length >= LIMIT)` and its like where what follows neither throws nor only empties a cache.
 */
export function cutsOf(path: string, text: string): string[] {
  const { program, errors } = parseSync(path, text);
  if (errors.length > 0) throw new Error(`${path}: ${errors[0]?.message}`);
  const found: string[] = [];
  const source = ({ start, end }: Node) => text.slice(start, end).replaceAll(/\s+/g, ' ');
  const nameOf = (node: Node): string =>
    /([\w$]+)[^\w$]*$/.exec(withoutCall(source(node)))?.[1] ?? source(node);
  /** Of `x.slice(-LIMIT)` and `x.slice(-LIMIT - 1)`: the limit. */
  const fromTheEnd = (start: Node) => {
    const written = source(start);
    return written.startsWith('-') ? written.slice(1) : undefined;
  };
  const isLength = (node: Node) =>
    node.type === 'MemberExpression' && /\.(?:length|size)$/.test(source(node));
  const check = (test: Node, consequent: string): void => {
    for (const { 1: list, 2: limit } of source(test).matchAll(
      /([\w$#.]+)\.(?:length|size) (?:<|<=|>|>=|===) ([A-Z][A-Z0-9_]*)\b(?!\()/g,
    )) {
      if (/\bthrow\b|\.clear\(\)|\.delete\(|#forget|#remove/.test(consequent)) continue;
      if (!/\b(?:push|add|set|return|break|continue|shift|isCut|cut)\b|\+=/.test(consequent)) continue;
      found.push(`${(list ?? '').split('.').at(-1)} ${limit}`);
    }
  };
  new Visitor({
    CallExpression(node) {
      const { callee } = node;
      if (callee.type !== 'MemberExpression') return;
      const method = source(callee.property);
      if (method !== 'slice' && method !== 'subarray') return;
      const [first, second] = node.arguments as [Node?, Node?];
      if (first === undefined) return;
      const limit =
        second === undefined ? fromTheEnd(first) : source(first) === '0' ? source(second) : undefined;
      if (limit === undefined) return;
      const receiver = nameOf(callee.object);
      const isList = method === 'slice' && LIST.test(receiver);
      if (NAMED_LIMIT.test(limit) || Number(limit.replaceAll('_', '')) >= (isList ? LEAST : TEXT_LEAST)) {
        found.push(`${receiver} ${limit}`);
      }
    },
    IfStatement(node) {
      check(node.test, source(node.consequent));
    },
    ConditionalExpression(node) {
      if (isLength(node.test)) check(node.test, source(node.consequent));
    },
  }).visit(program);
  return [...new Set(found)];
}

/** Of `names.filter((…) => …)`: `names.filter`. */
function withoutCall(text: string): string {
  let rest = text.trim();
  while (rest.endsWith(')')) {
    let depth = 0;
    let at = rest.length - 1;
    for (; at >= 0; at -= 1) {
      if (rest[at] === ')') depth += 1;
      if (rest[at] === '(') depth -= 1;
      if (depth === 0) break;
    }
    if (at <= 0) return rest;
    rest = rest.slice(0, at).trim();
  }
  return rest;
}

/** Each bounded list of a schema as `field limit`: such a list refuses the whole message where it is too long. */
export function listBoundsOf(path: string, text: string): string[] {
  const { program, errors } = parseSync(path, text);
  if (errors.length > 0) throw new Error(`${path}: ${errors[0]?.message}`);
  const found: string[] = [];
  const note = (name: Node, value: Node | null): void => {
    if (value === null) return;
    const written = text.slice(value.start, value.end).replaceAll(/\s+/g, ' ').replaceAll(' .', '.');
    const limit = written.startsWith('atMost(')
      ? /^atMost\( ?([\w.]+)/.exec(written)?.[1]
      : written.startsWith('z.array(')
        ? /^(?:\.\w+\((?:[^()]|\([^()]*\))*\))*?\.max\(([\w.]+)\)/.exec(
            behindCall(written, 'z.array'.length),
          )?.[1]
        : undefined;
    if (limit !== undefined) found.push(`${text.slice(name.start, name.end)} ${limit}`);
  };
  new Visitor({
    Property(node) {
      note(node.key, node.value);
    },
    VariableDeclarator(node) {
      note(node.id, node.init);
    },
  }).visit(program);
  return [...new Set(found)];
}

/** What stands behind the parentheses that open at that place. */
function behindCall(text: string, at: number): string {
  let depth = 0;
  for (let end = at; end < text.length; end += 1) {
    if (text[end] === '(') depth += 1;
    if (text[end] === ')') depth -= 1;
    if (depth === 0) return text.slice(end + 1);
  }
  return '';
}
