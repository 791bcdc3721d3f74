import { setImmediate as nextTurn } from 'node:timers/promises';
import type { Latencies, ComeBack, ConnectOrder } from './load-process.ts';
import { percentile, rounded, sortedCopy } from '../harness.ts';
import { SimulatedAgent, type AgentEvents } from './simulated-agent.ts';
import type { Refusal } from '../../../src/protocol/index.ts';
import { requestedDelay, reconnectDelay } from '../../../src/agent/core/server-call.ts';

/**
 * Sends heartbeats at a fixed rate over all agents in turn. It never waits for responses, so a slow server cannot
 * slow it down.
 */
async function openLoop(
  agents: readonly SimulatedAgent[],
  { seconds, perSecond }: { seconds: number; perSecond: number },
  listen: (onAnswered: (agent: SimulatedAgent) => void) => void,
): Promise<Latencies> {
  const took: number[] = [];
  const late: number[] = [];
  let sent = 0;
  let skipped = 0;
  listen((agent) => took.push(performance.now() - agent.sentAt));
  const startedAt = performance.now();
  const total = seconds * perSecond;
  for (let at = 0; at < total; await nextTurn()) {
    const elapsed = performance.now() - startedAt;
    const due = Math.min(total, Math.floor((elapsed / 1000) * perSecond));
    for (; at < due; at++) {
      const agent = agents[at % agents.length];
      if (agent === undefined || agent.sentAt !== 0 || !agent.isConnected) {
        skipped += 1;
        continue;
      }
      const now = performance.now();
      late.push(now - startedAt - (at / perSecond) * 1000);
      agent.heartbeat(now);
      sent += 1;
    }
  }
  await new Promise((resolve) => setTimeout(resolve, 2000));
  const sorted = sortedCopy(took);
  return {
    sent,
    answered: took.length,
    skipped,
    p50: rounded(percentile(sorted, 0.5), 3),
    p99: rounded(percentile(sorted, 0.99), 3),
    p999: rounded(percentile(sorted, 0.999), 3),
    max: rounded(sorted.at(-1) ?? 0, 3),
    loadLateP99: rounded(percentile(sortedCopy(late), 0.99), 3),
  };
}

const FLAP_AWAY_MS = 500;
const BEAT_TICK_MS = 10;

/** All agents of one load process. */
export class Fleet {
  readonly #agents: SimulatedAgent[] = [];
  #connected = 0;
  #commands = 0;
  #refusals = 0;
  #failures = 0;
  #flapped = 0;
  #closing = false;
  /** Callbacks for a connected agent and for a heartbeat response, in addition to counting them. */
  #onConnected: (agent: SimulatedAgent) => void = () => {};
  #onAnswered: (agent: SimulatedAgent) => void = () => {};
  readonly #back = new Map<SimulatedAgent, number>();
  #beatTimer: NodeJS.Timeout | undefined;
  #flapTimer: NodeJS.Timeout | undefined;

  readonly #events: AgentEvents = {
    connected: (agent) => {
      this.#connected += 1;
      this.#back.delete(agent);
      this.#onConnected(agent);
    },
    answered: (agent) => this.#onAnswered(agent),
    refused: (agent, refusal) => {
      this.#refusals += 1;
      this.#back.set(agent, waitAfter(refusal));
      agent.drop();
    },
    closed: (agent) => {
      if (agent.isConnected) throw new Error('An agent that should be closed is connected.');
      if (this.#closing) return;
      const told = this.#back.get(agent);
      if (told === undefined) this.#failures += 1;
      setTimeout(() => agent.connect(), told ?? reconnectDelay(1));
    },
    asked: () => {
      this.#commands += 1;
    },
  };

  get connected(): number {
    return this.#agents.reduce((count, { isConnected }) => count + (isConnected ? 1 : 0), 0);
  }
  get commands(): number {
    return this.#commands;
  }
  /** The number of connections established so far. */
  get connections(): number {
    return this.#connected;
  }
  get size(): number {
    return this.#agents.length;
  }

