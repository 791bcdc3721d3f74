import type { Scene } from '../auditor.ts';
import { short } from '../ledger.ts';
import {
  connected,
  HEARTBEAT_MS,
  HOUR_MS,
  oneOf,
  type Parts,
  rowOf,
  switchOn,
  whereItComes,
} from './drill.ts';
import { asksEverybody, sendsCommands } from './work.ts';

/** The others take its devices for lost, and hear at once that they are not when it is back. A device leaves meanwhile. */
export async function serverLosesRedis(scene: Scene, { people, auditor, pass }: Parts): Promise<void> {
  const { world, servers, around } = scene;
  const random = world.random('drills');
  const server = random.pick(servers);
  around.redis.setLink(server.nodeId, random.pick(['cut', 'silent']));
  await pass(1500);
  const agent = random.chance(0.6) ? oneOf(scene) : undefined;
  if (agent !== undefined) {
    agent.isOn = false;
    agent.kill(true);
  }
  await pass(random.between(500, 10_000));
  around.redis.setLink(server.nodeId, 'up');
  await pass(12_000);
  auditor.presence('after a server was away from Redis', { isEarly: true });
  await asksEverybody(scene, { people, auditor, pass });
  await pass(HEARTBEAT_MS);
  auditor.presence('some time after a server was away from Redis');
  if (agent !== undefined) await switchOn(agent, pass);
}

/** Nobody takes servers for lost that only Redis has forgotten. */
export async function redisDies(scene: Scene, { people, auditor, pass }: Parts): Promise<void> {
  const { world, around, agents } = scene;
  const random = world.random('drills');
  const losesData = random.chance(0.7);
  around.redis.stop({ losesData });
  await pass(random.between(300, 6000));
  around.redis.start();
  for (let second = 0; second < 10; second++) {
    await pass(1000);
    for (const agent of agents) {
      const row = around.presence.rows.get(agent.deviceId);
      if (
        !agent.isConnected ||
        row?.reason !== 'node_lost' ||
        Date.parse(row.since) < world.wallTime() - 10_000
      ) {
        continue;
      }
      world.history.violated(
        'living-servers-are-not-lost',
        `${short(agent.deviceId)} is marked as lost with its server`,
      );
    }
  }
  auditor.presence('after Redis has died', { isEarly: true });
  await asksEverybody(scene, { people, auditor, pass });
}

/** No connection ends because a clock is set, and devices can connect. */
export async function clockIsSet(scene: Scene, { people, auditor, pass }: Parts): Promise<void> {
  const { world, servers } = scene;
  const random = world.random('drills');
  const before = connected(scene).map((agent) => ({ agent, connection: agent.connection }));
  const server = random.pick(servers);
  for (const clockAhead of [random.pick([-1, 1]) * random.pick([600_000, HOUR_MS]), 0]) {
    server.process.clockAhead = clockAhead;
    await pass(5000);
    for (const { agent, connection } of before) {
      if (agent.connection === connection && agent.isConnected) continue;
      const text = `${short(agent.deviceId)} has lost its connection because a clock was set`;
      world.history.violated('clocks-end-nothing', text);
    }
  }
  await sendsCommands(scene, { people, auditor, pass });
  for (const { agent } of before) agent.reconnect(random.between(1, 1000));
  await pass(8000);
  auditor.presence('after a clock was set', { isEarly: true });
}

/** What could not be written is written when the database is back, the newest of each device. */
export async function databaseIsAway(scene: Scene, { people, auditor, pass }: Parts): Promise<void> {
  const { world, servers, around } = scene;
  const random = world.random('drills');
  const agent = oneOf(scene);
  if (agent === undefined) return;
  const command = people.newCommand(agent.deviceId, {
    type: 'script.run',
    payload: { language: 'bash', content: JSON.stringify({ ms: 2000, end: 'succeeds' }), timeoutSeconds: 60 },
  });
  people.post(command);
  await pass(random.between(500, 1500));
  for (const { nodeId } of servers) around.database.setWeather(nodeId, { isAway: true });
  await pass(random.between(100, 1500));
  if (random.chance(0.5)) agent.reconnect(random.between(1, 500));
  await pass(random.between(500, 3000));
  const isGone = random.chance(0.6);
  if (isGone) {
    agent.isOn = false;
    agent.kill(true);
  }
  await pass(random.between(5500, 9000));
  for (const { nodeId } of servers) around.database.setWeather(nodeId, {});
  await pass(3000);
  auditor.presence('after the database was away', { isEarly: true });
  if (isGone) return switchOn(agent, pass);
  await pass(12_000);
  const row = rowOf(scene, command);
  // Others may run in its lane until they are cancelled.
  if (row === undefined || row.status === 'succeeded' || row.status === 'queued') return;
  world.history.violated(
    'results-arrive',
    `${short(row.id)} is ${row.status} some time after the database was away`,
  );
}

/** Connections to the database are dead without a sign. What a device was meanwhile is not taken for what it is now. */
export async function databaseHangs(scene: Scene, { auditor, pass }: Parts): Promise<void> {
  const { world, servers, around } = scene;
  const random = world.random('drills');
  const agent = oneOf(scene);
  if (agent === undefined) return;
  const hangsMs = random.between(8000, 14_000);
  for (const { nodeId } of servers) around.database.setWeather(nodeId, { hangsMs });
  for (let times = random.whole(1, 3); times > 0; times--) {
    agent.reconnect(random.between(1, 300));
    // Of two attempts at the same time, either may be the newer one.
    await whereItComes(agent, pass);
    await pass(random.between(500, 900));
  }
  const isGone = random.chance(0.7);
  if (isGone) {
    agent.isOn = false;
    agent.kill(true);
  }
  await pass(random.between(4000, 16_000));
  for (const { nodeId } of servers) around.database.setWeather(nodeId, {});
  await pass(hangsMs + 5000);
  auditor.presence('after the database hung', { isEarly: true });
  if (isGone) await switchOn(agent, pass);
}

/** A server that is back before the others could mark its devices as lost keeps them. */
export async function serverIsLostForAMoment(scene: Scene, { people, auditor, pass }: Parts): Promise<void> {
  const { world, servers, around, agents } = scene;
  const random = world.random('drills');
  const server = random.pick(servers);
  const others = servers.filter((one) => one !== server);
  around.redis.setLink(server.nodeId, 'cut');
  for (const { nodeId } of others) around.database.setWeather(nodeId, { isAway: true });
  await pass(random.between(4500, 7000));
  around.redis.setLink(server.nodeId, 'up');
  // It connects to Redis again, and with the next beat of each of the others they know.
  await pass(6000);
  const backAt = world.wallTime();
  for (const { nodeId } of others) around.database.setWeather(nodeId, {});
  for (let step = 0; step < 60; step++) {
    await pass(200);
    for (const { deviceId, isConnected, connectedTo } of agents) {
      const row = around.presence.rows.get(deviceId);
      if (!isConnected || connectedTo !== server || row?.reason !== 'node_lost') continue;
      if (Date.parse(row.since) < backAt) continue;
      world.history.violated(
        'living-servers-are-not-lost',
        `${short(deviceId)} is marked as lost although its server is back`,
      );
    }
  }
  auditor.presence('after a server was lost for a moment', { isEarly: true });
  await asksEverybody(scene, { people, auditor, pass });
}
