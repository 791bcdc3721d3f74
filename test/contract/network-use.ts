// How a file of ours could send something over the network, from its text alone.
import { type ImportDeclaration, parseSync, Visitor } from 'oxc-parser';

const NETWORK_MODULES = /^(node:)?(http|https|http2|net|tls|dgram|dns)(\/.*)?$/;
const CLIENT_PACKAGES =
  /^(undici|axios|got|ky|node-fetch|superagent|needle|nodemailer|aws4fetch|ws|socket\.io-client)(\/|$)/;
const GLOBAL_CLIENTS = new Set(['fetch', 'WebSocket', 'EventSource', 'XMLHttpRequest']);
const GLOBAL_OBJECTS = new Set(['globalThis', 'global', 'window', 'self']);

/** What is needed to serve, to read an address, or as a type. */
const HARMLESS = new Set([
  'createServer',
  'isIP',
  'isIPv4',
  'isIPv6',
  'BlockList',
  'STATUS_CODES',
  'ServerResponse',
]);

/** The names by which a file reaches for the network, such as `fetch` or `node:http request`; sorted, each once. */
export function networkUses(path: string, text: string): string[] {
  const { program, errors } = parseSync(path, text);
  if (errors.length > 0) throw new Error(`${path}: ${errors[0]?.message}`);
  const uses = new Set<string>();
  /** Identifiers that only name a property or a method. */
  const names = new Set<unknown>();
  const identifiers: { name: string }[] = [];
  new Visitor({
    ImportDeclaration(node) {
      for (const name of importedNames(node)) {
        if (!HARMLESS.has(name)) uses.add(`${node.source.value} ${name}`);
      }
      for (const entry of node.specifiers) {
        if (entry.type === 'ImportSpecifier') names.add(entry.imported);
      }
    },
    ImportExpression({ source }) {
      if (source.type === 'Literal' && typeof source.value === 'string' && isNetwork(source.value)) {
        uses.add(`${source.value} import()`);
      }
    },
    MemberExpression({ object, property, computed }) {
      if (!computed) names.add(property);
      const name = property.type === 'Identifier' ? property.name : '';
      if (object.type === 'Identifier' && GLOBAL_OBJECTS.has(object.name) && GLOBAL_CLIENTS.has(name)) {
        uses.add(name);
      }
    },
    Property: ({ key, computed, shorthand }) => void (computed || shorthand || names.add(key)),
    MethodDefinition: ({ key, computed }) => void (computed || names.add(key)),
    PropertyDefinition: ({ key, computed }) => void (computed || names.add(key)),
    TSMethodSignature: ({ key, computed }) => void (computed || names.add(key)),
    TSPropertySignature: ({ key, computed }) => void (computed || names.add(key)),
    Identifier: (node) => void identifiers.push(node),
  }).visit(program);
  for (const identifier of identifiers) {
    if (GLOBAL_CLIENTS.has(identifier.name) && !names.has(identifier)) uses.add(identifier.name);
  }
  return [...uses].sort();
}

const isNetwork = (specifier: string) => NETWORK_MODULES.test(specifier) || CLIENT_PACKAGES.test(specifier);

function importedNames(node: ImportDeclaration): string[] {
  if (node.importKind === 'type' || !isNetwork(node.source.value)) return [];
  return node.specifiers.flatMap((entry) => {
    if (entry.type !== 'ImportSpecifier') return '*';
    if (entry.importKind === 'type') return [];
    return entry.imported.type === 'Identifier' ? entry.imported.name : entry.imported.value;
  });
}
