import type { SimulatedAgent } from '../agent.ts';
import type { Scene } from '../auditor.ts';
import type { QueryRecord } from '../facts.ts';
import { short } from '../ledger.ts';
import { connected, HOUR_MS, oneOf, type Parts, switchOn, whereItComes } from './drill.ts';
import { asksEverybody } from './work.ts';

/** Claims of a server whose clock is behind, and which could not ask Redis, count in the end. */
export async function deviceComesWithoutRedis(scene: Scene, { people, auditor, pass }: Parts): Promise<void> {
  const { world, servers, around, facts } = scene;
  const random = world.random('drills');
  const agent = oneOf(scene);
  if (agent === undefined) return;
  agent.kill(true);
  await pass(9000);
  // Until they are made again, such claims may have too low an epoch.
  facts.isHealed = false;
  for (const { process } of servers) process.clockAhead = -HOUR_MS;
  around.redis.stop({ losesData: random.chance(0.5) });
  await pass(1500);
  agent.start();
  await pass(random.between(3000, 8000));
  around.redis.start();
  await pass(random.between(0, 3000));
  for (const { process } of servers) process.clockAhead = 0;
  await pass(18_000);
  facts.isHealed = true;
  auditor.presence('after a device has come without Redis', { isEarly: true });
  await asksEverybody(scene, { people, auditor, pass });
}

/** Claims that Redis did not answer in time are made up for, so that nobody finds a device that has left since. */
export async function claimsAreNotAnswered(scene: Scene, { people, auditor, pass }: Parts): Promise<void> {
  const { world, servers, around } = scene;
  const random = world.random('drills');
  const agents = connected(scene);
  // Between two beats of the servers: one that has no answer counts as a loss of Redis.
  await pass(random.between(0, 1000));
  for (const { nodeId } of servers) around.redis.setLink(nodeId, 'silent');
  for (const agent of agents) {
    // A server that still has the former connection claims without asking Redis who has the device.
    agent.connection?.silence();
    agent.reconnect(random.between(1, 60));
  }
  // Not so long that the connections to Redis end, after which everything would be published again.
  await pass(random.between(600, 750));
  for (const { nodeId } of servers) around.redis.setLink(nodeId, 'up');
  await pass(8000);
  auditor.presence('after claims were not answered', { isEarly: true });
  await asksEverybody(scene, { people, auditor, pass });
  await leaves(scene, { people, auditor, pass });
}

/**
 * A server hears of a newer claim before it hears of its own: it leaves the device to the other one. What was asked of a
 * device meanwhile is answered.
 */
export async function claimsOverlap(scene: Scene, { people, auditor, pass }: Parts): Promise<void> {
  const { world, servers, around, facts } = scene;
  const random = world.random('drills');
  const late = random.pick(servers);
  // A claim that is late on its way to Redis as well is the newer one, and the device hears that it has to wait.
  facts.isFlapping = true;
  around.redis.late = { nodeId: late.nodeId, ms: 290 };
  const asked: { agent: SimulatedAgent; query: QueryRecord }[] = [];
  for (const agent of connected(scene)) {
    agent.reconnect(1);
    const server = await whereItComes(agent, pass);
    if (server !== late) continue;
    if (random.chance(0.3)) {
      asked.push({ agent, query: people.ask(late, agent.deviceId, { isProbe: true }) });
      continue;
    }
    // For the server, the connection is still open.
    agent.connection?.silence();
    agent.reconnect(1);
    await pass(700);
  }
  await pass(3000);
  around.redis.late = undefined;
  facts.isFlapping = false;
  for (const { agent, query } of asked) {
    if (query.ends.length > 0 || !agent.isConnected) continue;
    const text = `${query.name} of ${short(agent.deviceId)}, which had just come, is not answered`;
    world.history.violated('queries-arrive', text);
  }
  if (scene.agents.some(({ isOn, isConnected }) => isOn && !isConnected)) await pass(90_000);
  await asksEverybody(scene, { people, auditor, pass });
}

async function leaves(scene: Scene, { auditor, pass }: Parts): Promise<void> {
  const agent = oneOf(scene);
  if (agent === undefined) return;
  agent.isOn = false;
  agent.kill(true);
  await pass(10_000);
  auditor.presence('after a device has left');
  auditor.owners('after a device has left', agent);
  await pass(500);
  await switchOn(agent, pass);
}

/** A person ends the connection of a device that has just come, and it does not come back: nobody finds or shows it. */
export async function deviceIsSentAway(scene: Scene, { auditor, pass }: Parts): Promise<void> {
  const { world, around } = scene;
  const agent = oneOf(scene);
  if (agent === undefined) return;
  // Each claim still has its answer in time: one that is late keeps its place until the device comes again.
  around.redis.slowMs = 120;
  agent.reconnect(1);
  const server = await whereItComes(agent, pass);
  await pass(world.random('drills').between(0, 100));
  if (server?.hub !== undefined) {
    const { hub, process } = server;
    world.after(0, process, () => hub.disconnect(agent.deviceId));
    await pass(1);
  }
  agent.isOn = false;
  agent.kill(true);
  await pass(3000);
  around.redis.slowMs = 0;
  await pass(10_000);
  auditor.presence('after a device was sent away');
  auditor.owners('after a device was sent away', agent);
  await pass(500);
  await switchOn(agent, pass);
}

/**
 * Two servers claim a device while Redis is away, both under the same epoch, because the greatest one is of a time when
 * clocks were ahead. One of them has it in the end.
 */
export async function claimsAreEqual(scene: Scene, { people, auditor, pass }: Parts): Promise<void> {
  const { world, servers, around, facts } = scene;
  const agent = oneOf(scene);
  if (agent === undefined) return;
  // Which of two equal claims is the newer one nobody knows.
  facts.isHealed = false;
  for (const { process } of servers) process.clockAhead = 24 * HOUR_MS;
  agent.reconnect(1);
  await pass(4000);
  for (const { process } of servers) process.clockAhead = 0;
  around.redis.stop({ losesData: true });
  await pass(1500);
  around.redis.start();
  await pass(15_000);
  around.redis.stop({ losesData: world.random('drills').chance(0.5) });
  await pass(1500);
  agent.connection?.silence();
  agent.reconnect(1);
  await pass(2000);
  agent.connection?.silence();
  agent.reconnect(1);
  await pass(2000);
  around.redis.start();
  await pass(12_000);
  facts.isHealed = true;
  // One that was told to leave because of the other claim comes back after a minute.
  if (!agent.isConnected) await pass(90_000);
  auditor.presence('after claims were equal', { isEarly: true });
  await asksEverybody(scene, { people, auditor, pass });
}
