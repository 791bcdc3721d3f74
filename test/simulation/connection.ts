import type { Refusal } from '../../src/protocol/index.ts';
import { Pipe } from './pipe.ts';
import type { Process, World } from './world.ts';

/** One end of a connection. */
interface End {
  process: Process;
  isOpen: boolean;
  /** Called once, when this end hears that the connection has ended. */
  onClosed: () => void;
}

type Receive = (event: string, payload: unknown, acknowledge: (answer: unknown) => void) => void;

/** A Socket.IO connection between an agent and a server: messages in order, acknowledgements, and an end that each side hears of in its own time. */
export class Connection {
  readonly server: End;
  readonly agent: End;
  /** What the ends do with messages. The server's is set when it accepts the agent. */
  atServer: Receive = () => {};
  atAgent: Receive = () => {};
  /** Called at the agent. */
  onAccepted: () => void = () => {};
  onRefused: (refusal: Refusal) => void = () => {};
  /** How many messages the agent has sent. */
  sent = 0;
  readonly #world: World;
  readonly #toServer: Pipe;
  readonly #toAgent: Pipe;
  #isSilent = false;
  #silences = 0;

  constructor(world: World, { server, agent }: { server: Process; agent: Process }) {
    this.#world = world;
    this.server = { process: server, isOpen: true, onClosed: () => {} };
    this.agent = { process: agent, isOpen: true, onClosed: () => {} };
    const random = world.random('connections');
    const typical = random.between(1, 60);
    const latency = () =>
      random.chance(0.01) ? random.between(100, 1500) : typical * random.between(0.8, 1.5);
    const isSilent = () => this.#isSilent;
    this.#toServer = new Pipe({ world, receiver: server, isSilent, latency });
    this.#toAgent = new Pipe({ world, receiver: agent, isSilent, latency });
  }

  get isSilent(): boolean {
    return this.#isSilent;
  }

  /** Whether both ends are there and hear each other. */
  get isWhole(): boolean {
    const { server, agent } = this;
    return (
      server.isOpen && agent.isOpen && server.process.isAlive && agent.process.isAlive && !this.#isSilent
    );
  }

  /** Runs at the server, after what was sent before. */
  reachServer(arrive: () => void): void {
    this.#toServer.send(arrive);
  }

  accept(): void {
    this.#toAgent.send(() => {
      if (this.agent.isOpen) this.onAccepted();
    });
  }

  refuse(refusal: Refusal): void {
    this.#closeEnd(this.server);
    this.#toAgent.send(() => {
      if (!this.agent.isOpen) return;
      this.#closeEnd(this.agent);
      this.onRefused(refusal);
    });
  }

  emitToAgent(event: string, payload: unknown, onAcknowledged: (answer: unknown) => void = () => {}): void {
    if (!this.server.isOpen) return;
    this.#toAgent.send(() => {
      if (!this.agent.isOpen) return;
      this.atAgent(event, payload, (answer) =>
        this.#toServer.send(() => this.server.isOpen && onAcknowledged(answer)),
      );
    });
  }

  emitToServer(event: string, payload: unknown, onAcknowledged: (answer: unknown) => void = () => {}): void {
    if (!this.agent.isOpen) return;
    this.sent += 1;
    this.#toServer.send(() => {
      if (!this.server.isOpen) return;
      this.atServer(event, payload, (answer) =>
        this.#toAgent.send(() => this.agent.isOpen && onAcknowledged(answer)),
      );
    });
  }

  /** Resolves to whether the agent's end answers a ping in time. */
  ping(withinMs: number): Promise<boolean> {
    return new Promise((resolve) => {
      if (!this.server.isOpen) return resolve(false);
      this.#world.after(withinMs, this.server.process, () => resolve(false));
      this.#toAgent.send(() => {
        if (this.agent.isOpen) this.#toServer.send(() => resolve(this.server.isOpen));
      });
    });
  }

  /** One side ends the connection. The other one hears that, unless the way is silent. */
  close(side: 'server' | 'agent'): void {
    const end = this[side];
    if (!end.isOpen) return;
    this.#closeEnd(end);
    const [other, way] = side === 'server' ? [this.agent, this.#toAgent] : [this.server, this.#toServer];
    way.send(() => this.#heardEnd(other));
  }

  /** The connection breaks, and both sides hear it. */
  reset(): void {
    const random = this.#world.random('connections');
    for (const end of [this.server, this.agent]) {
      this.#world.after(random.between(1, 200), end.process, () => this.#heardEnd(end));
    }
    this.#toServer.close();
    this.#toAgent.close();
  }

  /** From now on nothing gets through. Each side notices by its pings, if that lasts. */
  silence(): void {
    if (this.#isSilent) return;
    this.#isSilent = true;
    const silence = ++this.#silences;
    const random = this.#world.random('connections');
    for (const end of [this.server, this.agent]) {
      this.#world.after(random.between(20_000, 45_000), end.process, () => {
        if (this.#isSilent && this.#silences === silence) this.#heardEnd(end);
      });
    }
  }

  /** The way carries messages again. What was sent meanwhile arrives, if both ends are still open. */
  restore(): void {
    this.#isSilent = false;
  }

  /** It hears nothing any more, so that nothing waits for a silent way to it. */
  #closeEnd(end: End): void {
    end.isOpen = false;
    (end === this.server ? this.#toServer : this.#toAgent).close();
  }

  #heardEnd(end: End): void {
    if (!end.isOpen) return;
    this.#closeEnd(end);
    // The other side may be the one that does not know yet.
    const [other, way] = end === this.server ? [this.agent, this.#toAgent] : [this.server, this.#toServer];
    if (other.isOpen) way.send(() => this.#heardEnd(other));
    end.onClosed();
  }
}