  async connect({ tokens, atOnce, addresses, ...settings }: ConnectOrder) {
    const startedAt = performance.now();
    const agents = tokens.map(
      (token, index) =>
        new SimulatedAgent({
          token,
          address: addresses[index % addresses.length] ?? '127.0.0.1',
          settings,
          tell: this.#events,
        }),
    );
    this.#agents.push(...agents);
    let next = 0;
    await this.#untilIn(agents.length, () => {
      const start = () => agents[next++]?.connect();
      this.#onConnected = start;
      for (let under = 0; under < atOnce; under++) start();
    });
    return { connected: this.connected, ms: performance.now() - startedAt };
  }

  async comeBack(spreadMs: number): Promise<ComeBack> {
    this.#refusals = 0;
    this.#failures = 0;
    const startedAt = performance.now();
    await this.#untilIn(this.#agents.length, () => {
      for (const agent of this.#agents) {
        this.#back.set(agent, Math.random() * spreadMs);
        agent.drop();
      }
    });
    return { ms: performance.now() - startedAt, refusals: this.#refusals, failures: this.#failures };
  }

  async closedLoop({ seconds, inFlight }: { seconds: number; inFlight: number }) {
    let roundTrips = 0;
    let at = 0;
    const send = () => {
      const agent = this.#agents[at++ % this.#agents.length];
      agent?.heartbeat(1);
    };
    const startedAt = performance.now();
    await new Promise<void>((resolve) => {
      this.#onAnswered = () => {
        roundTrips += 1;
        send();
      };
      for (let under = 0; under < Math.min(inFlight, this.#agents.length); under++) send();
      setTimeout(resolve, seconds * 1000);
    });
    const taken = (performance.now() - startedAt) / 1000;
    const counted = roundTrips;
    this.#onAnswered = () => {};
    // Waits for heartbeats in progress before anything else is measured.
    await new Promise((resolve) => setTimeout(resolve, 500));
    return { roundTrips: counted, seconds: taken };
  }

  async openLoop(order: { seconds: number; perSecond: number }): Promise<Latencies> {
    try {
      return await openLoop(this.#agents, order, (onAnswered) => (this.#onAnswered = onAnswered));
    } finally {
      this.#onAnswered = () => {};
    }
  }

  beatEvery(ms: number): void {
    clearInterval(this.#beatTimer);
    if (ms === 0) return;
    let at = 0;
    let due = 0;
    let last = performance.now();
    this.#beatTimer = setInterval(() => {
      const now = performance.now();
      due += ((now - last) / ms) * this.#agents.length;
      last = now;
      for (; due >= 1; due--) {
        const agent = this.#agents[at++ % this.#agents.length];
        if (agent?.isConnected === true) agent.heartbeat(now);
      }
    }, BEAT_TICK_MS);
  }

  flap(perSecond: number): number {
    clearInterval(this.#flapTimer);
    if (perSecond > 0) {
      this.#flapTimer = setInterval(() => {
        const agent = this.#agents[Math.floor(Math.random() * this.#agents.length)];
        if (agent?.isConnected !== true) return;
        this.#flapped += 1;
        this.#back.set(agent, FLAP_AWAY_MS);
        agent.drop();
      }, 1000 / perSecond);
    }
    return this.#flapped;
  }

  close(): number {
    this.#closing = true;
    this.beatEvery(0);
    this.flap(0);
    for (const agent of this.#agents) agent.drop();
    return this.#agents.splice(0).length;
  }

  /** Waits until this many more agents have connected since `start`. */
  #untilIn(count: number, start: () => void): Promise<void> {
    const before = this.#connected;
    return new Promise((resolve) => {
      start();
      const timer = setInterval(() => {
        if (this.#connected - before < count) return;
        clearInterval(timer);
        this.#onConnected = () => {};
        resolve();
      }, 5);
    });
  }
}

/** The delay that the agent program would use. */
function waitAfter({ code, retryAfterMs }: Refusal): number {
  if (retryAfterMs === undefined) throw new Error(`An agent was refused permanently: ${code}`);
  return requestedDelay(retryAfterMs);
}
