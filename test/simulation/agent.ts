import {
  AgentErrorCode,
  type CommandFrame,
  type CommandResult,
  COMMAND_TYPES,
  type HubReconnect,
  isDurable,
  LANE_LIMITS,
  laneOf,
  LANES_CAPABILITY,
  type Refusal,
} from '../../src/protocol/index.ts';
import type { AgentIdentity } from '../../src/hub/ports.ts';
import { Connection } from './connection.ts';
import { ORG_ID, short, UNSTORABLE } from './ledger.ts';
import type { Facts } from './facts.ts';
import type { SimulatedServer } from './server.ts';
import { Process, type World } from './world.ts';

const ACK_MS = 10_000;
const CONNECT_MS = 20_000;
const FIRST_HEARTBEAT_MS = 200;
const MISSED_HEARTBEATS = 2;

/** Queries with these names take so long. */
const TAKES_MS: ReadonlyMap<string, number> = new Map([
  ['probe', 50],
  ['slow', 1500],
  ['long', 8000],
]);

/** A command in the journal of the agent, which survives its program. */
interface Entry {
  frame: CommandFrame;
  epoch: number;
  hasStarted: boolean;
  result: Omit<CommandResult, 'epoch'> | undefined;
}

/** What the scripts of the simulation do, as their content says. */
export interface Task {
  /** How long it runs; `undefined`: until it is cancelled. */
  ms: number | undefined;
  end: 'succeeds' | 'fails' | 'unstorable' | 'unfitting';
}

/** A device with an agent that does what the protocol demands of one. Its disk keeps the journal. */
export class SimulatedAgent {
  readonly deviceId: string;
  process: Process;
  connection: Connection | undefined;
  connectedTo: SimulatedServer | undefined;
  /** A device that is off stays off until it is switched on. */
  isOn = true;
  readonly #world: World;
  readonly #facts: Facts;
  readonly #servers: readonly SimulatedServer[];
  readonly #journal = new Map<string, Entry>();
  /** Commands whose results the server has. */
  readonly #done = new Set<string>();
  readonly #running = new Set<string>();
  readonly #sending = new Set<string>();
  readonly #queries = new Map<string, CommandFrame>();
  #bootId = '';
  #failedAttempts = 0;
  #missedHeartbeats = 0;
  #notice: HubReconnect | undefined;
  #busyUntil = 0;
  #muteUntil = 0;

  constructor(
    world: World,
    deviceId: string,
    { facts, servers }: { facts: Facts; servers: readonly SimulatedServer[] },
  ) {
    this.#world = world;
    this.deviceId = deviceId;
    this.#facts = facts;
    this.#servers = servers;
    this.process = new Process(short(deviceId));
  }

  get identity(): AgentIdentity {
    return {
      deviceId: this.deviceId,
      orgId: ORG_ID,
      siteId: 'site',
      partnerId: 'partner',
      machine: { osType: 'linux', architecture: 'x64', autoUpdate: false, canUpgrade: false },
    };
  }

  /** The device is connected, as someone sees who sees everything. */
  get isConnected(): boolean {
    return this.process.isAlive && this.connectedTo !== undefined && this.connection?.isWhole === true;
  }

