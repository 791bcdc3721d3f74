import type { SimulatedAgent, Task } from './agent.ts';
import type { Facts, QueryRecord } from './facts.ts';
import { isOpen, type CommandRow, type NewCommand, short } from './ledger.ts';
import type { SimulatedServer } from './server.ts';
import type { Surroundings } from './surroundings.ts';
import { Process, type World } from './world.ts';

const ANSWER_MS = 40_000;
const ATTEMPTS = 6;
/** As long as a server may look for the device. */
const ABORTED_MS = 3000;
const HOUR_MS = 3_600_000;

/** People who send commands, cancel some of them, and ask devices questions, through any server. */
export class People {
  readonly #world: World;
  readonly #around: Surroundings;
  readonly #facts: Facts;
  readonly #servers: readonly SimulatedServer[];
  readonly #agents: readonly SimulatedAgent[];
  readonly #process = new Process('people');
  #count = 0;
  #isBusy = false;

  constructor(
    world: World,
    parts: {
      around: Surroundings;
      facts: Facts;
      servers: readonly SimulatedServer[];
      agents: readonly SimulatedAgent[];
    },
  ) {
    this.#world = world;
    this.#around = parts.around;
    this.#facts = parts.facts;
    this.#servers = parts.servers;
    this.#agents = parts.agents;
  }

