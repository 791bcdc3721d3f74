import type { Scene } from '../auditor.ts';
import { short } from '../ledger.ts';
import { oneOf, type Parts, rowOf, switchOn } from './drill.ts';
import { asksEverybody } from './work.ts';

/** A device is shown as offline soon, nobody finds it, and what it was sent meanwhile begins when it is back. */
export async function deviceLeaves(scene: Scene, { people, auditor, pass }: Parts): Promise<void> {
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
export async function deviceMoves(scene: Scene, { people, auditor, pass }: Parts): Promise<void> {
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
export async function deviceFlaps(scene: Scene, { people, auditor, pass }: Parts): Promise<void> {
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
export async function deviceRestarts(scene: Scene, { auditor, pass }: Parts): Promise<void> {
  const agent = oneOf(scene);
  if (agent === undefined) return;
  agent.kill(false);
  await pass(500);
  agent.start();
  await pass(15_000);
  auditor.presence('after a device has restarted');
}

/** A connection whose device sends nothing is ended. */
export async function deviceIsMute(scene: Scene, { pass }: Parts): Promise<void> {
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
export async function connectionBreaks(scene: Scene, { people, pass }: Parts): Promise<void> {
  const { world, around, servers } = scene;
  const random = world.random('drills');
  const agent = oneOf(scene);
  if (agent === undefined) return;
  const owner = agent.connectedTo;
  const asking = random.pick(servers.filter(({ isListening }) => isListening));
  const query = people.ask(asking, agent.deviceId, { isProbe: true, name: 'slow' });
  await pass(1000);
  const what = random.pick(['Redis', 'connection', 'device'] as const);
  if (what === 'connection') agent.connection?.reset();
  else if (what === 'device') agent.kill(true);
  else if (owner !== undefined) around.redis.setLink(owner.nodeId, 'cut');
  // Less than the time for which a device may be away before it counts as gone.
  await pass(1500);
  if (owner !== undefined) around.redis.setLink(owner.nodeId, 'up');
  await pass(what === 'Redis' ? 6000 : 500);
  if (query.ends.length === 0) {
    world.history.violated('queries-end', `${query.name} of ${short(agent.deviceId)} has not ended`);
  }
  if (what === 'device') await switchOn(agent, pass);
}

/** Rows are lost on the way between two servers, and Redis counts them as received: the answer is not complete. */
export async function rowsAreLost(scene: Scene, { people, pass }: Parts): Promise<void> {
  const { world, around, servers } = scene;
  const random = world.random('drills');
  const agent = oneOf(scene);
  const asking = servers.find((server) => server.isListening && server !== agent?.connectedTo);
  if (agent === undefined || asking === undefined) return;
  const query = people.ask(asking, agent.deviceId, { isProbe: true, name: 'long' });
  await pass(random.between(1000, 4000));
  around.redis.setLink(asking.nodeId, 'silent');
  await pass(random.between(1500, 3000));
  around.redis.setLink(asking.nodeId, 'up');
  // What is not true of the outcome, the facts see by themselves.
  await pass(32_000);
  if (query.ends.length > 0) return;
  world.history.violated('queries-end', `${query.name} of ${short(agent.deviceId)} has not ended`);
}

/** People begin to look just when a device leaves or comes, while that is neither written nor was it sent to their server. */
export async function dashboardsAreOpened(scene: Scene, { auditor, pass }: Parts): Promise<void> {
  const { world, servers, around } = scene;
  const random = world.random('drills');
  const agent = oneOf(scene);
  if (agent === undefined || around.hasDashboards) return;
  agent.isOn = false;
  agent.kill(true);
  // So long it may be away before it counts as gone, and then the writers take up to a second.
  await pass(random.between(4900, 5900));
  if (random.chance(0.3)) {
    agent.isOn = true;
    agent.start();
    await pass(random.between(0, 3000));
  }
  for (const server of servers) {
    world.after(0, server.process, () => server.openDashboard());
    await pass(random.between(1, 100));
  }
  await pass(5000);
  auditor.dashboards('after people have begun to look', [agent]);
  for (const server of servers) server.closeDashboard();
  await switchOn(agent, pass);
}
