import { Server as HttpServer } from 'node:http';
import { AgentInbox } from '../../src/hub/agents/agent-inbox.ts';
import { createHub, type Hub, joinCluster, type Cluster } from '../../src/hub/index.ts';
import type { AgentIdentity, Claimant } from '../../src/hub/ports.ts';
import type { DeviceLink } from '../../src/hub/device/actor-messages.ts';
import type { SocketParts } from '../../src/hub/sockets.ts';
import type { Logger } from '../../src/platform/logger.ts';
import type { Metrics } from '../../src/platform/metrics.ts';
import { CommandReceipt, type HubReconnect, PROTOCOL_VERSION } from '../../src/protocol/index.ts';
import type { Connection } from './connection.ts';
import { Dashboard } from './dashboard.ts';
import { ledgerOf } from './ledger.ts';
import { storeOf } from './presence.ts';
import type { Surroundings } from './surroundings.ts';
import { Process, type World } from './world.ts';

const HEARTBEAT_SECONDS = 30;
const RESTART_MS = 2000;
const NOTICE_MS = 1000;

/** Entries of the log that say that the code itself has failed, whatever happens around it. */
const FAULTS: ReadonlySet<string> = new Set([
  'hub.actor_failed',
  'cluster.message_failed',
  'commands.callback_failed',
  'commands.recording_failed',
  'hub.bus_message_refused',
]);

interface Hello {
  identity: AgentIdentity;
  bootId: string;
  capabilities: string[];
}

/** A server: the real hub in a process of the world, on a simulated network, database and Redis. */
export class SimulatedServer {
  readonly nodeId: string;
  process: Process;
  hub: Hub | undefined;
  isListening = false;
  /** Set in seeds in which somebody looks at this server. */
  dashboard: Dashboard | undefined;
  readonly #world: World;
  readonly #around: Surroundings;
  readonly #connections = new Set<Connection>();
  #gauges = new Map<string, () => number | Record<string, number>>();
  #parts: SocketParts | undefined;
  #cluster: Cluster | undefined;

  constructor(world: World, nodeId: string, around: Surroundings) {
    this.#world = world;
    this.nodeId = nodeId;
    this.#around = around;
    this.process = new Process(nodeId);
    this.process.isAlive = false;
  }

