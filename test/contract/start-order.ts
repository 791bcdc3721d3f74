// Whether a file runs before its own constants exist, from the text alone: nothing is executed.
import { parseSync, Visitor, type Node, type Statement } from 'oxc-parser';

/**
 * Functions exist from the beginning of a file, constants only from their line on. A file that calls one of its functions
 * at its top, and declares below what that function uses, fails at its start with a ReferenceError. Neither the compiler
 * nor a bundle shows it.
 * @returns each constant that is declared too late, as `name (line)`
 */
export function constantsDeclaredTooLate(path: string, text: string): string[] {
  const { program, errors } = parseSync(path, text);
  if (errors.length > 0) throw new Error(`${path}: ${errors[0]?.message}`);
  const statements = program.body.map((statement) =>
    statement.type === 'ExportNamedDeclaration' && statement.declaration !== null
      ? statement.declaration
      : statement,
  );
  const sourceOf = ({ start, end }: Node) => text.slice(start, end);
  const functions = statements.flatMap((statement) =>
    statement.type === 'FunctionDeclaration' && statement.id !== null
      ? [{ name: statement.id.name, source: sourceOf(statement) }]
      : [],
  );
  const uses = (source: string, name: string) =>
    new RegExp(`(?<![\\w.$'"])${name.replaceAll('$', '\\$')}\\b`).test(source);
  const late = new Set<string>();
  for (const { name: called, at } of callsAtOnce(program)) {
    const reached = new Set<string>();
    const open = [called];
    for (let name = open.pop(); name !== undefined; name = open.pop()) {
      const source = functions.find((each) => each.name === name)?.source;
      if (source === undefined || reached.has(source)) continue;
      reached.add(source);
      open.push(...functions.flatMap((each) => (uses(source, each.name) ? [each.name] : [])));
    }
    for (const statement of statements) {
      if (statement.start < at) continue;
      const line = text.slice(0, statement.start).split('\n').length;
      for (const name of namesOf(statement)) {
        if ([...reached].some((source) => uses(source, name))) late.add(`${name} (${line})`);
      }
    }
  }
  return [...late];
}

/** The calls outside of all functions: those that happen while the file is loaded. */
function callsAtOnce(program: Parameters<Visitor['visit']>[0]): { name: string; at: number }[] {
  const calls: { name: string; at: number }[] = [];
  let depth = 0;
  const enter = () => void (depth += 1);
  const leave = () => void (depth -= 1);
  new Visitor({
    FunctionDeclaration: enter,
    'FunctionDeclaration:exit': leave,
    FunctionExpression: enter,
    'FunctionExpression:exit': leave,
    ArrowFunctionExpression: enter,
    'ArrowFunctionExpression:exit': leave,
    CallExpression({ callee, start }) {
      if (depth === 0 && callee.type === 'Identifier') calls.push({ name: callee.name, at: start });
    },
  }).visit(program);
  return calls;
}

function namesOf(statement: Statement): string[] {
  if (statement.type === 'ClassDeclaration') return statement.id === null ? [] : [statement.id.name];
  if (statement.type !== 'VariableDeclaration') return [];
  return statement.declarations.flatMap(({ id }) => (id.type === 'Identifier' ? [id.name] : []));
}
