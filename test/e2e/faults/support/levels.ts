import { eventually } from '../../../support/eventually.ts';
import type { ServerProgram } from './server-program.ts';

/** What a server has open, by its own metrics. */
export interface Levels {
  agents: number;
  sockets: number;
  questions: number;
  mailbox: number;
  unwritten: number;
  timers: number;
  /** All but those to the database, whose pool comes and goes. */
  connections: number;
}

const SOON_MS = 20_000;

/** The sum of a metric over those of its labels that fit. */
function sum(metrics: string, name: string, label = ''): number {
  return metrics
    .split('\n')
    .filter((line) => (line.startsWith(`${name} `) || line.startsWith(`${name}{`)) && line.includes(label))
    .reduce((total, line) => total + Number(line.slice(line.lastIndexOf(' ') + 1)), 0);
}

export async function levelsOf(server: ServerProgram): Promise<Levels> {
  const metrics = await server.metrics();
  const databaseConnections = ['used', 'free']
    .flatMap((state) => ['connections', 'hub_connections'].map((pool) => ({ state, pool })))
    .reduce(
      (total, { state, pool }) => total + sum(metrics, `muster_database_${pool}`, `state="${state}"`),
      0,
    );
  return {
    agents: sum(metrics, 'muster_connected_agents'),
    sockets: sum(metrics, 'muster_sockets'),
    questions: sum(metrics, 'muster_open_questions'),
    mailbox: sum(metrics, 'muster_mailbox_depth'),
    unwritten: sum(metrics, 'muster_presence_unwritten') + sum(metrics, 'muster_command_events_unwritten'),
    timers: sum(metrics, 'nodejs_active_resources', 'type="Timeout"'),
    connections: sum(metrics, 'nodejs_active_resources', 'type="TCPSocketWrap"') - databaseConnections,
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