  /** The server that holds a device, as this one finds it. */
  async ownerOf(deviceId: string): Promise<string | undefined> {
    return (await this.#cluster?.directory.find(deviceId))?.nodeId;
  }

  /** A figure that the server would publish. */
  gauge(name: string): number | Record<string, number> | undefined {
    return this.#gauges.get(name)?.();
  }

  /** Starts the program, again and again until that succeeds, as the system's service manager does. */
  start(): void {
    const process = new Process(this.nodeId);
    process.clockAhead = this.process.clockAhead;
    this.process = process;
    this.#world.history.note(this.nodeId, 'starts');
    this.#world.after(0, process, () => {
      this.#begin(process).catch((error: unknown) => {
        if (this.process !== process || !process.isAlive) return;
        this.#world.history.note(this.nodeId, `did not start: ${String(error)}`);
        this.kill();
        this.#world.after(RESTART_MS, this.#world.itself, () => {
          if (this.process === process) this.start();
        });
      });
    });
  }

  async #begin(process: Process): Promise<void> {
    const { redis, database, presence, commands } = this.#around;
    const { nodeId } = this;
    const log = this.#log();
    const metrics = this.#metrics();
    const connection = await redis.open(process);
    const cluster = await joinCluster({
      redis: connection,
      nodeId,
      onSuperseded: (deviceId, epoch) => this.hub?.superseded(deviceId, epoch),
      onTied: (deviceId) => this.hub?.claimTied(deviceId),
      onReturn: () => this.hub?.republish(),
      log,
      metrics,
    });
    this.#cluster = cluster;
    const hub = createHub({
      // Nothing listens: `serve` stands in for the sockets.
      httpServer: new HttpServer(),
      serve: (_httpServer, parts) => {
        this.#parts = parts;
        return { clients: 0, close: async () => this.#closeConnections() };
      },
      nodeId,
      bus: cluster.bus,
      directory: cluster.directory,
      nodes: cluster.nodes,
      reach: cluster.reach,
      store: storeOf({ owner: process, nodeId }, database, presence),
      ledger: ledgerOf(process, database, commands),
      credentials: {
        verify: () => Promise.reject(new Error('Agents of the simulation send no tokens.')),
        forget: () => {},
        lapsed: async () => [],
      },
      people: {
        authenticate: () => Promise.reject(new Error('There are no people here.')),
        countUse: async () => {},
      },
      heartbeatSeconds: HEARTBEAT_SECONDS,
      proxyTrust: { proxies: undefined, cfConnectingIp: false },
      log,
      metrics,
    });
    this.hub = hub;
    await hub.start();
    this.isListening = true;
    this.#world.history.note(nodeId, 'listens');
    if (this.#around.hasDashboards) this.openDashboard();
  }

  /** Somebody begins to look at this server, unless somebody does already. */
  openDashboard(): void {
    if (this.#parts === undefined || !this.isListening) return;
    this.dashboard ??= new Dashboard(this.#world, this.process, this.#parts.dashboards);
  }

  closeDashboard(): void {
    this.dashboard?.close();
    this.dashboard = undefined;
  }

  /** kill -9. @param isHeard  whether the network says so to others, as it does unless the machine loses its power */
  kill(isHeard = true): void {
    this.#world.history.note(this.nodeId, 'dies');
    for (const connection of this.#connections) {
      if (!isHeard) connection.silence();
      connection.close('server');
    }
    this.#end(isHeard);
  }

  #end(isHeard = true): void {
    this.#around.redis.processDied(this.process, isHeard);
    this.process.isAlive = false;
    this.isListening = false;
    this.#connections.clear();
    this.hub = undefined;
    this.#parts = undefined;
    this.#cluster = undefined;
    this.dashboard = undefined;
    this.#gauges = new Map();
  }

  /** SIGTERM, which a server must not take longer than its service manager waits. */
  stop(onStopped: () => void): void {
    const { hub, process } = this;
    const cluster = this.#cluster;
    if (hub === undefined || cluster === undefined || !this.isListening) return;
    this.#world.history.note(this.nodeId, 'is stopped');
    this.isListening = false;
    let isOver = false;
    const over = (how: string) => {
      if (isOver || this.process !== process || !process.isAlive) return;
      isOver = true;
      this.#world.history.note(this.nodeId, how);
      this.#end();
      onStopped();
    };
    this.#world.after(0, process, () => {
      this.dashboard?.close();
      hub
        .drain()
        .then(() => hub.close())
        .then(() => cluster.bus.close())
        .then(() => cluster.close())
        .then(
          () => over('has stopped'),
          (error: unknown) =>
            this.#world.history.violated('no-crash', `${this.nodeId} stopped badly: ${String(error)}`),
        );
    });
    this.#world.after(60_000, process, () => over('was killed because it did not stop'));
  }

  freeze(ms: number): void {
    this.#world.history.note(this.nodeId, `freezes for ${Math.round(ms)} ms`);
    const { process } = this;
    const until = this.#world.now + ms;
    process.frozenMs += Math.max(0, until - Math.max(this.#world.now, process.frozenUntil));
    process.frozenUntil = Math.max(process.frozenUntil, until);
  }

  /** An agent's connection has reached this server. Runs in its process. */
  agentConnects(connection: Connection, { identity, bootId, capabilities }: Hello): void {
    const parts = this.#parts;
    if (!this.isListening || parts === undefined) return connection.close('server');
    const refusal = parts.admission.closed() ?? parts.admission.refusal();
    if (refusal !== undefined) return connection.refuse(refusal);
    this.#connections.add(connection);
    connection.server.onClosed = () => void this.#connections.delete(connection);
    const claimant: Claimant = { bootId, ip: '10.0.0.1' };
    parts.agents.guard.refusal(identity, claimant).then(
      (refused) => {
        if (!connection.server.isOpen) return;
        if (refused !== undefined) {
          this.#connections.delete(connection);
          return connection.refuse(refused);
        }
        const handshake = {
          token: '',
          protocol: PROTOCOL_VERSION,
          agentVersion: '1.0.0',
          capabilities,
          bootId,
        };
        const link = new Link(this.#world, connection);
        const actor = parts.agents.connected({ identity, handshake, link, claimant });
        link.epochOf = () => actor.epoch;
        const inbox = new AgentInbox(actor, parts.agents);
        connection.atServer = (event, payload, acknowledge) => inbox.receive(event, payload, acknowledge);
        connection.server.onClosed = link.onClosed = () => {
          this.#connections.delete(connection);
          actor.linkClosed();
        };
        connection.accept();
      },
      (error: unknown) => this.#world.history.violated('no-crash', `the handshake failed: ${String(error)}`),
    );
  }

  #closeConnections(): void {
    for (const connection of this.#connections) connection.close('server');
    this.#connections.clear();
  }

  #log(): Logger {
    const line =
      (level: string) =>
      (fields: object | string, event = '') => {
        const { history } = this.#world;
        const text = typeof fields === 'string' ? fields : event;
        const error = typeof fields === 'object' && 'err' in fields ? ` ${String(fields.err)}` : '';
        history.note(this.nodeId, `${level} ${text}${error}`);
        if (FAULTS.has(text)) history.violated('no-fault-in-the-log', `${this.nodeId}: ${text}${error}`);
      };
    const log = {
      trace: () => {},
      debug: () => {},
      info: line('info'),
      warn: line('warn'),
      error: line('error'),
      fatal: line('fatal'),
    };
    // The hub uses nothing else of a logger.
    return log as unknown as Logger;
  }

  #metrics(): Metrics {
    const counter = { inc: () => {}, observe: () => {} };
    const keep = (name: string, read: () => number | Record<string, number>) => this.#gauges.set(name, read);
    const metrics = {
      refusedRecords: counter,
      counter: () => counter,
      histogram: () => counter,
      gauge: (name: string, _help: string, read: () => number) => keep(name, read),
      labelledGauge: (name: string, _help: string, _label: string, read: () => Record<string, number>) =>
        keep(name, read),
    };
    // The hub uses nothing else of the metrics.
    return metrics as unknown as Metrics;
  }
}

