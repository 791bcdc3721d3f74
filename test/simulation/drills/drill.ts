import type { SimulatedAgent } from '../agent.ts';
import type { Auditor, Scene } from '../auditor.ts';
import type { CommandRow, NewCommand } from '../ledger.ts';
import type { People } from '../people.ts';

export interface Parts {
  people: People;
  auditor: Auditor;
  pass: (ms: number) => Promise<void>;
}

/** One thing happens in a world that is well, where it is known what has to follow, and how soon. */
export type Drill = (scene: Scene, parts: Parts) => Promise<void>;

export const HOUR_MS = 3_600_000;
/** In this time, every device sends a heartbeat. */
export const HEARTBEAT_MS = 35_000;

export const connected = ({ agents }: Scene): SimulatedAgent[] =>
  agents.filter(({ isConnected }) => isConnected);

export function oneOf(scene: Scene): SimulatedAgent | undefined {
  const all = connected(scene);
  return all.length === 0 ? undefined : scene.world.random('drills').pick(all);
}

export const rowOf = ({ around }: Scene, { key }: NewCommand): CommandRow | undefined =>
  [...around.commands.rows.values()].find((row) => row.key === key);

export async function switchOn(agent: SimulatedAgent, pass: Parts['pass']): Promise<void> {
  agent.isOn = true;
  if (!agent.process.isAlive) agent.start();
  await pass(8000);
}

/** The server that a device is connected to, as soon as it is. */
export async function whereItComes(agent: SimulatedAgent, pass: Parts['pass']) {
  for (let steps = 0; steps < 300 && agent.connectedTo === undefined; steps++) await pass(10);
  return agent.connectedTo;
}
