import type { SimulatedAgent } from './agent.ts';
import type { Auditor, Scene } from './auditor.ts';
import { type CommandRow, type NewCommand, short } from './ledger.ts';
import type { People } from './people.ts';

interface Parts {
  people: People;
  auditor: Auditor;
  pass: (ms: number) => Promise<void>;
}

const HOUR_MS = 3_600_000;
/** In this time, every device sends a heartbeat. */
const HEARTBEAT_MS = 35_000;

/** One thing happens in a world that is well, where it is known what has to follow, and how soon. */
export async function drill(scene: Scene, parts: Parts): Promise<void> {
  const { world } = scene;
  const next = world.random('drills').pick(DRILLS);
  world.history.note('world', `drill: ${next.name}`);
  await next(scene, parts);
}

const DRILLS = [
  asksEverybody,
  sendsCommands,
  cancels,
  deviceLeaves,
  deviceMoves,
  deviceFlaps,
  deviceRestarts,
  deviceIsMute,
  connectionBreaks,
  serverDies,
  serverIsBackAtOnce,
  serverStops,
  serverLosesRedis,
  redisDies,
  databaseIsAway,
  everythingRestarts,
  clockIsSet,
];

const connected = ({ agents }: Scene): SimulatedAgent[] => agents.filter(({ isConnected }) => isConnected);

function oneOf(scene: Scene): SimulatedAgent | undefined {
  const all = connected(scene);
  return all.length === 0 ? undefined : scene.world.random('drills').pick(all);
}

const rowOf = ({ around }: Scene, { key }: NewCommand): CommandRow | undefined =>
  [...around.commands.rows.values()].find((row) => row.key === key);

/** Every server reaches every device that is connected, and says of the others at once that they are not. */
async function asksEverybody(
  { world, servers, agents }: Scene,
  { people, auditor, pass }: Parts,
): Promise<void> {
  const listening = servers.filter(({ isListening }) => isListening);
  const asked = listening.flatMap((server) =>
    agents.map((agent) => ({
      query: people.ask(server, agent.deviceId, { isProbe: true }),
      agent,
      connection: agent.connection,
      isConnected: agent.isConnected,
    })),
  );
  await pass(5000);
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
  auditor.owners('when everybody was asked');
  await pass(2000);
}

/** Commands begin at once on a device that is connected and has nothing else to do, and one after the other. */
async function sendsCommands(scene: Scene, { people, pass }: Parts): Promise<void> {
  const { world, servers } = scene;
  const random = world.random('drills');
  const isBusy = random.chance(0.3);
  const sent = connected(scene).flatMap((agent) => {
    if (isBusy) agent.beBusy(1500);
    return Array.from({ length: isBusy ? 1 : 5 }, () => {
      const command = people.newCommand(agent.deviceId, { type: 'agent.refresh-inventory', payload: {} });
      people.post(command, random.pick(servers));
      return { agent, connection: agent.connection, command };
    });
  });
  // A device that was busy is woken by the next sweep.
  await pass(isBusy ? 9000 : 6000);
  for (const { agent, connection, command } of sent) {
    const row = rowOf(scene, command);
    if (row === undefined || row.status === 'succeeded' || agent.connection !== connection) continue;
    const text = `${short(row.id)} of ${short(agent.deviceId)} is ${row.status} after some seconds`;
    world.history.violated('commands-arrive-at-once', text);
  }
}

/** What runs until it is cancelled ends soon after it was cancelled. */
async function cancels(scene: Scene, { people, pass }: Parts): Promise<void> {
  const { world, servers } = scene;
  const random = world.random('drills');
  const sent = connected(scene).map((agent) => {
    const content = JSON.stringify({ end: 'succeeds' });
    const payload = { language: 'bash', content, timeoutSeconds: 3600 };
    const command = people.newCommand(agent.deviceId, { type: 'script.run', payload, timeoutMs: HOUR_MS });
    people.post(command, random.pick(servers));
    return { agent, connection: agent.connection, command };
  });
  await pass(3000);
  for (const { command } of sent) {
    const row = rowOf(scene, command);
    if (row !== undefined) people.cancel(row.id, 3);
  }
  await pass(6000);
  for (const { agent, connection, command } of sent) {
    const row = rowOf(scene, command);
    if (row === undefined || row.status === 'cancelled' || agent.connection !== connection) continue;
    const text = `${short(row.id)} of ${short(agent.deviceId)} was cancelled and is ${row.status}`;
    world.history.violated('cancellations-arrive-at-once', text);
  }
}

/** A device is shown as offline soon, nobody finds it, and what it was sent meanwhile begins when it is back. */
async function deviceLeaves(scene: Scene, { people, auditor, pass }: Parts): Promise<void> {
  const agent = oneOf(scene);
  if (agent === undefined) return;
  agent.isOn = false;
  agent.kill(true);
  await pass(10_000);
  auditor.presence('after a device has left');
  auditor.owners('after a device has left', agent);
  const command = people.newCommand(agent.deviceId, { type: 'agent.refresh-inventory', payload: {} });
  people.post(command);
  await pass(2000);
  agent.isOn = true;
  agent.start();
  await pass(8000);
  auditor.presence('after a device has come back');
  const row = rowOf(scene, command);
  if (row === undefined || row.status === 'succeeded' || !agent.isConnected) return;
  scene.world.history.violated(
    'commands-arrive-at-once',
    `${short(row.id)} is ${row.status} although its device is back`,
  );
}

