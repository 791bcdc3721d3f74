// Which tables a file reads and writes, from the text alone: SQL in its strings, and Knex's builder.
import { parseSync, Visitor } from 'oxc-parser';

export interface TableAccess {
  table: string;
  kind: 'read' | 'write';
}

const WRITES =
  /\b(?:insert into|update|delete from|truncate(?: table)?|merge into|lock table)\s+(?:only\s+)?"?(\w+)/g;
const READS = /(?<!\bdelete )\b(?:from|join|using)\s+(?:only\s+|lateral\s+)?"?(\w+)/g;
/** The second table of `from a x, b y`. */
const LISTED = /\bfrom\s+\w+(?:\s+(?:as\s+)?\w+)?\s*,\s*(\w+)/g;
/** What a piece of SQL has and a sentence has not. */
const IS_SQL =
  /\b(select|insert into|delete from|update \w+(?: \w+)? set|join \w+ (?:as )?\w+ (?:on|using)|lock table)\b/;

/** Functions and methods of Knex whose first argument names a table. */
const BUILDERS =
  /^(tx|trx|db|pool|hubPool|session|owner|knex|from|table|join|innerJoin|leftJoin|leftOuterJoin|crossJoin|fullOuterJoin)$/;
const WRITERS = /^(insert|update|patch|delete|del|increment|decrement|truncate)$/;
const NAMED = /^(\w+)(?:\s+(?:as\s+)?\w+)?$/;

/** Every table of `known` that the source touches, once for each kind. */
export function tableAccess(path: string, text: string, known: ReadonlySet<string>): TableAccess[] {
  const found = new Map<string, TableAccess>();
  const add = (table: string | undefined, kind: TableAccess['kind']): void => {
    if (table !== undefined && known.has(table)) found.set(`${kind} ${table}`, { table, kind });
  };
  const readSql = (sql: string): void => {
    if (!IS_SQL.test(sql)) return;
    for (const [, table] of sql.matchAll(WRITES)) add(table, 'write');
    for (const pattern of [READS, LISTED]) for (const [, table] of sql.matchAll(pattern)) add(table, 'read');
  };
  const { program, errors } = parseSync(path, text);
  if (errors.length > 0) throw new Error(`${path}: ${errors[0]?.message}`);
  new Visitor({
    Literal(node) {
      if (typeof node.value === 'string') readSql(node.value);
    },
    TemplateLiteral(node) {
      readSql(node.quasis.map((quasi) => quasi.value.cooked ?? '').join(' $ '));
    },
    PropertyDefinition(node) {
      if (nameOf(node.key) === 'tableName') add(textOf(node.value ?? undefined), 'read');
    },
    CallExpression(node) {
      const called = nameOf(node.callee);
      if (called === 'into') add(tableNamed(node), 'write');
      else if (called !== undefined && BUILDERS.test(called)) add(tableNamed(node), 'read');
      if (called !== undefined && WRITERS.test(called)) add(tableBelow(node.callee), 'write');
    },
  }).visit(program);
  return [...found.values()];
}

interface SyntaxNode {
  type: string;
}

/** `tx` of `tx(…)`, `ctx.tx(…)` and `this.#tx(…)`. */
function nameOf(node: SyntaxNode): string | undefined {
  if (node.type === 'MemberExpression') return nameOf((node as unknown as { property: SyntaxNode }).property);
  return 'name' in node && typeof node.name === 'string' ? node.name : undefined;
}

function textOf(node: SyntaxNode | undefined): string | undefined {
  return node?.type === 'Literal' && 'value' in node && typeof node.value === 'string'
    ? node.value
    : undefined;
}

function tableNamed(call: SyntaxNode): string | undefined {
  const [first] = (call as unknown as { arguments: SyntaxNode[] }).arguments;
  return textOf(first)?.match(NAMED)?.[1];
}

/** Of `tx('sites').where(…).update`: `sites`. */
function tableBelow(callee: SyntaxNode): string | undefined {
  for (let node: SyntaxNode | undefined = callee; node !== undefined; ) {
    if (node.type === 'MemberExpression') node = (node as unknown as { object: SyntaxNode }).object;
    else if (node.type === 'CallExpression') {
      const { callee: inner } = node as unknown as { callee: SyntaxNode };
      const name = nameOf(inner);
      const table = name !== undefined && BUILDERS.test(name) ? tableNamed(node) : undefined;
      if (table !== undefined && (inner.type === 'Identifier' || !/[jJ]oin$/.test(name ?? ''))) return table;
      node = inner;
    } else return undefined;
  }
  return undefined;
}
