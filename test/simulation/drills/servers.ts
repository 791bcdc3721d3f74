import type { Scene } from '../auditor.ts';
import { HOUR_MS, oneOf, type Parts, switchOn, whereItComes } from './drill.ts';

/** Queries through it and to its devices end soon, and its devices are shown where they are. */
export async function serverDies(scene: Scene, { people, auditor, pass }: Parts): Promise<void> {
  const { world, servers, agents, around } = scene;
  const random = world.random('drills');
  const server = random.pick(servers);
  const other = servers.find((one) => one !== server);
  const held = agents.find((agent) => agent.isConnected && agent.connectedTo === server);
  const isHeard = random.chance(0.5);
  const isGone = held !== undefined && random.chance(0.7);
  // Its answer is on the way when the server dies.
  held?.connection?.silence();
  const ask = () =>
    held === undefined || other === undefined
      ? undefined
      : people.ask(other, held.deviceId, { isProbe: true });
  const query = ask();
  await pass(1000);
  if (isGone) {
    held.isOn = false;
    held.kill(false);
  }
  const isAway = random.chance(0.4);
  if (isAway) for (const { nodeId } of servers) around.database.setWeather(nodeId, { isAway: true });
  server.kill(isHeard);
  // Redis says that nobody listens, so there is nothing to wait for. It may not know that an earlier connection is broken.
  const isKnown = isHeard && !around.redis.hasListener(`muster:to:${server.nodeId}`);
  const atOnce = isKnown ? ask() : undefined;
  await pass(1000);
  if (atOnce !== undefined && atOnce.ends.length === 0) {
    world.history.violated(
      'dead-servers-end-queries',
      `${atOnce.name} waits although nobody listens for ${server.nodeId}`,
    );
  }
  await pass(7000);
  for (const { nodeId } of servers) around.database.setWeather(nodeId, {});
  if (query !== undefined && query.ends.length === 0) {
    world.history.violated(
      'dead-servers-end-queries',
      `${query.name} waits for ${server.nodeId}, which is dead`,
    );
  }
  const later = isGone ? ask() : undefined;
  await pass(2000);
  if (later !== undefined && later.ends.length === 0) {
    world.history.violated(
      'dead-servers-end-queries',
      `${later.name} was sent to ${server.nodeId}, which is dead`,
    );
  }
  if (!isGone) held?.connection?.restore();
  if (isHeard && !isAway && isGone) auditor.presence('soon after a server has died');
  await pass(80_000);
  auditor.presence('after a server has died');
  auditor.deliveries('after a server has died', 60_000);
  if (held !== undefined) await switchOn(held, pass);
  server.start();
  await pass(20_000);
}

/** Before the others miss it. A device that was lost with it is shown as offline by all. */
export async function serverIsBackAtOnce(scene: Scene, { auditor, pass }: Parts): Promise<void> {
  const random = scene.world.random('drills');
  const held = oneOf(scene);
  const server = held?.connectedTo;
  if (held === undefined || server === undefined) return;
  held.isOn = false;
  held.kill(false);
  server.kill();
  await pass(random.between(100, 1500));
  server.start();
  for (let steps = 0; steps < 100 && !server.isListening; steps++) await pass(100);
  await pass(1000);
  auditor.dashboards('as soon as a server was back', [held]);
  await pass(75_000);
  auditor.presence('after a server was back at once');
  await switchOn(held, pass);
}

export async function serverStops(scene: Scene, { auditor, pass }: Parts): Promise<void> {
  const server = scene.world.random('drills').pick(scene.servers);
  let hasStopped = false;
  server.stop(() => (hasStopped = true));
  await pass(30_000);
  if (!hasStopped) {
    scene.world.history.violated('servers-stop', `${server.nodeId} has not stopped after 30 s`);
  }
  await pass(40_000);
  auditor.presence('after a server was stopped');
  if (!server.process.isAlive) server.start();
  await pass(20_000);
}

/** Epochs of a time when all clocks were ahead do not make later ones count for less, also if Redis has forgotten them. */
export async function everythingRestarts(scene: Scene, { auditor, pass }: Parts): Promise<void> {
  const { servers, around } = scene;
  const random = scene.world.random('drills');
  for (const { process } of servers) process.clockAhead = 24 * HOUR_MS;
  oneOf(scene)?.reconnect();
  await pass(4000);
  for (const server of servers) server.stop(() => {});
  await pass(8000);
  around.redis.stop({ losesData: true });
  await pass(1000);
  around.redis.start();
  for (const server of servers) {
    server.process.clockAhead = 0;
    if (!server.process.isAlive) server.start();
    await pass(random.between(0, 1000));
  }
  // While there was no server, devices try less and less often.
  await pass(45_000);
  auditor.presence('after everything was restarted');
}

/** All servers lose their power, and one stays away: its devices are shown as offline by those that come back. */
export async function allServersDie(scene: Scene, { auditor, pass }: Parts): Promise<void> {
  const { servers, around, world } = scene;
  const random = world.random('drills');
  const held = oneOf(scene);
  const away = held?.connectedTo;
  if (held === undefined || away === undefined) return;
  held.isOn = false;
  held.kill(false);
  for (const server of servers) server.kill();
  const losesData = random.chance(0.5);
  if (random.chance(0.5)) around.redis.stop({ losesData });
  await pass(random.between(1000, 12_000));
  if (!around.redis.isUp) around.redis.start();
  for (const server of servers) if (server !== away) server.start();
  // While there was no server, devices try less and less often.
  await pass(50_000);
  auditor.presence('after all servers have died');
  away.start();
  await pass(15_000);
  await switchOn(held, pass);
}

/**
 * Devices of a server that has died are at one that cannot write that yet. The others take them for lost in the database,
 * and nobody shows them as offline.
 */
export async function devicesMoveUnwritten(scene: Scene, { auditor, pass }: Parts): Promise<void> {
  const { servers, around, agents, world } = scene;
  const random = world.random('drills');
  const dead = random.pick(servers);
  const other = random.pick(servers.filter((one) => one !== dead));
  around.database.setWeather(other.nodeId, { isAway: true });
  await pass(1000);
  dead.kill();
  await pass(3000);
  const moved = agents
    .filter(({ isConnected }) => isConnected)
    .map((agent) => ({ agent, connection: agent.connection }));
  await pass(random.between(3500, 6000));
  auditor.dashboards(
    'when devices had moved',
    moved.filter(({ agent, connection }) => agent.connection === connection).map(({ agent }) => agent),
  );
  around.database.setWeather(other.nodeId, {});
  await pass(8000);
  auditor.presence('after devices have moved', { isEarly: true });
  dead.start();
  await pass(20_000);
}

/** A device comes to a server that dies before it has written that, and is gone as well: nobody shows it as online. */
export async function serverDiesAtOnce(scene: Scene, { auditor, pass }: Parts): Promise<void> {
  const random = scene.world.random('drills');
  const agent = oneOf(scene);
  if (agent === undefined) return;
  const isFresh = random.chance(0.5);
  if (isFresh) {
    agent.kill(true);
    await pass(10_000);
    agent.start();
  } else agent.reconnect(1);
  const server = await whereItComes(agent, pass);
  if (server === undefined) return;
  await pass(random.between(0, 600));
  agent.isOn = false;
  agent.kill(false);
  server.kill();
  await pass(random.between(200, 8000));
  server.start();
  await pass(40_000);
  auditor.presence('after a server has died at once');
  await switchOn(agent, pass);
}
