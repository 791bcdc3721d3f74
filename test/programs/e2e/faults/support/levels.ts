import { eventually } from '../../../../support/eventually.ts';
import type { ServerProgram } from './server-program.ts';

/** What a server has open, by its own metrics. */
export interface Levels {
  agents: number;
  sockets: number;
  questions: number;
  mailbox: number;
  unwritten: number;
  /** All but those with which the database's pools look for connections that nobody uses. */
  timers: number;
  /** All but those to the database. */
  connections: number;
}

const SOON_MS = 60_000;

/**
 * Pools come and go for reasons of their own: a server that takes its first background job opens a connection for it,
 * and keeps it as long as jobs come more often than every 30 s. A pool has one timer for as long as it has connections.
 */
const POOLS = ['connections', 'hub_connections', 'job_connections', 'queue_connections', 'store_connections'];

/** The sum of a metric over those of its labels that fit. */
function sum(metrics: string, name: string, label = ''): number {
  return metrics
    .split('\n')
    .filter((line) => (line.startsWith(`${name} `) || line.startsWith(`${name}{`)) && line.includes(label))
    .reduce((total, line) => total + Number(line.slice(line.lastIndexOf(' ') + 1)), 0);
}

export async function levelsOf(server: ServerProgram): Promise<Levels> {
  const metrics = await server.metrics();
  const pools = POOLS.map((pool) =>
    ['used', 'free'].reduce(
      (total, state) => total + sum(metrics, `muster_database_${pool}`, `state="${state}"`),
      0,
    ),
  );
  const poolTimers = pools.filter((connections) => connections > 0).length;
  const poolConnections = pools.reduce((total, connections) => total + connections, 0);
  return {
    agents: sum(metrics, 'muster_connected_agents'),
    sockets: sum(metrics, 'muster_sockets'),
    questions: sum(metrics, 'muster_open_questions'),
    mailbox: sum(metrics, 'muster_mailbox_depth'),
    unwritten: sum(metrics, 'muster_presence_unwritten') + sum(metrics, 'muster_command_events_unwritten'),
    timers: sum(metrics, 'nodejs_active_resources', 'type="Timeout"') - poolTimers,
    connections: sum(metrics, 'nodejs_active_resources', 'type="TCPSocketWrap"') - poolConnections,
  };
}

/** The level at rest: the highest of a second, since a beat of the cluster or a write may be under way. */
export async function levelsAtRest(server: ServerProgram): Promise<Levels> {
  let highest = await levelsOf(server);
  for (let look = 0; look < 5; look++) {
    await new Promise((resolve) => setTimeout(resolve, 100));
    const now = await levelsOf(server);
    for (const key of keysOf(now)) highest = { ...highest, [key]: Math.max(highest[key], now[key]) };
  }
  return highest;
}

/** With its agents gone, the server has no more open than before they came. */
export async function expectAtRest(server: ServerProgram, before: Levels): Promise<void> {
  await eventually(
    async () => {
      const now = await levelsOf(server);
      return Object.fromEntries(
        keysOf(now).flatMap((key) =>
          now[key] > before[key] ? [[key, `${now[key]} on ${server.nodeId}, ${before[key]} before`]] : [],
        ),
      );
    },
    (left) => Object.keys(left).length === 0,
    SOON_MS,
  );
}

const keysOf = (levels: Levels) => Object.keys(levels) as (keyof Levels)[];
