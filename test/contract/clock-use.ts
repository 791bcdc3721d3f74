// Which code takes the time from the machine instead of from `clock`, from the text alone: nothing is executed.
import { parseSync, Visitor } from 'oxc-parser';

const TIMERS = new Set(['setTimeout', 'setInterval', 'clearTimeout', 'clearInterval']);
const MODULES = /^(node:)?(timers(\/promises)?|perf_hooks)$/;
const GLOBAL_OBJECTS = new Set(['globalThis', 'global', 'window', 'self']);
/** What reads the time or waits for it, by the object that has it. */
const MEMBERS: Readonly<Record<string, ReadonlySet<string>>> = {
  Date: new Set(['now']),
  performance: new Set(['now', 'timeOrigin']),
  AbortSignal: new Set(['timeout']),
  process: new Set(['hrtime', 'uptime']),
};

/** Every such use in a file, as `form (line)`. `setImmediate` is none: it waits for no time. */
export function usesOfMachineTime(path: string, text: string): string[] {
  const { program, errors } = parseSync(path, text);
  if (errors.length > 0) throw new Error(`${path}: ${errors[0]?.message}`);
  const found: { form: string; at: number }[] = [];
  /** Names that refer to nothing: of properties, methods and imports. */
  const names = new Set<number>();
  new Visitor({
    ImportDeclaration(node) {
      const { value } = node.source;
      for (const specifier of node.specifiers) names.add(specifier.start).add(specifier.local.start);
      if (!MODULES.test(value) || node.importKind === 'type') return;
      // What the event loop does is measured by the machine.
      const isTime = node.specifiers.some(
        (specifier) =>
          specifier.type !== 'ImportSpecifier' ||
          (specifier.imported.type === 'Identifier' &&
            (TIMERS.has(specifier.imported.name) ||
              ['performance', 'scheduler'].includes(specifier.imported.name))),
      );
      if (isTime) found.push({ form: `import '${value}'`, at: node.start });
    },
    ImportExpression(node) {
      const { source } = node;
      if (source.type === 'Literal' && typeof source.value === 'string' && MODULES.test(source.value)) {
        found.push({ form: `import('${source.value}')`, at: node.start });
      }
    },
    ExportNamedDeclaration(node) {
      if (node.source === null) return;
      for (const specifier of node.specifiers) names.add(specifier.local.start).add(specifier.exported.start);
      if (MODULES.test(node.source.value)) {
        found.push({ form: `export from '${node.source.value}'`, at: node.start });
      }
    },
    NewExpression(node) {
      const isDate = node.callee.type === 'Identifier' && node.callee.name === 'Date';
      if (isDate && node.arguments.length === 0) found.push({ form: 'new Date()', at: node.start });
    },
    CallExpression(node) {
      if (node.callee.type === 'Identifier' && node.callee.name === 'Date') {
        found.push({ form: 'Date()', at: node.start });
      }
    },
    MemberExpression(node) {
      const { object, property } = node;
      if (!node.computed) names.add(property.start);
      const name = nameOf(property, node.computed);
      const owner = ownerOf(object);
      if (owner === undefined || name === undefined) return;
      const isTimer = GLOBAL_OBJECTS.has(owner) && TIMERS.has(name);
      if (isTimer || MEMBERS[owner]?.has(name) === true) {
        found.push({ form: `${owner}.${name}`, at: node.start });
      }
    },
    VariableDeclarator(node) {
      if (node.id.type !== 'ObjectPattern' || node.init === null) return;
      const owner = ownerOf(node.init);
      if (owner === undefined) return;
      for (const entry of node.id.properties) {
        const name = entry.type === 'Property' ? nameOf(entry.key, entry.computed) : undefined;
        if (name === undefined) continue;
        const isTimer = GLOBAL_OBJECTS.has(owner) && TIMERS.has(name);
        if (isTimer || MEMBERS[owner]?.has(name) === true) {
          found.push({ form: `{ ${name} } = ${owner}`, at: entry.start });
        }
      }
    },
    Property(node) {
      // The key and the value of `{ setTimeout }` stand in the same place, and are found once.
      if (!node.computed && !node.shorthand) names.add(node.key.start);
    },
    MethodDefinition(node) {
      if (!node.computed) names.add(node.key.start);
    },
    PropertyDefinition(node) {
      if (!node.computed) names.add(node.key.start);
    },
    TSMethodSignature(node) {
      if (!node.computed) names.add(node.key.start);
    },
    TSPropertySignature(node) {
      if (!node.computed) names.add(node.key.start);
    },
    Identifier(node) {
      if (!TIMERS.has(node.name) || names.has(node.start)) return;
      names.add(node.start);
      found.push({ form: node.name, at: node.start });
    },
  }).visit(program);
  return found.map(({ form, at }) => `${form} (line ${text.slice(0, at).split('\n').length})`);
}

interface SyntaxNode {
  type: string;
}

function nameOf(node: SyntaxNode, isComputed: boolean): string | undefined {
  if (node.type === 'Literal' && 'value' in node && typeof node.value === 'string') return node.value;
  if (!isComputed && node.type === 'Identifier' && 'name' in node) return String(node.name);
  return undefined;
}

/** `performance` itself, or `globalThis.performance`. */
function ownerOf(node: SyntaxNode): string | undefined {
  if (node.type === 'Identifier' && 'name' in node) return String(node.name);
  if (node.type !== 'MemberExpression' || !('object' in node) || !('property' in node)) return undefined;
  const { object, property } = node as unknown as { object: SyntaxNode; property: SyntaxNode };
  const outer = ownerOf(object);
  return outer !== undefined && GLOBAL_OBJECTS.has(outer) ? nameOf(property, false) : undefined;
}