/** What an actor has of its connection, as `agent-transport.ts` makes it of a socket. */
class Link implements DeviceLink {
  onClosed: () => void = () => {};
  epochOf: () => number = () => 0;
  readonly #world: World;
  readonly #connection: Connection;

  constructor(world: World, connection: Connection) {
    this.#world = world;
    this.#connection = connection;
  }

  sendCommand(
    frame: Parameters<DeviceLink['sendCommand']>[0],
    receipt?: (answer: CommandReceipt) => void,
  ): void {
    if (frame.epoch !== this.epochOf()) {
      const text = `${frame.id} is sent under ${frame.epoch} over the connection ${this.epochOf()}`;
      this.#world.history.violated('own-epoch', text);
    }
    this.#connection.emitToAgent('command', frame, (answer) => {
      const parsed = CommandReceipt.safeParse(answer);
      if (parsed.success) receipt?.(parsed.data);
    });
  }

  sendCancel(message: { id: string }): void {
    this.#connection.emitToAgent('command:cancel', message);
  }

  sendTerminalControl(): void {}

  endIfUnread(): void {}

  close(notice: HubReconnect | undefined, onAcknowledged?: () => void): void {
    const { server } = this.#connection;
    const disconnect = () => {
      if (!server.isOpen) return;
      this.#connection.close('server');
      // Socket.IO reports the end to the side that caused it as well.
      this.onClosed();
    };
    if (notice?.reason !== 'superseded' || onAcknowledged === undefined) {
      if (notice !== undefined) this.#connection.emitToAgent('hub:reconnect', notice);
      disconnect();
      return;
    }
    this.#world.after(NOTICE_MS, server.process, disconnect);
    this.#connection.emitToAgent('hub:reconnect', notice, () => {
      onAcknowledged();
      disconnect();
    });
  }

  answers(withinMs: number): Promise<boolean> {
    return this.#connection.ping(withinMs);
  }
}
