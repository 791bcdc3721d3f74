// DESIGN: main → server → features → hub → platform, never back. Each rule answers with its breaches, as lines.
import { posix } from 'node:path';
import { type Graph, type Import, type Module, findCycles } from './import-graph.ts';

type Zone = keyof typeof mayImport;

const mayImport = {
  main: ['main', 'server', 'features', 'hub', 'platform', 'engine', 'protocol', 'config', 'clock', 'text'],
  // The demo fills its database from a seed.
  cli: [
    'cli',
    'seeds',
    'server',
    'features',
    'hub',
    'platform',
    'engine',
    'protocol',
    'config',
    'clock',
    'text',
  ],
  server: ['server', 'features', 'hub', 'platform', 'engine', 'protocol', 'config', 'clock', 'text'],
  features: ['features', 'hub', 'platform', 'engine', 'protocol', 'clock', 'text'],
  hub: ['hub', 'platform', 'protocol', 'clock'],
  platform: ['platform', 'clock', 'text'],
  config: ['config', 'text'],
  protocol: ['protocol', 'text'],
  // The time of every program.
  clock: ['clock'],
  // The forms of texts and addresses, for every program.
  text: ['text'],
  // restic as a child process, for the server and the agent.
  engine: ['engine', 'protocol', 'clock'],
  agent: ['agent', 'engine', 'protocol', 'clock'],
  // Of the agent only its room `os`: see `wrongDirection`.
  watchdog: ['watchdog', 'agent', 'protocol', 'clock'],
  dashboard: ['dashboard', 'protocol'],
  // Of the dashboard only how its requests are typed: see `wrongDirection`.
  clients: ['clients', 'dashboard', 'protocol'],
  // Builds programs from their sources, and imports none of them.
  packaging: ['packaging'],
  knexfile: ['platform', 'config'],
  seeds: ['seeds', 'features', 'platform', 'protocol', 'config', 'clock', 'text'],
} as const satisfies Record<string, readonly string[]>;

const singleFiles: Record<string, Zone> = {
  'src/main.ts': 'main',
  'src/server.ts': 'server',
  'src/database-and-secrets.ts': 'server',
  'src/run-server.ts': 'server',
  'src/start-failure.ts': 'server',
  'src/api-info.ts': 'server',
  'src/config.ts': 'config',
  'src/clock.ts': 'clock',
  'src/email-address.ts': 'text',
  'src/nfc.ts': 'text',
  'src/redis-url.ts': 'text',
  'src/database-url.ts': 'text',
  'knexfile.ts': 'knexfile',
};

export function zoneOf(path: string): Zone | undefined {
  const single = singleFiles[path];
  if (single !== undefined) return single;
  const folder = path.match(/^src\/([^/]+)\//)?.[1] ?? path.match(/^(seeds|clients)\//)?.[1];
  const folders: readonly string[] = Object.keys(mayImport);
  if (folder === undefined || !folders.includes(folder)) return undefined;
  return ['main', 'knexfile'].includes(folder) ? undefined : (folder as Zone);
}

/** What the dashboard and the client for programs of others have in common. */
const TYPED_REQUESTS = /^src\/dashboard\/api\/(routes|typed-route)\.ts$/;

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
    if (from === 'clients' && to === 'dashboard' && !TYPED_REQUESTS.test(target)) return true;
    if (from === 'watchdog' && to === 'agent' && !target.startsWith('src/agent/os/')) return true;
    const allowed: readonly string[] = mayImport[from];
    return !allowed.includes(to);
  });
}

/** The parts that are shared or read first keep to a few packages. */
export function wrongPackages(graph: Graph): string[] {
  return breaches(graph, ({ path }, { package: name }) => {
    if (name === undefined) return false;
    if (zoneOf(path) === 'protocol') return name !== 'zod';
    // What the engine imports becomes part of the agent.
    if (zoneOf(path) === 'engine') return !['node', 'zod', '@noble/ciphers', 'fzstd'].includes(name);
    if (zoneOf(path) === 'clients') return name !== 'zod' && name !== 'socket.io-client';
    if (zoneOf(path) === 'config') return name !== 'zod' && name !== 'node';
    return false;
  });
}

/** Folders that only have a door: the hub, the engine and each feature, even while their `index.ts` is missing. */
const ALWAYS_CLOSED = /^src\/(hub|engine|(dashboard\/)?features\/[^/]+)$/;
/** The lists of all features, which hide none of them. */
const NOT_DOORS = new Set(['src/features/index.ts', 'src/dashboard/features/index.ts']);
/** Entries of a folder beside its `index.ts`. */
const SIDE_DOORS = [
  // What the hub needs from above, as interfaces that features implement.
  /^src\/hub\/ports(\.ts$|\/)/,
  // What commands beside the server need of a feature, without loading the rest of it.
  /^src\/features\/(audit|releases)\/operator\.ts$/,
  // Tables are loaded with the pages that have one, apart from the controls of every page.
  /^src\/dashboard\/ui\/data-table\.tsx$/,
  TYPED_REQUESTS,
];

/**
 * Imports around a door that were there when the rule came, by the folder that imports and the folder that it enters,
 * with how many there may be. A number may only become smaller.
 */
