// Which file imports which, from the text alone: nothing is executed. Type imports count like all others.
import { Visitor, type ExportNamedDeclaration, type ImportDeclaration, parseSync } from 'oxc-parser';
import { posix } from 'node:path';

export interface Import {
  /** As it is written; `import(…)` where it is computed. */
  specifier: string;
  typeOnly: boolean;
  /** A file of ours, where the specifier is relative and leads to one. */
  target: string | undefined;
  /** A package from npm, or `node`. */
  package: string | undefined;
}

export interface Module {
  path: string;
  imports: Import[];
  readsEnvironment: boolean;
}

export type Graph = Map<string, Module>;

const computed = 'import(…)';

/** Modules by path from the project's root; assets are other files that a relative import may name (JSON). */
export function buildGraph(sources: ReadonlyMap<string, string>, isAsset: (path: string) => boolean): Graph {
  const graph: Graph = new Map();
  for (const [path, text] of sources) {
    const { found, readsEnvironment } = readImports(path, text);
    const imports = found.map(({ specifier, typeOnly }) => ({
      specifier,
      typeOnly,
      package: packageOf(specifier),
      target: resolve(path, specifier, (candidate) => sources.has(candidate) || isAsset(candidate)),
    }));
    graph.set(path, { path, imports, readsEnvironment });
  }
  return graph;
}

interface Found {
  specifier: string;
  typeOnly: boolean;
}

function readImports(path: string, text: string): { found: Found[]; readsEnvironment: boolean } {
  const { program, errors } = parseSync(path, text);
  if (errors.length > 0) throw new Error(`${path}: ${errors[0]?.message}`);
  const found: Found[] = [];
  let readsEnvironment = false;
  const add = (specifier: string | undefined, typeOnly: boolean): void => {
    found.push({ specifier: specifier ?? computed, typeOnly });
  };
  new Visitor({
    ImportDeclaration(node) {
      add(node.source.value, isTypeImport(node));
      if (/^(node:)?process$/.test(node.source.value) && takesEnvironment(node)) readsEnvironment = true;
    },
    ExportNamedDeclaration(node) {
      if (node.source !== null) add(node.source.value, isTypeExport(node));
    },
    ExportAllDeclaration(node) {
      add(node.source.value, node.exportKind === 'type');
    },
    ImportExpression(node) {
      add(literal(node.source), false);
    },
    TSImportType(node) {
      add(literal(node.source), true);
    },
    TSExternalModuleReference(node) {
      add(literal(node.expression), false);
    },
    CallExpression(node) {
      const { callee } = node;
      if (callee.type === 'Identifier' && callee.name === 'require') add(literal(node.arguments[0]), false);
    },
    MemberExpression(node) {
      const name = node.property.type === 'Identifier' ? node.property.name : literal(node.property);
      if (name === 'env' && isProcess(node.object)) readsEnvironment = true;
    },
    VariableDeclarator(node) {
      if (node.id.type !== 'ObjectPattern' || node.init === null || !isProcess(node.init)) return;
      const keys = node.id.properties.map((property) =>
        property.type === 'Property' ? property.key : undefined,
      );
      if (keys.some((key) => key?.type === 'Identifier' && key.name === 'env')) readsEnvironment = true;
    },
  }).visit(program);
  return { found, readsEnvironment };
}

interface SyntaxNode {
  type: string;
}

function literal(node: SyntaxNode | undefined): string | undefined {
  if (node?.type === 'Literal' && 'value' in node && typeof node.value === 'string') return node.value;
  if (node?.type !== 'TemplateLiteral') return undefined;
  const { quasis } = node as unknown as { quasis: { value: { cooked: string } }[] };
  return quasis.length === 1 ? quasis[0]?.value.cooked : undefined;
}

/** `process` itself, or `globalThis.process`. */
function isProcess(node: SyntaxNode): boolean {
  if ('name' in node) return node.name === 'process';
  if (node.type !== 'MemberExpression') return false;
  const { property } = node as unknown as { property: SyntaxNode };
  return 'name' in property && property.name === 'process';
}

function takesEnvironment(node: ImportDeclaration): boolean {
  return node.specifiers.some(
    (specifier) =>
      specifier.type !== 'ImportSpecifier' ||
      (specifier.imported.type === 'Identifier' && specifier.imported.name === 'env'),
  );
}

function isTypeImport(node: ImportDeclaration): boolean {
  if (node.importKind === 'type') return true;
  const kinds = node.specifiers.map((entry) =>
    entry.type === 'ImportSpecifier' ? entry.importKind : 'value',
  );
  return kinds.length > 0 && kinds.every((kind) => kind === 'type');
}

function isTypeExport(node: ExportNamedDeclaration): boolean {
  const kinds = node.specifiers.map((entry) => entry.exportKind);
  return node.exportKind === 'type' || (kinds.length > 0 && kinds.every((kind) => kind === 'type'));
}

function packageOf(specifier: string): string | undefined {
  if (specifier.startsWith('.') || specifier === computed) return undefined;
  if (specifier.startsWith('node:')) return 'node';
  const parts = specifier.split('/');
  return parts.slice(0, specifier.startsWith('@') ? 2 : 1).join('/');
}

// NodeNext wants the whole file name in the specifier, so there is nothing to guess.
function resolve(from: string, specifier: string, exists: (path: string) => boolean): string | undefined {
  if (!specifier.startsWith('.')) return undefined;
  const path = posix.join(posix.dirname(from), specifier);
  return exists(path) ? path : undefined;
}

/** Every way round, as a path that ends where it begins; one for each knot of files that reach each other. */
export function findCycles(graph: Graph): string[][] {
  const next = (path: string): string[] => targets(graph, path);
  const cycles: string[][] = [];
  const inCycle = new Set<string>();
  for (const start of graph.keys()) {
    if (inCycle.has(start)) continue;
    const cycle = wayBack(start, next);
    if (cycle === undefined) continue;
    for (const path of cycle) inCycle.add(path);
    cycles.push(cycle);
  }
  return cycles;
}

function targets(graph: Graph, path: string): string[] {
  const imports = graph.get(path)?.imports ?? [];
  return imports.flatMap(({ target }) => (target !== undefined && graph.has(target) ? [target] : []));
}

function wayBack(start: string, next: (path: string) => string[]): string[] | undefined {
  const cameFrom = new Map<string, string>();
  const queue = [start];
  for (let path = queue.shift(); path !== undefined; path = queue.shift()) {
    for (const target of next(path)) {
      if (target === start) {
        const way = [start];
        for (let at = path; at !== start; at = cameFrom.get(at) ?? start) way.unshift(at);
        return [start, ...way];
      }
      if (cameFrom.has(target)) continue;
      cameFrom.set(target, path);
      queue.push(target);
    }
  }
  return undefined;
}
