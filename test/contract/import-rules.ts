// DESIGN: main → server → features → hub → platform, never back. Each rule answers with its breaches, as lines.
import { type Graph, type Import, type Module, findCycles } from './import-graph.ts';

type Zone = keyof typeof mayImport;

const mayImport = {
  main: ['main', 'server', 'features', 'hub', 'platform', 'protocol', 'config'],
  // The demo fills its database from a seed.
  cli: ['cli', 'seeds', 'server', 'features', 'hub', 'platform', 'protocol', 'config'],
  server: ['server', 'features', 'hub', 'platform', 'protocol', 'config'],
  features: ['features', 'hub', 'platform', 'protocol'],
  hub: ['hub', 'platform', 'protocol'],
  platform: ['platform'],
  config: [],
  protocol: ['protocol'],
  agent: ['agent', 'protocol'],
  dashboard: ['dashboard', 'protocol'],
  knexfile: ['platform', 'config'],
  seeds: ['seeds', 'features', 'platform', 'protocol', 'config'],
} as const satisfies Record<string, readonly string[]>;

const singleFiles: Record<string, Zone> = {
  'src/main.ts': 'main',
  'src/server.ts': 'server',
  'src/run-server.ts': 'server',
  'src/start-failure.ts': 'server',
  'src/api-info.ts': 'server',
  'src/config.ts': 'config',
  'knexfile.ts': 'knexfile',
};

export function zoneOf(path: string): Zone | undefined {
  const single = singleFiles[path];
  if (single !== undefined) return single;
  const folder = path.match(/^src\/([^/]+)\//)?.[1] ?? path.match(/^(seeds)\//)?.[1];
  const folders: readonly string[] = Object.keys(mayImport);
  if (folder === undefined || !folders.includes(folder)) return undefined;
  return ['main', 'server', 'config', 'knexfile'].includes(folder) ? undefined : (folder as Zone);
}

/** Files below src that belong to no part of the house, and so would be judged by no rule. */
export function strayFiles(graph: Graph): string[] {
  return [...graph.keys()].filter((path) => zoneOf(path) === undefined);
}

export function wrongDirection(graph: Graph): string[] {
  return breaches(graph, ({ path }, { target, typeOnly }) => {
    if (target === undefined || !graph.has(target)) return false;
    const from = zoneOf(path);
    const to = zoneOf(target);
    if (from === undefined || to === undefined) return true;
    if (from === 'dashboard' && to === 'features') return !(typeOnly && target.endsWith('.schema.ts'));
    const allowed: readonly string[] = mayImport[from];
    return !allowed.includes(to);
  });
}

/** The parts that are shared or read first keep to a few packages. */
export function wrongPackages(graph: Graph): string[] {
  return breaches(graph, ({ path }, { package: name }) => {
    if (name === undefined) return false;
    if (zoneOf(path) === 'protocol') return name !== 'zod';
    if (zoneOf(path) === 'config') return name !== 'zod' && name !== 'node';
    return false;
  });
}

export function aroundTheDoor(graph: Graph): string[] {
  return breaches(graph, ({ path }, { target }) => {
    if (!path.startsWith('src/features/') || target === undefined) return false;
    const from = path.match(/^src\/features\/([^/]+)\//)?.[1];
    const feature = target.match(/^src\/features\/([^/]+)\//)?.[1];
    if (feature !== undefined) return feature !== from && target !== `src/features/${feature}/index.ts`;
    return target.startsWith('src/hub/') && !/^src\/hub\/(index|ports)\.ts$/.test(target);
  });
}

/** The rooms of the agent, from the bottom up: a file imports from its own room and from the rooms before it. */
const agentRooms = ['os', 'core', 'work', 'capabilities', 'simulator', 'session', 'cli', 'main.ts'];

/** Capabilities of the agent do not know each other, and no room imports from a room above it. */
export function upwardInAgent(graph: Graph): string[] {
  const placeOf = (path: string) => {
    const [, room, inside] = path.match(/^src\/agent\/([^/]+)(?:\/([^/]+)\/)?/) ?? [];
    return room === undefined ? undefined : { level: agentRooms.indexOf(room), room, inside };
  };
  return breaches(graph, ({ path }, { target }) => {
    const from = placeOf(path);
    const to = placeOf(target ?? '');
    if (from === undefined || to === undefined) return false;
    if (from.room === 'capabilities' && to.room === 'capabilities') return from.inside !== to.inside;
    return from.level === -1 || to.level === -1 || to.level > from.level;
  });
}

const packageHomes: Record<string, RegExp> = {
  express: /^src\/(platform\/http\/|server\.ts$)/,
  'socket.io':
    /^src\/hub\/(sockets\/(socket-server|release-handshake)|agents\/(agent-transport|agent-socket-fast-path)|dashboard\/dashboard-(transport|adapter))\.ts$/,
  '@socket.io/redis-adapter': /^src\/hub\/dashboard\/dashboard-adapter\.ts$/,
  ioredis: /^src\/platform\/cluster\//,
  knex: /^(src\/platform\/db\/|knexfile\.ts$|seeds\/)/,
};

export function awayFromHome(graph: Graph): string[] {
  return breaches(graph, ({ path }, { package: name }) => {
    const home = name === undefined ? undefined : packageHomes[name];
    return home !== undefined && !home.test(path);
  });
}

export function environmentReaders(graph: Graph): string[] {
  const allowed = /^src\/(config\.ts$|agent\/)/;
  return [...graph.values()]
    .filter(({ path, readsEnvironment }) => readsEnvironment && !allowed.test(path))
    .map(({ path }) => `${path} → process.env`);
}

export function cycles(graph: Graph): string[] {
  return findCycles(graph).map((way) => way.join(' → '));
}

/** Relative imports that lead nowhere, and computed ones, which nothing can be said about. */
export function unresolved(graph: Graph): string[] {
  return breaches(graph, (_module, { target, package: name }) => target === undefined && name === undefined);
}

function breaches(graph: Graph, isBreach: (module: Module, imported: Import) => boolean): string[] {
  return [...graph.values()].flatMap((module) =>
    module.imports
      .filter((imported) => isBreach(module, imported))
      .map((imported) => `${module.path} → ${imported.target ?? imported.specifier}`),
  );
}
