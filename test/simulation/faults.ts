import type { SimulatedAgent } from './agent.ts';
import { short } from './ledger.ts';
import type { SimulatedServer } from './server.ts';
import type { Surroundings } from './surroundings.ts';
import type { World } from './world.ts';

/** Between two faults, on average. */
const EVERY_MS = 8000;
const MINUTE_MS = 60_000;
const DAY_MS = 24 * 60 * MINUTE_MS;

type Kind = readonly [weight: number, name: string, begin: () => void];

/** What breaks, and mends itself after some time. Faults may overlap. */
export class Faults {
  readonly #world: World;
  readonly #around: Surroundings;
  readonly #servers: readonly SimulatedServer[];
  readonly #agents: readonly SimulatedAgent[];
  readonly #kinds: readonly Kind[];
  /** Whether the clocks of servers go wrong. In half of these worlds Redis fails as well. */
  readonly #hasWrongClocks: boolean;
  #isOver = false;

  constructor(
    world: World,
    parts: { around: Surroundings; servers: readonly SimulatedServer[]; agents: readonly SimulatedAgent[] },
  ) {
    this.#world = world;
    this.#around = parts.around;
    this.#servers = parts.servers;
    this.#agents = parts.agents;
    this.#hasWrongClocks = this.#random.chance(0.3);
    const all: Kind[] = [
      [3, 'a server dies', () => this.#serverDies()],
      [1, 'a server is stopped', () => this.#serverStops()],
      [2, 'a server freezes', () => this.#anyServer()?.freeze(this.#random.between(500, 30_000))],
      [2, 'the database is away', () => this.#database({ isAway: true })],
      [1, 'the database is slow', () => this.#database({ slowMs: this.#random.between(50, 1500) })],
      [2, 'the database loses connections', () => this.#database({ losesShare: 0.3 })],
      [3, 'an agent connects again', () => this.#anyAgent()?.reconnect()],
      [3, 'an agent dies', () => this.#agentDies()],
      [4, 'a connection falls silent', () => this.#connectionIsSilent()],
      [2, 'a connection breaks', () => this.#anyAgent()?.connection?.reset()],
      [1, 'an agent is busy', () => this.#anyAgent()?.beBusy(this.#random.between(2000, 20_000))],
      [2, 'a device is switched off', () => this.#deviceIsOff()],
      [1, 'an agent is mute', () => this.#anyAgent()?.beMute(this.#random.between(10_000, 120_000))],
    ];
    const ofRedis: Kind[] = [
      [3, 'a server loses Redis', () => this.#redisLink()],
      [2, 'Redis dies', () => this.#redisDies()],
    ];
    if (this.#hasWrongClocks) all.push([3, 'a clock is set', () => this.#clockIsSet()]);
    if (!this.#hasWrongClocks || this.#random.chance(0.5)) all.push(...ofRedis);
    // Each world has its own weather: some kinds are missing, so that others are seen alone.
    this.#kinds = all.filter(() => this.#random.chance(0.7));
  }

  get #random() {
    return this.#world.random('faults');
  }

  begin(): void {
    if (this.#kinds.length === 0) return;
    this.#in(this.#random.wait(EVERY_MS), () => {
      if (this.#isOver) return;
      const total = this.#kinds.reduce((sum, [weight]) => sum + weight, 0);
      let at = this.#random.between(0, total);
      const [, name, begin] = this.#kinds.find(([weight]) => (at -= weight) < 0) ?? this.#kinds[0] ?? [];
      this.#world.history.note('world', name ?? '');
      begin?.();
      this.begin();
    });
  }

  /** Everything is mended. Devices that were switched off stay so. */
  end(): void {
    this.#isOver = true;
    const { redis, database } = this.#around;
    this.#world.history.note('world', 'all faults are over');
    if (!redis.isUp) redis.start();
    for (const server of this.#servers) {
      redis.setLink(server.nodeId, 'up');
      database.setWeather(server.nodeId, {});
      server.process.clockAhead = 0;
      if (!server.process.isAlive) server.start();
    }
    for (const agent of this.#agents) {
      agent.connection?.restore();
      if (agent.isOn && !agent.process.isAlive) agent.start();
    }
  }

  /** In the world itself, which does not die. */
  #in(ms: number, run: () => void): void {
    this.#world.after(ms, this.#world.itself, run);
  }

  /** Mends something, unless everything was mended before. */
  #later(ms: number, mend: () => void): void {
    this.#in(ms, () => {
      if (!this.#isOver) mend();
    });
  }

  #anyServer(): SimulatedServer | undefined {
    const listening = this.#servers.filter(({ isListening }) => isListening);
    return listening.length === 0 ? undefined : this.#random.pick(listening);
  }

  #anyAgent(): SimulatedAgent | undefined {
    const alive = this.#agents.filter(({ process }) => process.isAlive);
    return alive.length === 0 ? undefined : this.#random.pick(alive);
  }

  #startsAgain(server: SimulatedServer): void {
    const isQuick = this.#random.chance(0.5);
    const ms = isQuick ? this.#random.between(500, 3000) : this.#random.between(3000, 40_000);
    this.#in(this.#isOver ? 0 : ms, () => {
      if (!server.process.isAlive) server.start();
    });
  }

  #serverDies(): void {
    const server = this.#random.pick(this.#servers);
    if (!server.process.isAlive) return;
    server.kill(this.#random.chance(0.8));
    this.#startsAgain(server);
  }

  #serverStops(): void {
    const server = this.#anyServer();
    server?.stop(() => this.#startsAgain(server));
  }

  #clockIsSet(): void {
    const server = this.#random.pick(this.#servers);
    const ms = this.#random.pick([MINUTE_MS, 10 * MINUTE_MS, 60 * MINUTE_MS, DAY_MS]);
    server.process.clockAhead = this.#random.chance(0.5) ? -ms : ms;
    this.#world.history.note(server.nodeId, `its clock is wrong by ${server.process.clockAhead} ms`);
    this.#later(this.#random.between(10_000, 120_000), () => (server.process.clockAhead = 0));
  }

  #redisLink(): void {
    const { nodeId } = this.#random.pick(this.#servers);
    const link = this.#random.pick(['cut', 'silent'] as const);
    this.#world.history.note(nodeId, `its way to Redis is ${link}`);
    this.#around.redis.setLink(nodeId, link);
    const ms = this.#random.chance(0.3)
      ? this.#random.between(300, 1500)
      : this.#random.between(1500, 20_000);
    this.#later(ms, () => {
      this.#world.history.note(nodeId, 'its way to Redis is well');
      this.#around.redis.setLink(nodeId, 'up');
    });
  }

  #redisDies(): void {
    const { redis } = this.#around;
    if (!redis.isUp) return;
    redis.stop({ losesData: this.#random.chance(0.6) });
    this.#later(this.#random.between(300, 15_000), () => redis.start());
  }

  #database(weather: Parameters<Surroundings['database']['setWeather']>[1]): void {
    const some = this.#random.chance(0.5) ? this.#servers : [this.#random.pick(this.#servers)];
    for (const { nodeId } of some) this.#around.database.setWeather(nodeId, weather);
    this.#later(this.#random.between(500, 20_000), () => {
      for (const { nodeId } of some) this.#around.database.setWeather(nodeId, {});
    });
  }

  #agentDies(): void {
    const agent = this.#anyAgent();
    if (agent === undefined) return;
    agent.kill(this.#random.chance(0.7));
    this.#later(this.#random.between(200, 30_000), () => {
      if (agent.isOn && !agent.process.isAlive) agent.start();
    });
  }

  #connectionIsSilent(): void {
    const agent = this.#anyAgent();
    const connection = agent?.connection;
    if (agent === undefined || connection === undefined) return;
    this.#world.history.note(short(agent.deviceId), 'its connection is silent');
    connection.silence();
    this.#later(this.#random.between(1000, 60_000), () => connection.restore());
  }

  #deviceIsOff(): void {
    const on = this.#agents.filter(({ isOn }) => isOn);
    if (on.length < this.#agents.length / 2) return;
    const agent = this.#random.pick(on);
    agent.isOn = false;
    if (agent.process.isAlive) agent.kill(this.#random.chance(0.5));
  }
}