const AROUND_THE_DOOR: readonly { from: string; into: string; max: number }[] = [
  // The checks of a bundle and of the stored chains.
  { from: 'src/cli/audit/', into: 'src/features/audit/', max: 10 },
];

/** Imports that enter a folder with an `index.ts` from outside, at any depth, by another of its files. */
export function aroundTheDoor(graph: Graph): string[] {
  const found = breaches(graph, ({ path }, { target, typeOnly }) => {
    if (target === undefined || !target.startsWith('src/')) return false;
    // The dashboard may import types of schemas: see `wrongDirection`.
    if (zoneOf(path) === 'dashboard' && typeOnly && target.endsWith('.schema.ts')) return false;
    if (SIDE_DOORS.some((door) => door.test(target))) return false;
    return foldersAround(target).some((folder) => {
      const door = `${folder}/index.ts`;
      const isOutside = !path.startsWith(`${folder}/`);
      const isClosed = ALWAYS_CLOSED.test(folder) || (graph.has(door) && !NOT_DOORS.has(door));
      return isClosed && isOutside && target !== door;
    });
  });
  return AROUND_THE_DOOR.reduce((rest, { from, into, max }) => {
    const listed = rest.filter((line) => line.startsWith(from) && line.includes(` → ${into}`));
    return listed.length > max ? rest : rest.filter((line) => !listed.includes(line));
  }, found);
}

/** For `src/a/b/c.ts`: `src/a/b` and `src/a`. */
function foldersAround(path: string): string[] {
  const names = posix.dirname(path).split('/');
  return names.map((_name, at) => names.slice(0, at + 1).join('/')).slice(1);
}

/** Circles that were there when the rule came. The list may only become shorter. */
const KNOWN_CIRCLES: readonly string[] = [];

/**
 * Circles between the folders of one folder, each counted with all that is below it: `src/hub: agents → device →
 * agents`. Files may be free of circles where folders are not, and then the folders are no parts.
 */
export function roomCircles(graph: Graph): string[] {
  const parents = new Set([...graph.keys()].flatMap(foldersAround).map((folder) => posix.dirname(folder)));
  return [...parents].sort().flatMap((parent) => {
    const rooms: Graph = new Map();
    for (const { path, imports } of graph.values()) {
      const from = roomOf(path, parent);
      if (from === undefined) continue;
      const room = rooms.get(from) ?? { path: from, imports: [], readsEnvironment: false };
      rooms.set(from, room);
      for (const imported of imports) {
        const to = imported.target === undefined ? undefined : roomOf(imported.target, parent);
        if (to !== undefined && to !== from) room.imports.push({ ...imported, target: to });
      }
    }
    return findCycles(rooms)
      .map((way) => `${parent}: ${way.join(' → ')}`)
      .filter((circle) => !KNOWN_CIRCLES.includes(circle));
  });
}

/** The folder directly below `parent` that the file is in; none for files of `parent` itself. */
function roomOf(path: string, parent: string): string | undefined {
  if (!path.startsWith(`${parent}/`)) return undefined;
  const [room, ...rest] = path.slice(parent.length + 1).split('/');
  return rest.length > 0 ? room : undefined;
}

/** The rooms of the agent, from the bottom up: a file imports from its own room and from the rooms before it. */
const agentRooms = [
  'os',
  'core',
  'work',
  'sql-server.ts',
  'repository',
  'capabilities',
  'simulator',
  'device-session.ts',
  'cli',
  'main.ts',
];

/** No capability of the agent, a folder or a file, imports another one, and no room imports from a room above it. */
export function upwardInAgent(graph: Graph): string[] {
  const placeOf = (path: string) => {
    const [, room, inside] = path.match(/^src\/agent\/([^/]+)(?:\/([^/]+))?/) ?? [];
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

/** The rooms of the dashboard, from the bottom up: a file imports from its own room and from the rooms before it. */
const dashboardRooms = [
  'api',
  'routing.ts',
  'live',
  'session.ts',
  'passkeys.ts',
  'directory.ts',
  'ui',
  'features',
  'app',
  'main.tsx',
  'vite.config.ts',
];

/** No room of the dashboard imports from a room above it. */
export function upwardInDashboard(graph: Graph): string[] {
  const levelOf = (path: string) => {
    const room = /^src\/dashboard\/([^/]+)/.exec(path)?.[1];
    return room === undefined ? undefined : dashboardRooms.indexOf(room);
  };
  return breaches(graph, ({ path }, { target }) => {
    const from = levelOf(path);
    const to = levelOf(target ?? '');
    if (from === undefined || to === undefined) return false;
    return from === -1 || to === -1 || to > from;
  });
}

const packageHomes: Record<string, RegExp> = {
  express: /^src\/(platform\/http\/|server\/http-app\.ts$)/,
  'socket.io':
    /^src\/hub\/(wire\/(socket-server|agent-wire|agent-socket-fast-path)|agents\/agent-transport|dashboard\/dashboard-transport)\.ts$/,
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
  const allowed = /^(src\/(config(\.ts$|\/)|agent\/|watchdog\/)|clients\/typescript\/examples\/)/;
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