/** The newest connection wins, whichever server it is to, and also if the former one is away from Redis. */
async function deviceMoves(scene: Scene, { people, auditor, pass }: Parts): Promise<void> {
  const { world, around } = scene;
  const random = world.random('drills');
  const agent = oneOf(scene);
  if (agent === undefined) return;
  const former = agent.connectedTo?.nodeId ?? '';
  const isAway = random.chance(0.5);
  if (isAway) around.redis.setLink(former, random.pick(['cut', 'silent']));
  // The old connection stays open at the server for as long as that hears nothing.
  agent.connection?.silence();
  agent.reconnect();
  await pass(2500);
  around.redis.setLink(former, 'up');
  await pass(10_000);
  auditor.presence('after a device has moved', { isEarly: true });
  await asksEverybody(scene, { people, auditor, pass });
}

/** A device comes and goes faster than servers hear of it, while Redis is slow. In the end it may be gone. */
async function deviceFlaps(scene: Scene, { people, auditor, pass }: Parts): Promise<void> {
  const { world, around, facts } = scene;
  const random = world.random('drills');
  const agent = oneOf(scene);
  if (agent === undefined) return;
  // Connections that are made at the same time are claimed in any order, and the device hears that it has to wait.
  facts.isFlapping = true;
  around.redis.slowMs = random.pick([0, 100, 220]);
  for (let times = random.whole(2, 6); times > 0; times--) {
    if (random.chance(0.5)) agent.connection?.silence();
    agent.reconnect(random.between(1, 100));
    await pass(random.between(20, 600));
  }
  const isGone = random.chance(0.5);
  if (isGone) {
    agent.isOn = false;
    agent.kill(true);
  }
  await pass(3000);
  around.redis.slowMs = 0;
  // A connection that fell silent is noticed by its pings. One that an older one has replaced comes back after a minute.
  await pass(90_000);
  facts.isFlapping = false;
  auditor.presence('after a device has come and gone');
  if (isGone) {
    auditor.owners('after a device has come and gone', agent);
    await pass(100);
    agent.isOn = true;
    agent.start();
    await pass(5000);
  }
  await asksEverybody(scene, { people, auditor, pass });
}

/** A machine without power is back at once. Its earlier connection does not keep it away. */
async function deviceRestarts(scene: Scene, { auditor, pass }: Parts): Promise<void> {
  const agent = oneOf(scene);
  if (agent === undefined) return;
  agent.kill(false);
  await pass(500);
  agent.start();
  await pass(15_000);
  auditor.presence('after a device has restarted');
}

/** A connection whose device sends nothing is ended. */
async function deviceIsMute(scene: Scene, { pass }: Parts): Promise<void> {
  const agent = oneOf(scene);
  const connection = agent?.connection;
  if (agent === undefined || connection === undefined) return;
  agent.beMute(130_000);
  await pass(1000);
  const { sent } = connection;
  await pass(111_000);
  agent.beMute(0);
  // A result that it has sent meanwhile counts as well.
  if (agent.connection !== connection || !connection.server.isOpen || connection.sent > sent) return;
  scene.world.history.violated('silence-ends-connections', `${short(agent.deviceId)} was silent for 112 s`);
}

/** Its queries end at once; an answer that cannot be sent at this moment is sent a little later. */
async function connectionBreaks(scene: Scene, { people, pass }: Parts): Promise<void> {
  const { world, around, servers } = scene;
  const random = world.random('drills');
  const agent = oneOf(scene);
  if (agent === undefined) return;
  const owner = agent.connectedTo;
  const asking = random.pick(servers.filter(({ isListening }) => isListening));
  const query = people.ask(asking, agent.deviceId, { isProbe: true, name: 'slow' });
  await pass(1000);
  const isOfRedis = random.chance(0.5);
  if (isOfRedis && owner !== undefined) around.redis.setLink(owner.nodeId, 'cut');
  else agent.connection?.reset();
  await pass(1500);
  if (owner !== undefined) around.redis.setLink(owner.nodeId, 'up');
  await pass(isOfRedis ? 6000 : 500);
  if (query.ends.length > 0) return;
  world.history.violated('queries-end', `${query.name} of ${short(agent.deviceId)} has not ended`);
}

/** Queries through it and to its devices end soon, and its devices are shown where they are. */
async function serverDies(scene: Scene, { people, auditor, pass }: Parts): Promise<void> {
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
  await pass(8000);
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

async function switchOn(agent: SimulatedAgent, pass: Parts['pass']): Promise<void> {
  agent.isOn = true;
  if (!agent.process.isAlive) agent.start();
  await pass(8000);
}

/** Before the others miss it. A device that was lost with it is shown as offline by all. */
async function serverIsBackAtOnce(scene: Scene, { auditor, pass }: Parts): Promise<void> {
  const random = scene.world.random('drills');
  const held = oneOf(scene);
  const server = held?.connectedTo;
  if (held === undefined || server === undefined) return;
  held.isOn = false;
  held.kill(false);
  server.kill();
  await pass(random.between(100, 1500));
  server.start();
  await pass(80_000);
  auditor.presence('after a server was back at once');
  await switchOn(held, pass);
}

async function serverStops(scene: Scene, { auditor, pass }: Parts): Promise<void> {
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

/** The others take its devices for lost, and hear at once that they are not when it is back. A device leaves meanwhile. */
async function serverLosesRedis(scene: Scene, { people, auditor, pass }: Parts): Promise<void> {
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
async function redisDies(scene: Scene, { people, auditor, pass }: Parts): Promise<void> {
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
async function clockIsSet(scene: Scene, { people, auditor, pass }: Parts): Promise<void> {
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
async function databaseIsAway(scene: Scene, { people, auditor, pass }: Parts): Promise<void> {
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

/** Epochs of a time when all clocks were ahead do not make later ones count for less, also if Redis has forgotten them. */
async function everythingRestarts(scene: Scene, { auditor, pass }: Parts): Promise<void> {
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
