import type { SimulatedAgent } from './agent.ts';
import type { Auditor, Scene } from './auditor.ts';
import { short } from './ledger.ts';
import type { People } from './people.ts';
import type { SimulatedServer } from './server.ts';

interface Parts {
  people: People;
  auditor: Auditor;
  pass: (ms: number) => Promise<void>;
}

/** One thing happens in a world that is well, where it is known what has to follow, and how soon. */
export async function drill(scene: Scene, parts: Parts): Promise<void> {
  const { world } = scene;
  const kinds = [asksEverybody, sendsCommands, deviceLeaves, deviceMoves, serverDies, serverStops, cancels];
  const next = world.random('drills').pick(kinds);
  world.history.note('world', `drill: ${next.name}`);
  await next(scene, parts);
}

/** Every server reaches every device that is connected, and says of the others at once that they are not. */
async function asksEverybody({ world, servers, agents }: Scene, { people, pass }: Parts): Promise<void> {
  const listening = servers.filter(({ isListening }) => isListening);
  const asked = listening.flatMap((server) =>
    agents.map((agent) => ({
      query: people.ask(server, agent.deviceId, { isProbe: true }),
      agent,
      connection: agent.connection,
      isConnected: agent.isConnected,
    })),
  );
  await pass(12_000);
  for (const { query, agent, connection, isConnected } of asked) {
    // One that has connected again meanwhile may have been away for a moment.
    if (agent.connection !== connection || agent.isConnected !== isConnected) continue;
    const outcome = query.ends[0]?.outcome;
    const found = outcome === undefined ? 'nothing' : outcome.ok ? 'an answer' : outcome.reason;
    const right = isConnected ? 'an answer' : 'offline';
    if (found === right) continue;
    const text = `${query.nodeId} asked ${short(agent.deviceId)} and got ${found} in place of ${right}`;
    world.history.violated('queries-arrive', text);
  }
}

/** A command begins at once on a device that is connected and has nothing else to do. */
async function sendsCommands(
  { world, around, servers, agents }: Scene,
  { people, pass }: Parts,
): Promise<void> {
  const random = world.random('drills');
  const sent = agents
    .filter(({ isConnected }) => isConnected)
    .map((agent) => {
      const command = people.newCommand(agent.deviceId, { type: 'agent.refresh-inventory', payload: {} });
      people.post(command, random.pick(servers));
      return { agent, connection: agent.connection, key: command.key };
    });
  await pass(6000);
  for (const { agent, connection, key } of sent) {
    const row = [...around.commands.rows.values()].find((one) => one.key === key);
    if (row === undefined || row.status === 'succeeded' || agent.connection !== connection) continue;
    const text = `${short(row.id)} of ${short(agent.deviceId)} is ${row.status} after 6 s`;
    world.history.violated('commands-arrive-at-once', text);
  }
}

const connected = ({ agents }: Scene): SimulatedAgent[] => agents.filter(({ isConnected }) => isConnected);

async function deviceLeaves(scene: Scene, { auditor, pass }: Parts): Promise<void> {
  const random = scene.world.random('drills');
  const all = connected(scene);
  if (all.length === 0) return;
  const agent = random.pick(all);
  agent.isOn = false;
  agent.kill(true);
  await pass(12_000);
  auditor.presence('after a device has left');
  agent.isOn = true;
  agent.start();
  await pass(20_000);
  auditor.presence('after a device has come back');
}

/** The newest connection wins, whichever server it is to. */
async function deviceMoves(scene: Scene, { people, auditor, pass }: Parts): Promise<void> {
  const random = scene.world.random('drills');
  const all = connected(scene);
  if (all.length === 0) return;
  const agent = random.pick(all);
  // The old connection stays open at the server for as long as that hears nothing.
  agent.connection?.silence();
  agent.reconnect();
  await pass(60_000);
  auditor.presence('after a device has moved');
  await asksEverybody(scene, { people, auditor, pass });
}

/** Queries through it and to its devices end soon, and its devices are shown where they are. */
async function serverDies(scene: Scene, { people, auditor, pass }: Parts): Promise<void> {
  const { world, servers, agents } = scene;
  const random = world.random('drills');
  const server: SimulatedServer = random.pick(servers);
  const other = servers.find((one) => one !== server);
  const held = agents.find((agent) => agent.isConnected && agent.connectedTo === server);
  // Its answer is on the way when the server dies.
  held?.connection?.silence();
  const query =
    held === undefined || other === undefined
      ? undefined
      : people.ask(other, held.deviceId, { isProbe: true });
  await pass(1000);
  server.kill(random.chance(0.5));
  await pass(9000);
  held?.connection?.restore();
  if (query !== undefined && query.ends.length === 0) {
    world.history.violated(
      'dead-servers-end-queries',
      `${query.name} waits for ${server.nodeId}, which is dead`,
    );
  }
  await pass(100_000);
  auditor.presence('after a server has died');
  auditor.deliveries('after a server has died', 60_000);
  server.start();
  await pass(20_000);
}

async function serverStops(scene: Scene, { auditor, pass }: Parts): Promise<void> {
  const random = scene.world.random('drills');
  const server = random.pick(scene.servers);
  let hasStopped = false;
  server.stop(() => (hasStopped = true));
  await pass(30_000);
  if (!hasStopped)
    scene.world.history.violated('servers-stop', `${server.nodeId} has not stopped after 30 s`);
  await pass(40_000);
  auditor.presence('after a server was stopped');
  if (!server.process.isAlive) server.start();
  await pass(20_000);
}

/** What runs until it is cancelled ends soon after it was cancelled. */
async function cancels({ world, around, servers, agents }: Scene, { people, pass }: Parts): Promise<void> {
  const random = world.random('drills');
  const sent = agents
    .filter(({ isConnected }) => isConnected)
    .map((agent) => {
      const payload = {
        language: 'bash',
        content: JSON.stringify({ end: 'succeeds' }),
        timeoutSeconds: 3600,
      };
      const command = people.newCommand(agent.deviceId, {
        type: 'script.run',
        payload,
        timeoutMs: 3_600_000,
      });
      people.post(command, random.pick(servers));
      return { agent, connection: agent.connection, key: command.key };
    });
  await pass(3000);
  const rowOf = (key: string) => [...around.commands.rows.values()].find((row) => row.key === key);
  for (const { key } of sent) {
    const row = rowOf(key);
    if (row !== undefined) people.cancel(row.id, 3);
  }
  await pass(10_000);
  for (const { agent, connection, key } of sent) {
    const row = rowOf(key);
    if (row === undefined || row.status === 'cancelled' || agent.connection !== connection) continue;
    const text = `${short(row.id)} of ${short(agent.deviceId)} was cancelled and is ${row.status}`;
    world.history.violated('cancellations-arrive-at-once', text);
  }
}
