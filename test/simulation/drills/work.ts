import type { Scene } from '../auditor.ts';
import { short } from '../ledger.ts';
import { connected, HOUR_MS, type Parts, rowOf } from './drill.ts';

/** Every server reaches every device that is connected, and says of the others at once that they are not. */
export async function asksEverybody(
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
export async function sendsCommands(scene: Scene, { people, pass }: Parts): Promise<void> {
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
export async function cancels(scene: Scene, { people, pass }: Parts): Promise<void> {
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
