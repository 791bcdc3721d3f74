import { LANE_LIMITS, laneOf, LANES } from '../../src/protocol/index.ts';
import type { SimulatedAgent } from './agent.ts';
import type { Facts } from './facts.ts';
import { isOpen, short, type CommandRow } from './ledger.ts';
import type { SimulatedServer } from './server.ts';
import type { Surroundings } from './surroundings.ts';
import type { World } from './world.ts';

export interface Scene {
  world: World;
  around: Surroundings;
  facts: Facts;
  servers: readonly SimulatedServer[];
  agents: readonly SimulatedAgent[];
}

/** Compares what the servers hold and show with what is true. Each check is for a world that has been well for some time. */
export class Auditor {
  readonly #scene: Scene;

  constructor(scene: Scene) {
    this.#scene = scene;
  }

  #violated(rule: string, text: string): void {
    this.#scene.world.history.violated(rule, text);
  }

  /**
   * Each device is shown as it is: in the database, on every dashboard, and by the servers themselves.
   * @param isEarly  before each device has sent a heartbeat, which puts right what dashboards have missed
   */
  presence(when: string, { isEarly = false } = {}): void {
    const { agents, servers, around } = this.#scene;
    for (const agent of agents) {
      const id = short(agent.deviceId);
      const expected = agent.isConnected ? 'connected' : 'disconnected';
      const row = around.presence.rows.get(agent.deviceId);
      const stored = row?.state ?? 'disconnected';
      if (agent.isOn && agent.process.isAlive && !agent.isConnected) {
        this.#violated('agents-return', `${when}: ${id} is not connected`);
      }
      if (stored !== expected) {
        this.#violated(
          'presence-converges',
          `${when}: ${id} is ${expected} and stored as ${stored} (${row?.reason})`,
        );
      } else if (agent.isConnected && row?.nodeId !== agent.connectedTo?.nodeId) {
        const where = agent.connectedTo?.nodeId;
        this.#violated('presence-converges', `${when}: ${id} is at ${where} and stored at ${row?.nodeId}`);
      }
    }
    if (!isEarly) this.dashboards(when, agents);
    for (const server of servers) {
      const here = agents.filter(
        ({ isConnected, connectedTo }) => isConnected && connectedTo === server,
      ).length;
      const held = server.gauge('muster_connected_agents');
      if (server.isListening && held !== here) {
        this.#violated(
          'memory-is-empty',
          `${when}: ${server.nodeId} holds ${JSON.stringify(held)} devices, and ${here} are there`,
        );
      }
    }
  }

  /** What people see of these devices. */
  dashboards(when: string, agents: readonly SimulatedAgent[]): void {
    for (const { nodeId, dashboard, isListening } of this.#scene.servers) {
      if (dashboard === undefined || !isListening) continue;
      for (const { deviceId, isConnected } of agents) {
        const shown = dashboard.shown.get(deviceId);
        const right = isConnected ? 'online' : 'offline';
        if (shown === right) continue;
        const text = `${when}: ${nodeId} shows ${short(deviceId)} as ${shown}, which is ${right}`;
        this.#violated('dashboards-converge', text);
      }
    }
  }

  /** Each server finds the others' devices. @param gone  a device that must not be found */
  owners(when: string, gone?: SimulatedAgent): void {
    const { agents, servers } = this.#scene;
    for (const server of servers.filter(({ isListening }) => isListening)) {
      for (const agent of agents) {
        const { deviceId, connectedTo, isConnected, connection } = agent;
        if (!isConnected && agent !== gone) continue;
        const expected = isConnected ? connectedTo?.nodeId : undefined;
        // The check asks Redis, so it may be answered after others have been asked.
        void server.ownerOf(deviceId).then(
          (found) => {
            if (found === expected || agent.connection !== connection) return;
            const text = `${when}: ${server.nodeId} finds ${short(deviceId)} at ${found}, and it is at ${expected}`;
            this.#violated('directory-converges', text);
          },
          () => {},
        );
      }
    }
  }

  /** No connected device has a free place and a command that waits, or one that it was told to end. */
  deliveries(when: string, atLeastMs: number): void {
    const { agents, around, world } = this.#scene;
    const open = new Map<string, CommandRow[]>();
    for (const row of around.commands.rows.values()) {
      if (isOpen(row)) open.set(row.deviceId, [...(open.get(row.deviceId) ?? []), row]);
    }
    for (const agent of agents.filter(({ isConnected }) => isConnected)) {
      const rows = open.get(agent.deviceId) ?? [];
      for (const lane of LANES) {
        const ofLane = rows.filter(({ type }) => laneOf(type) === lane);
        const busy = ofLane.filter(({ status }) => status === 'accepted' || status === 'running').length;
        if (busy >= LANE_LIMITS[lane]) continue;
        for (const { id, status, createdAt } of ofLane) {
          const isStuck = status === 'queued' || status === 'dispatched';
          if (!isStuck || world.now - createdAt < atLeastMs) continue;
          this.#violated(
            'commands-arrive',
            `${when}: ${short(id)} of ${short(agent.deviceId)} is still ${status}`,
          );
        }
      }
      for (const { id, status, cancelRequestedAt } of rows) {
        if (cancelRequestedAt === undefined || world.now - cancelRequestedAt < atLeastMs) continue;
        this.#violated('cancellations-arrive', `${when}: ${short(id)} was cancelled and is still ${status}`);
      }
    }
  }

  /** Every command has ended, as what has happened on its device says. */
  commands(): void {
    const { around, facts, agents } = this.#scene;
    for (const id of facts.acknowledged) {
      if (!around.commands.rows.has(id)) {
        this.#violated('nothing-lost', `${short(id)} was acknowledged and is gone`);
      }
    }
    for (const row of around.commands.rows.values()) {
      const { id, status, reason } = row;
      const effects = facts.effects.get(id) ?? 0;
      if (isOpen(row)) {
        this.#violated('commands-end', `${short(id)} of ${short(row.deviceId)} is still ${status}`);
      }
      if (status === 'succeeded' && effects !== 1) {
        this.#violated('exactly-once', `${short(id)} has succeeded with ${effects} effects`);
      }
      if ((status === 'expired' || reason === 'not_sent') && effects > 0) {
        this.#violated('no-effect-after-the-end', `${short(id)} is ${status} and took effect`);
      }
      if (
        status === 'timed_out' &&
        reason === 'no_result' &&
        effects === 0 &&
        row.cancelRequestedAt === undefined
      ) {
        this.#violated('accepted-commands-run', `${short(id)} was accepted and never began`);
      }
      if (status === 'cancelled' && row.cancelRequestedAt === undefined) {
        this.#violated('wanted-cancellations', `${short(id)} is cancelled, which nobody wanted`);
      }
    }
    for (const agent of agents) {
      if (agent.unreported === 0) continue;
      this.#violated(
        'results-arrive',
        `${short(agent.deviceId)} still has ${agent.unreported} commands to report`,
      );
    }
  }

  /** Nothing is left over in the servers. */
  memory(): void {
    const { servers, facts } = this.#scene;
    for (const server of servers) {
      const { nodeId } = server;
      const questions = server.gauge('muster_open_questions');
      if (typeof questions === 'object' && Object.values(questions).some((count) => count > 0)) {
        this.#violated('memory-is-empty', `${nodeId} has open queries: ${JSON.stringify(questions)}`);
      }
      const unwritten = server.gauge('muster_command_events_unwritten');
      if (typeof unwritten === 'number' && unwritten > 0) {
        this.#violated(
          'memory-is-empty',
          `${nodeId} has ${unwritten} events of commands that are not written`,
        );
      }
      const waiting = server.gauge('muster_mailbox_depth');
      if (typeof waiting === 'number' && waiting > 0) {
        this.#violated('memory-is-empty', `${nodeId} has ${waiting} messages in mailboxes`);
      }
    }
    for (const [{ name, nodeId }, { process }] of facts.queries) {
      if (process.isAlive) this.#violated('one-outcome', `${name} at ${nodeId} has not ended`);
    }
  }
}