  get #random() {
    return this.#world.random('people');
  }

  /** Begins to work, each kind of it at its own pace. */
  begin(): void {
    this.#isBusy = true;
    this.#repeat(1500, () => this.post(this.#command()));
    this.#repeat(4000, () => this.#cancelOne());
    this.#repeat(1500, () => {
      const server = this.#anyServer();
      if (server !== undefined) {
        this.ask(server, this.#random.pick(this.#agents).deviceId, { isProbe: false });
      }
    });
  }

  stop(): void {
    this.#isBusy = false;
  }

  #repeat(meanMs: number, work: () => void): void {
    this.#world.after(this.#random.wait(meanMs), this.#process, () => {
      if (!this.#isBusy) return;
      work();
      this.#repeat(meanMs, work);
    });
  }

  #anyServer(): SimulatedServer | undefined {
    const listening = this.#servers.filter(({ isListening }) => isListening);
    return listening.length === 0 ? undefined : this.#random.pick(listening);
  }

  #command(): NewCommand {
    const random = this.#random;
    // Some devices have little to do, so that no later command makes up for one that was forgotten.
    const { deviceId } = random.pick(random.chance(0.95) ? this.#agents.slice(0, -2) : this.#agents);
    const quick = random.chance(0.3);
    // Commands that wait for long show whether one was forgotten; others expire.
    const ttlMs = random.chance(0.15) ? random.between(10_000, 60_000) : HOUR_MS;
    if (quick) return this.newCommand(deviceId, { type: 'agent.refresh-inventory', payload: {}, ttlMs });
    const end = random.chance(0.8) ? 'succeeds' : random.pick(['fails', 'unstorable', 'unfitting'] as const);
    const ms = random.chance(0.08)
      ? undefined
      : random.chance(0.1)
        ? random.between(20_000, 60_000)
        : random.wait(800);
    const task: Task = { ms, end };
    const payload = { language: 'bash', content: JSON.stringify(task), timeoutSeconds: 60 };
    return this.newCommand(deviceId, {
      type: 'script.run',
      payload,
      ttlMs,
      timeoutMs: ms === undefined ? HOUR_MS : 6e4,
    });
  }

  newCommand(
    deviceId: string,
    given: Pick<NewCommand, 'type' | 'payload'> & Partial<Pick<NewCommand, 'ttlMs' | 'timeoutMs'>>,
  ): NewCommand {
    return { ttlMs: HOUR_MS, timeoutMs: 60_000, ...given, deviceId, key: `key ${++this.#count}` };
  }

  /** Sends a request until a server has answered it, or gives up. */
  post(command: NewCommand, server = this.#anyServer(), attempt = 1): void {
    const { database, commands } = this.#around;
    this.#facts.count('posts');
    let isAnswered = false;
    const answered = (row: CommandRow | undefined) => {
      if (isAnswered) return;
      isAnswered = true;
      if (row !== undefined) this.#facts.acknowledged.add(row.id);
      else if (attempt < ATTEMPTS) {
        this.#world.after(this.#random.between(500, 3000), this.#process, () =>
          this.post(command, undefined, attempt + 1),
        );
      }
    };
    if (server === undefined) return answered(undefined);
    this.#world.after(ANSWER_MS, this.#process, () => answered(undefined));
    this.#request(server, (reply) => {
      const { hub, process } = server;
      if (hub === undefined) return;
      database
        .run(process, () => commands.insert(command))
        .then(
          ({ row, isNew }) => {
            // A repeated request gets the answer of the first one, and does nothing else.
            if (isNew) {
              hub.jobsChanged([commands.changeOf(row)]);
              hub.deliver(row.deviceId);
            }
            reply(() => answered(row));
          },
          () => reply(() => answered(undefined)),
        );
    });
  }

  #cancelOne(): void {
    const open = [...this.#around.commands.rows.values()].filter(
      (row) => isOpen(row) && this.#facts.acknowledged.has(row.id),
    );
    if (open.length > 0) this.cancel(this.#random.pick(open).id);
  }

  /** Cancels a command; once, or until a server has answered. */
  cancel(id: string, attempts = 1): void {
    const { database, commands } = this.#around;
    const server = this.#anyServer();
    this.#facts.count('cancels');
    let isAnswered = false;
    const answered = (isDone: boolean) => {
      if (isAnswered) return;
      isAnswered = true;
      if (isDone) this.#facts.cancelled.add(id);
      else if (attempts > 1) {
        this.#world.after(1000, this.#process, () => this.cancel(id, attempts - 1));
      }
    };
    if (server === undefined) return answered(false);
    this.#world.after(ANSWER_MS, this.#process, () => answered(false));
    this.#request(server, (reply) => {
      const { hub, process } = server;
      if (hub === undefined) return;
      database
        .run(process, () => commands.requestCancel(id))
        .then(
          (row) => {
            if (row?.status === 'cancelled') hub.jobsChanged([commands.changeOf(row)]);
            else if (row !== undefined) hub.cancelCommand(row.deviceId, id);
            reply(() => answered(row !== undefined));
          },
          () => reply(() => answered(false)),
        );
    });
  }

  /** Asks a device a question through a server. If that dies, nobody hears the answer. */
  ask(
    server: SimulatedServer,
    deviceId: string,
    { isProbe, name = isProbe ? 'probe' : 'query' }: { isProbe: boolean; name?: string },
  ): QueryRecord {
    const query: QueryRecord = {
      name: `${name} ${++this.#count}`,
      deviceId,
      nodeId: server.nodeId,
      beganAt: this.#world.now,
      isProbe,
      isAborted: !isProbe && this.#random.chance(0.1),
      rows: [],
      ends: [],
    };
    const abortsAfter = this.#random.between(1, 3000);
    this.#facts.count('queries');
    this.#request(server, () => {
      const { hub, process } = server;
      if (hub === undefined) return;
      query.beganAt = this.#world.now;
      this.#facts.asked(query, process);
      const aborting = new AbortController();
      if (query.isAborted) {
        this.#world.after(abortsAfter, process, () => {
          aborting.abort();
          const { frozenMs } = process;
          this.#world.after(ABORTED_MS, process, () => {
            if (process.frozenMs === frozenMs) this.#facts.aborted(query);
          });
        });
      }
      void hub
        .query(deviceId, {
          type: 'eventlogs.query',
          payload: { name: query.name, page: 1, limit: 100 },
          onRows: (rows) => {
            this.#facts.queryRows(
              query,
              rows.map(({ message }) => message),
            );
          },
          signal: aborting.signal,
        })
        .then((outcome) => this.#facts.queryEnded(query, outcome));
    });
    return query;
  }

  /** Runs at the server. What it replies is heard if the server and the network do not fail. */
  #request(server: SimulatedServer, handle: (reply: (hear: () => void) => void) => void): void {
    const random = this.#world.random('requests');
    const { process } = server;
    this.#world.after(random.between(1, 50), process, () =>
      handle((hear) => {
        if (random.chance(0.01)) {
          this.#world.history.note('people', `${short(process.name)}: an answer is lost`);
        } else this.#world.after(random.between(1, 50), this.#process, hear);
      }),
    );
  }
}