  /** Ends that the server does not have yet. */
  get unreported(): number {
    return [...this.#journal.values()].filter(({ result }) => result !== undefined).length;
  }

  start(): void {
    this.process = new Process(short(this.deviceId));
    this.#bootId = this.#world.newId();
    this.#failedAttempts = 0;
    this.#running.clear();
    this.#sending.clear();
    this.#queries.clear();
    for (const entry of this.#journal.values()) {
      if (!entry.hasStarted || entry.result !== undefined) continue;
      const error = { code: AgentErrorCode.interrupted, message: 'The agent stopped while the command ran.' };
      entry.result = this.#result(entry, { status: 'failed', error });
    }
    this.#in(this.#random.between(10, 2000), () => {
      this.#startNext();
      this.#connect();
    });
  }

  /** Its program ends. @param isHeard  whether the server hears that, as it does unless the machine loses its power */
  kill(isHeard: boolean): void {
    if (!isHeard) this.connection?.silence();
    this.connection?.close('agent');
    this.process.isAlive = false;
    this.connection = undefined;
    this.connectedTo = undefined;
    this.#world.history.note(this.process.name, 'agent ends');
  }

  /** Its heartbeats fail for some time, while its connection is alive. */
  beMute(ms: number): void {
    this.#muteUntil = this.#world.now + ms;
  }

  /** It accepts no commands for some time. */
  beBusy(ms: number): void {
    this.#busyUntil = this.#world.now + ms;
  }

  get #random() {
    return this.#world.random('agents');
  }

  #in(ms: number, run: () => void): void {
    this.#world.after(ms, this.process, run);
  }

  #connect(): void {
    const listening = this.#servers.filter(({ isListening }) => isListening);
    if (listening.length === 0) return this.#connectLater();
    const server = this.#random.pick(listening);
    const connection = new Connection(this.#world, { server: server.process, agent: this.process });
    this.connection = connection;
    this.#notice = undefined;
    let isAnswered = false;
    connection.onRefused = (refusal) => {
      isAnswered = true;
      this.#refused(refusal);
    };
    connection.onAccepted = () => {
      isAnswered = true;
      this.#connected(connection, server);
    };
    connection.agent.onClosed = () => {
      isAnswered = true;
      this.#disconnected(connection);
    };
    connection.atAgent = (event, payload, acknowledge) => {
      if (event === 'hub:reconnect') this.#noticed(connection, payload as HubReconnect);
      this.#receive(event, payload, acknowledge);
    };
    connection.reachServer(() =>
      server.agentConnects(connection, {
        identity: this.identity,
        bootId: this.#bootId,
        capabilities: [...COMMAND_TYPES, LANES_CAPABILITY],
      }),
    );
    this.#in(CONNECT_MS, () => {
      if (isAnswered || connection !== this.connection || !connection.agent.isOpen) return;
      connection.close('agent');
      this.#connectLater();
    });
  }

  #connectLater(ms = 250 + this.#random.next() * Math.min(30_000, 1000 * 2 ** this.#failedAttempts)): void {
    this.#failedAttempts += 1;
    this.#in(ms, () => this.#connect());
  }

  #refused({ code, retryAfterMs }: Refusal): void {
    this.#world.history.note(this.process.name, `refused: ${code}`);
    this.#connectLater(retryAfterMs === undefined ? undefined : retryAfterMs * this.#random.between(1, 1.2));
  }

  #connected(connection: Connection, server: SimulatedServer): void {
    this.connectedTo = server;
    this.#missedHeartbeats = 0;
    this.#world.history.note(this.process.name, `connected to ${server.nodeId}`);
    this.#in(FIRST_HEARTBEAT_MS, () => this.#beat(connection));
    for (const [id, { hasStarted, result }] of this.#journal) {
      if (hasStarted && result === undefined) this.#progress(id);
    }
    for (const id of this.#journal.keys()) this.#sendResult(id);
  }

  #disconnected(connection: Connection, againMs?: number): void {
    if (this.connection !== connection) return;
    this.#world.history.note(this.process.name, 'disconnected');
    this.connectedTo = undefined;
    this.#queries.clear();
    this.#sending.clear();
    if (this.#notice === undefined) this.#connectLater(againMs);
    else this.#connectLater(this.#notice.afterMs * this.#random.between(1, 1.2));
  }

  /** Closes the connection and opens another one, as after a change of the network. @param ms  when */
  reconnect(ms?: number): void {
    const { connection } = this;
    if (connection === undefined || !connection.agent.isOpen) return;
    connection.close('agent');
    this.#disconnected(connection, ms);
  }

  #beat(connection: Connection): void {
    if (connection !== this.connection || !connection.agent.isOpen) return;
    if (this.#muteUntil > this.#world.now) return this.#in(1000, () => this.#beat(connection));
    let isAcknowledged = false;
    const heartbeat = {
      at: new Date(this.#world.wallTime()).toISOString(),
      agentVersion: '1.0.0',
      uptimeSeconds: 1,
    };
    connection.emitToServer('heartbeat', heartbeat, (answer) => {
      isAcknowledged = true;
      this.#failedAttempts = 0;
      this.#missedHeartbeats = 0;
      const nextInMs =
        typeof answer === 'object' && answer !== null && 'nextInMs' in answer
          ? Number(answer.nextInMs)
          : 1000;
      this.#in(nextInMs * this.#random.between(0.9, 1.1), () => this.#beat(connection));
    });
    this.#in(ACK_MS, () => {
      if (isAcknowledged || connection !== this.connection || !connection.agent.isOpen) return;
      this.#missedHeartbeats += 1;
      if (this.#missedHeartbeats < MISSED_HEARTBEATS) this.#in(1000, () => this.#beat(connection));
      else this.reconnect();
    });
  }

  #receive(event: string, payload: unknown, acknowledge: (answer: unknown) => void): void {
    if (event === 'command') {
      const frame = payload as CommandFrame;
      if (isDurable(frame.type)) this.#accept(frame, acknowledge);
      else {
        acknowledge({ ok: true });
        this.#answer(frame);
      }
    } else if (event === 'command:cancel') {
      this.#cancel((payload as { id: string }).id);
      acknowledge({ ok: true });
    } else if (event === 'hub:reconnect') {
      acknowledge({ ok: true });
      this.#notice = payload as HubReconnect;
      const { connection } = this;
      this.#in(1000, () => {
        if (connection === this.connection) this.reconnect();
      });
    }
  }

  #noticed(connection: Connection, { reason }: HubReconnect): void {
    this.#world.history.note(this.process.name, `is told to connect again: ${reason}`);
    if (connection === this.connection && reason === 'superseded') {
      this.#facts.newestSuperseded(this.deviceId);
    }
  }

  /** It acknowledges a command when that is on its disk. */
  #accept(frame: CommandFrame, acknowledge: (answer: unknown) => void): void {
    this.#facts.frame(this.deviceId, frame);
    if (this.#done.has(frame.id)) return acknowledge({ ok: true });
    const known = this.#journal.get(frame.id);
    if (known !== undefined) {
      known.epoch = Math.max(known.epoch, frame.epoch);
      this.#sendResult(frame.id);
      return acknowledge({ ok: true });
    }
    if (this.#busyUntil > this.#world.now) {
      return acknowledge({ ok: false, error: { code: AgentErrorCode.busy, message: 'The agent is busy.' } });
    }
    const entry: Entry = { frame, epoch: frame.epoch, hasStarted: false, result: undefined };
    this.#journal.set(frame.id, entry);
    this.#in(this.#random.between(1, 30), () => {
      acknowledge({ ok: true });
      this.#startNext();
    });
  }

  #startNext(): void {
    const places: Record<string, number> = { ...LANE_LIMITS };
    for (const id of this.#running) {
      const lane = laneOf(this.#journal.get(id)?.frame.type ?? '');
      places[lane] = (places[lane] ?? 0) - 1;
    }
    for (const [id, entry] of this.#journal) {
      const lane = laneOf(entry.frame.type);
      if (entry.hasStarted || entry.result !== undefined || (places[lane] ?? 0) <= 0) continue;
      places[lane] = (places[lane] ?? 0) - 1;
      this.#run(id, entry);
    }
  }

  #run(id: string, entry: Entry): void {
    entry.hasStarted = true;
    this.#running.add(id);
    this.#facts.effect(this.deviceId, id);
    this.#progress(id);
    const { ms, end } = taskOf(entry.frame);
    if (ms !== undefined) this.#in(ms, () => this.#finish(id, endOf(entry.frame, end)));
  }

  #progress(id: string): void {
    this.connection?.emitToServer('command:progress', { id, seq: 0, phase: 'running' });
  }

  #cancel(id: string): void {
    const query = this.#queries.get(id);
    if (query !== undefined) {
      this.#queries.delete(id);
      return this.#sendQueryResult(query, { status: 'cancelled' });
    }
    const entry = this.#journal.get(id);
    if (entry === undefined || entry.result !== undefined) return;
    // It takes a moment to end what runs.
    this.#in(this.#random.between(5, 300), () => this.#finish(id, { status: 'cancelled' }));
  }

  #finish(id: string, end: Pick<CommandResult, 'status' | 'output' | 'error'>): void {
    const entry = this.#journal.get(id);
    if (entry === undefined || entry.result !== undefined) return;
    entry.result = this.#result(entry, end);
    this.#running.delete(id);
    this.#sendResult(id);
    this.#startNext();
  }

  #result({ frame }: Entry, end: Pick<CommandResult, 'status' | 'output' | 'error'>): Entry['result'] {
    const at = new Date(this.#world.wallTime()).toISOString();
    return { id: frame.id, startedAt: at, finishedAt: at, ...end };
  }

  /** Until the server has acknowledged it. */
  #sendResult(id: string): void {
    const { connection } = this;
    const entry = this.#journal.get(id);
    if (entry?.result === undefined || this.#sending.has(id) || this.connectedTo === undefined) return;
    if (connection === undefined || !connection.agent.isOpen) return;
    this.#sending.add(id);
    let isAnswered = false;
    const again = (ms: number) =>
      this.#in(ms, () => {
        if (connection !== this.connection) return;
        this.#sending.delete(id);
        this.#sendResult(id);
      });
    connection.emitToServer('command:result', { ...entry.result, epoch: entry.epoch }, (answer) => {
      isAnswered = true;
      if ((answer as { ok: boolean }).ok) {
        this.#sending.delete(id);
        this.#journal.delete(id);
        this.#done.add(id);
        this.#facts.resultAcknowledged(this.deviceId, id);
      } else again(this.#random.between(1000, 5000));
    });
    this.#in(ACK_MS, () => {
      if (!isAnswered) again(0);
    });
  }

  /** A live query: some rows, and a result that repeats what was asked. */
  #answer(frame: CommandFrame): void {
    this.#queries.set(frame.id, frame);
    const { name } = frame.payload as { name: string };
    const random = this.#random;
    const [kind = ''] = name.split(' ');
    // Some devices are too slow.
    const takesMs =
      TAKES_MS.get(kind) ?? (random.chance(0.05) ? random.between(20_000, 60_000) : random.wait(300));
    const frames = kind === 'long' ? 3 : random.whole(0, 3);
    for (let seq = 0; seq < frames; seq++) {
      this.#in((takesMs * (seq + 1)) / (frames + 1), () => {
        if (!this.#queries.has(frame.id)) return;
        const rows = [entry(seq, `${this.deviceId} ${name}`)];
        this.connection?.emitToServer('command:rows', { id: frame.id, seq, rows, done: seq === frames - 1 });
      });
    }
    this.#in(takesMs, () => {
      if (!this.#queries.delete(frame.id)) return;
      if (!TAKES_MS.has(kind) && random.chance(0.03)) {
        const error = { code: AgentErrorCode.logNotFound, message: 'There is no such log.' };
        return this.#sendQueryResult(frame, { status: 'failed', error });
      }
      this.#sendQueryResult(frame, { status: 'succeeded', output: { scanned: frames, truncated: false } });
    });
  }

  #sendQueryResult(frame: CommandFrame, end: Pick<CommandResult, 'status' | 'output' | 'error'>): void {
    const at = new Date(this.#world.wallTime()).toISOString();
    this.connection?.emitToServer('command:result', {
      id: frame.id,
      epoch: frame.epoch,
      startedAt: at,
      finishedAt: at,
      ...end,
    });
  }
}

function taskOf({ payload }: CommandFrame): Task {
  if (typeof payload !== 'object' || payload === null || !('content' in payload)) {
    return { ms: 50, end: 'succeeds' };
  }
  return JSON.parse(String(payload.content)) as Task;
}

function endOf({ type }: CommandFrame, end: Task['end']): Pick<CommandResult, 'status' | 'output' | 'error'> {
  if (end === 'fails') return { status: 'failed', error: { code: 'FAILED', message: 'It failed.' } };
  if (end === 'unfitting') return { status: 'succeeded', output: 'what nobody has agreed on' };
  if (type !== 'script.run') return { status: 'succeeded', output: {} };
  const stdout = end === 'unstorable' ? UNSTORABLE : '';
  return { status: 'succeeded', output: { exitCode: 0, stdout, stderr: '', truncated: false } };
}

const entry = (recordId: number, message: string) => ({
  recordId,
  timeCreated: '2026-01-31T08:00:00.000Z',
  level: 'information',
  source: 'simulation',
  eventId: 1,
  message,
  category: 'none',
  user: null,
  computer: 'simulated',
});
