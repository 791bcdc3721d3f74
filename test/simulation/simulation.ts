import { type SimulatedAgent, SimulatedAgent as Agent } from './agent.ts';
import { Auditor, type Scene } from './auditor.ts';
import { SimulatedDatabase } from './database.ts';
import { drill } from './drills.ts';
import { Facts } from './facts.ts';
import { Faults } from './faults.ts';
import type { Violation } from './history.ts';
import { SimulatedCommands, isOpen } from './ledger.ts';
import { People } from './people.ts';
import { SimulatedPresence } from './presence.ts';
import { SimulatedRedis } from './redis.ts';
import { SimulatedServer } from './server.ts';
import type { Surroundings } from './surroundings.ts';
import { World } from './world.ts';

/** How long things break, and how long the world then has to become well by itself. */
const FAULTS_MS = 240_000;
const HEALING_MS = 200_000;
const LAST_MS = 150_000;
const DRILLS = 6;

export interface Outcome {
  seed: number;
  violations: readonly Violation[];
  /** The same for two runs of one seed. */
  digest: string;
  /** The last lines of the history. */
  tail: readonly string[];
  /** How much time has passed in the world. */
  virtualMs: number;
  events: number;
  counts: ReadonlyMap<string, number>;
}

interface Options {
  /** How many lines of the history are kept (default 400). */
  lines?: number;
  /** A part of the usual length of the faults, for a short run. Then there is one drill. */
  scale?: number;
  /** The only drill, so that a new one is tried quickly. */
  only?: string;
}

/** Runs the world of one seed. It ends at the first violation. */
export async function simulate(
  seed: number,
  { lines = 400, scale = 1, only }: Options = {},
): Promise<Outcome> {
  const world = new World(seed, lines);
  const random = world.random('scene');
  const deviceIds = Array.from(
    { length: random.whole(4, 7) },
    (_none, at) => `00000000-0000-7000-8000-0000000d000${at + 1}`,
  );
  const presence = new SimulatedPresence(world, deviceIds);
  const commands = new SimulatedCommands(world, presence);
  const around: Surroundings = {
    redis: new SimulatedRedis(world),
    database: new SimulatedDatabase(world),
    presence,
    commands,
    hasDashboards: random.chance(0.5),
  };
  const servers = Array.from(
    { length: random.whole(2, 3) },
    (_none, at) => new SimulatedServer(world, `node-${at + 1}`, around),
  );
  const facts = new Facts(world, commands);
  const agents = deviceIds.map((deviceId): SimulatedAgent => new Agent(world, deviceId, { facts, servers }));
  const scene: Scene = { world, around, facts, servers, agents };
  const auditor = new Auditor(scene);
  const people = new People(world, scene);
  const faults = new Faults(world, scene);
  const isOver = () => world.history.isOver;

  await world.run(async (pass) => {
    for (const server of servers) server.start();
    await pass(1000);
    for (const agent of agents) agent.start();
    await pass(10_000);
    people.begin();
    faults.begin();
    await pass(FAULTS_MS * scale);
    people.stop();
    faults.end();
    await pass(HEALING_MS);
    if (isOver()) return;
    facts.isHealed = true;
    auditor.presence('after the faults');
    auditor.deliveries('after the faults', 60_000);
    auditor.memory();
    for (let count = 0; count < (scale < 1 ? 1 : DRILLS) && !isOver(); count++) {
      await drill(scene, { people, auditor, pass }, only);
    }
    if (isOver()) return;
    for (const agent of agents) {
      agent.isOn = true;
      if (!agent.process.isAlive) agent.start();
    }
    for (const row of commands.rows.values()) if (isOpen(row)) people.cancel(row.id, 5);
    await pass(LAST_MS);
    if (isOver()) return;
    auditor.presence('at the end');
    auditor.deliveries('at the end', 60_000);
    auditor.commands();
    auditor.memory();
  });
  const { history, events } = world;
  const { violations, digest, tail } = history;
  return { seed, violations, digest, tail, virtualMs: world.now, events, counts: facts.counts };
}
