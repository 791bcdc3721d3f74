import { clock, type Timer } from '../../clock.ts';
import type {
  CommandResult,
  CommandRows,
  HubReconnect,
  MachineIdentity,
  MetricSamples,
  ServiceReport,
  PresenceReason,
  TerminalControl,
} from '../../protocol/index.ts';
import { omitUndefined } from '../../platform/omit-undefined.ts';
import type {
  AgentIdentity,
  UpgradeOffers,
  Claimant,
  DeviceFacts,
  PresenceRecord,
  CommandEvent,
  DispatchedCommand,
} from '../ports.ts';
import {
  CachedOffer,
  factsOf,
  hasSameFacts,
  heartbeatAck,
  instant,
  machineFacts,
  pendingAck,
  setMetrics,
  type MachineFacts,
} from './heartbeat.ts';
import {
  rejectMessage,
  type ActorLimits,
  type ActorMessage,
  type DeviceLink,
  type LiveQueryRequest,
  type ReportedUpgrade,
  SUPERSEDED,
  missingCapability,
  progressEvent,
  receiptEvent,
  resultEvent,
} from './actor-messages.ts';
import type { LiveQueryFailure } from './live-query.ts';
import { PendingQueries } from './pending-queries.ts';
import { TerminalControls } from './terminal-controls.ts';
import { Mailbox } from './mailbox.ts';

/** The reports of the actor to the rest of the hub. */
export interface ActorEvents {
  /** @param record  the actor's own record, which it goes on changing */
  presence(record: PresenceRecord, report: { identity: AgentIdentity; isHeartbeat: boolean }): void;
  facts(facts: DeviceFacts): void;
  /** The device is connected and can be sent commands. */
  ready(actor: DeviceActor): void;
  /** @param onStored  called with `true` when the event is in the ledger, with `false` when it cannot be stored now */
  command(event: CommandEvent, onStored?: (isStored: boolean) => void): void;
  /** @param onStored  called with `true` when the phase is stored, with `false` when it has to be sent again */
  upgrade(deviceId: string, status: ReportedUpgrade, onStored: (isStored: boolean) => void): void;
  /** @param onStored  called with `true` when the samples are stored, with `false` when they have to be sent again */
  samples(deviceId: string, samples: MetricSamples['samples'], onStored: (isStored: boolean) => void): void;
  /** @param onStored  called with `true` when the report is stored, with `false` when it has to be sent again */
  services(deviceId: string, report: ServiceReport, onStored: (isStored: boolean) => void): void;
  /** Output of a command, or rows with an id that is no open query of this device. */
  rows(deviceId: string, rows: CommandRows): void;
  /** The connection was alive when another one replaced it. */
  outlived(actor: DeviceActor): void;
  /** The actor has reached the state `gone`. */
  gone(actor: DeviceActor): void;
  failed(error: unknown, actor: DeviceActor): void;
}

export interface ActorOptions {
  identity: AgentIdentity;
  link: DeviceLink;
  events: ActorEvents;
  limits: ActorLimits;
  offers: UpgradeOffers;
  agentVersion: string;
  capabilities: readonly string[];
  ip: string;
  bootId?: string;
  /** The description of the machine that the agent sent when it connected. */
  machine?: MachineIdentity;
  /** Taken over from the previous connection when this one follows it within the grace period. */
  connectedSince: number | undefined;
  /** The epoch of the previous connection on this node, or 0. */
  earlierEpoch: number;
  now: number;
}

/** Whether a connection was closed, or ended because the agent stopped answering while it was open. */
export type LinkLoss = Extract<PresenceReason, 'socket_closed' | 'heartbeat_missed'>;

const MAILBOX_CAPACITY = 256;

/**
 * Owns the connection of one device and alone decides about its state. Messages are handled one at a time. Life cycle
 * changes are functions that run before all waiting messages.
 */
export class DeviceActor {
  readonly identity: AgentIdentity;
  /** The program that has connected. */
  readonly claimant: Claimant;
  /** The capabilities that the agent listed in its handshake. */
  readonly capabilities: readonly string[];
  state: 'starting' | 'online' | 'draining' | 'gone' = 'starting';
  epoch = 0;
  lastHeardAt: number;
  readonly connectedSince: number;

  readonly #link: DeviceLink;
  readonly #events: ActorEvents;
  readonly #limits: ActorLimits;
  readonly #offer: CachedOffer;
  readonly #mailbox: Mailbox<ActorMessage | (() => void)>;
  /** Created by the first query, because most devices have none. */
  #queries: PendingQueries | undefined;
  #terminals: TerminalControls | undefined;
  #facts: MachineFacts;
  /** Changed in place, so that a heartbeat allocates nothing that lives until it is written. */
  readonly #presence: PresenceRecord;
  /** Shared by all who ask at the same time. */
  #proof: Promise<boolean> | undefined;
  #graceTimer: Timer | undefined;
  /** How the connection was lost. Undefined while it is open. */
  #linkLoss: LinkLoss | undefined;
  #supersededBy = 0;
  /** Why the actor ended. Undefined before it has, and when another connection has taken over. */
  #endedBecause: PresenceReason | undefined;
  #silentSweeps = 0;

  constructor(options: ActorOptions) {
    this.identity = options.identity;
    this.#link = options.link;
    this.#events = options.events;
    this.#limits = options.limits;
    this.#offer = new CachedOffer(options.offers);
    this.claimant = { ...options.machine, bootId: options.bootId ?? '', ip: options.ip };
    const { hostname } = this.claimant;
    this.#facts = { agentVersion: options.agentVersion, ...omitUndefined({ hostname }) };
    this.capabilities = options.capabilities;
    this.lastHeardAt = options.now;
    this.connectedSince = options.connectedSince ?? options.now;
    this.#presence = {
      deviceId: options.identity.deviceId,
      epoch: options.earlierEpoch,
      presence: { state: 'connected', since: instant(this.connectedSince), reason: 'connected' },
      lastSeenAt: null,
      lastIp: options.ip,
      metrics: null,
      uptimeSeconds: null,
    };
    this.#mailbox = new Mailbox((message) => this.#turn(message), MAILBOX_CAPACITY);
    this.#mailbox.hold();
  }

  get deviceId(): string {
    return this.identity.deviceId;
  }
  /** Whether the device waits for approval, and is given nothing. */
  get isPending(): boolean {
    return this.identity.isPending === true;
  }
  /** As the handshake and the last heartbeat name them. */
  get versions(): { agentVersion: string; watchdogVersion: string | undefined } {
    const { agentVersion, watchdogVersion } = this.#facts;
    return { agentVersion, watchdogVersion };
  }
  /** The number of waiting messages. */
  get depth(): number {
    return this.#mailbox.depth;
  }
  get openQueries(): number {
    return this.#queries?.size ?? 0;
  }
  get #linkOpen(): boolean {
    return this.#linkLoss === undefined;
  }
  /** Whether the connection is open, as far as is known. */
  get isConnected(): boolean {
    return this.#linkOpen && (this.state === 'online' || this.state === 'starting');
  }
  /** The epoch under which presence is reported: that of the previous connection until this one has its own. */
  get presenceEpoch(): number {
    return this.#presence.epoch;
  }
  /** Whether presence shows the device as connected, which includes the grace period after the link closed. */
  get countsAsConnected(): boolean {
    return this.state === 'online';
  }

  /** False when the mailbox is full or the actor is gone. */
  post(message: ActorMessage): boolean {
    return this.state !== 'gone' && this.#mailbox.post(message);
  }
  hasOpenQuery(id: unknown): boolean {
    return this.#queries !== undefined && typeof id === 'string' && this.#queries.has(id);
  }
  /** Notes that the device sent something. */
  heard(at: number): void {
    this.lastHeardAt = at;
    this.#silentSweeps = 0;
  }
  /**
   * Counts a sweep of the hub, and returns the number of sweeps since the last message of the device. Silence is counted
   * in sweeps and not in time: the clock of the machine may be set, and a process that was suspended has received nothing.
   */
  countSilentSweep(): number {
    return this.#silentSweeps++;
  }
  /** Reports again that the device is connected, because another node may have said otherwise. */
  republish(): void {
    if (this.countsAsConnected) this.#reportPresence();
  }
  /** The offer for the device may have changed. */
  forgetOffer(): void {
    this.#offer.forget();
  }
  /** The stored host name is not the reported one: the next heartbeat reports it again. */
  forgetHostname(): void {
    this.#facts.hostname = undefined;
  }
  /** Resolves to whether the agent's end of the connection is alive. */
  async answers(withinMs: number): Promise<boolean> {
    this.#proof ??= this.#link.answers(withinMs).finally(() => {
      this.#proof = undefined;
    });
    return (await this.#proof) && this.isConnected;
  }
  endIfUnread(): void {
    if (this.#linkOpen) this.#link.endIfUnread();
  }

  /** The directory has accepted this connection's claim. An actor that has ended still reports that under the epoch. */
  claimed(epoch: number): void {
    if (this.state === 'gone') this.#reportEndUnder(epoch);
    else this.#urgently(() => this.#onClaimed(epoch));
  }
  /** Another node has claimed the device. The greater epoch is the newer claim. */
  superseded(epoch: number): void {
    this.#urgently(() => {
      this.#supersededBy = Math.max(this.#supersededBy, epoch);
      // Until this actor has its own epoch, it is not known which claim is newer.
      if (this.state !== 'starting' && this.epoch < this.#supersededBy) this.#end(SUPERSEDED, undefined);
    });
  }
  /** Cancels a query, whether it is open on the device or still waiting in the mailbox. */
  cancelQuery(id: string, failure: LiveQueryFailure): void {
    this.#urgently(() => {
      if (this.#queries?.cancel(id, failure) === true) return;
      const waiting = this.#mailbox.withdraw(
        (message) => typeof message === 'object' && message.kind === 'query' && message.query.id === id,
      );
      if (typeof waiting !== 'object' || waiting.kind !== 'query') return;
      waiting.query.settle({ ok: false, ...failure });
    });
  }
  /** Sends a command. The ledger limits how many there are, so they do not wait behind queries. */
  sendCommand(command: DispatchedCommand): void {
    this.#urgently(() => this.#onCommand(command));
  }
  cancelCommand(id: string): void {
    this.#urgently(() => {
      if (this.#linkOpen) this.#link.sendCancel({ id });
    });
  }
  /** Sends a message to the terminal that an open query views. */
  controlTerminal(control: TerminalControl): void {
    this.#urgently(() => {
      if (!this.#linkOpen || this.#queries?.has(control.id) !== true) return;
      this.#terminals ??= new TerminalControls(this.#link);
      this.#terminals.send(control);
    });
  }
  /**
   * @param failure  how open queries end
   * @param loss     the reason of its presence, if the device does not return within the grace period
   */
  linkClosed(failure: LiveQueryFailure = { reason: 'disconnected' }, loss: LinkLoss = 'socket_closed'): void {
    this.#urgently(() => {
      if (!this.#linkOpen) return;
      this.#linkLoss = loss;
      this.#queries?.failAll(failure);
      // Without an epoch nothing can be reported, so the grace period begins with the claim.
      if (this.state === 'online') this.#startGrace();
    });
  }
  /** Ends a connection that is open but silent for too long. Called by the sweep in `presence/silence-sweep.ts`. */
  heartbeatMissed(): void {
    this.#urgently(() => this.#end({ afterMs: 1000, reason: 'heartbeat_missed' }, 'heartbeat_missed'));
  }
  /** @param presence  the reason of the new presence; `undefined` leaves presence to the actor that takes over */
  stop(notice: HubReconnect | undefined, presence: PresenceReason | undefined): void {
    this.#urgently(() => this.#end(notice, presence));
  }

  #urgently(turn: () => void): void {
    this.#mailbox.postUrgent(turn);
  }

  #turn(message: ActorMessage | (() => void)): void {
    if (this.state === 'gone') return reject(message);
    try {
      if (typeof message === 'function') message();
      else this.#handle(message);
    } catch (error) {
      // The actor ends and fails its open queries. The agent reconnects and gets a new actor.
      this.#events.failed(error, this);
      this.#end({ afterMs: 1000, reason: 'actor_failed' }, 'socket_closed');
    }
  }

  #handle(message: ActorMessage): void {
    switch (message.kind) {
      case 'heartbeat':
        return this.#onHeartbeat(message);
      case 'query':
        return this.#onQuery(message.query);
      case 'rows':
        if (this.#queries?.has(message.rows.id) === true) return this.#queries.rows(message.rows);
        return this.#events.rows(this.deviceId, message.rows);
      case 'result':
        return this.#onResult(message.result, message.ack);
      case 'upgrade':
        return this.#onUpgrade(message);
      case 'samples':
        // Of a device that waits for approval nothing is kept.
        if (this.isPending) return message.ack(false);
        return this.#events.samples(this.deviceId, message.samples, message.ack);
      case 'services':
        if (this.isPending) return message.ack(false);
        return this.#events.services(this.deviceId, message.report, message.ack);
      case 'progress':
        if (this.#queries?.has(message.progress.id) === true) return;
        return this.#events.command(progressEvent(this.deviceId, message.progress));
      default:
        return message satisfies never;
    }
  }

  #onClaimed(epoch: number): void {
    this.epoch = epoch;
    this.#presence.epoch = epoch;
    if (epoch < this.#supersededBy) return this.#end(SUPERSEDED, undefined);
    this.state = 'online';
    if (this.#linkOpen) {
      this.#reportPresence();
      this.#reportFacts();
      this.#events.ready(this);
    } else this.#startGrace();
    this.#mailbox.release();
  }

  /** Without this, what an earlier connection reported would stand until a newer claim reports something else. */
  #reportEndUnder(epoch: number): void {
    if (this.#endedBecause === undefined || epoch < this.#supersededBy) return;
    this.#presence.epoch = epoch;
    this.#reportDisconnected(this.#endedBecause);
  }

  #onHeartbeat({ heartbeat, at, ack }: Extract<ActorMessage, { kind: 'heartbeat' }>): void {
    this.heard(at);
    setMetrics(this.#presence, heartbeat.metrics);
    this.#presence.uptimeSeconds = heartbeat.uptimeSeconds ?? null;
    const isKnown = hasSameFacts(this.#facts, heartbeat);
    if (!isKnown) {
      this.#facts = machineFacts(heartbeat);
      this.#offer.forget();
    }
    const { heartbeatMs } = this.#limits;
    ack(
      this.isPending
        ? pendingAck(at, heartbeatMs)
        : heartbeatAck(at, heartbeatMs, this.#offer.current(this, this.#facts, at)),
    );
    this.#reportPresence({ isHeartbeat: true });
    if (!isKnown) this.#reportFacts();
  }

  #onUpgrade({ status, at, ack }: Extract<ActorMessage, { kind: 'upgrade' }>): void {
    this.#offer.reported(status.phase, at);
    this.#events.upgrade(this.deviceId, status, ack);
  }

  #onQuery(query: LiveQueryRequest): void {
    if (!this.#linkOpen) return query.settle({ ok: false, reason: 'offline' });
    if (!this.capabilities.includes(query.type)) {
      return query.settle({ ok: false, reason: 'capability_missing' });
    }
    this.#queries ??= new PendingQueries(this.#link);
    if (this.#queries.size >= this.#limits.maxQueries) return query.settle({ ok: false, reason: 'busy' });
    this.#queries.send(query, this.epoch);
  }

  #onResult(result: CommandResult, ack: (isStored: boolean) => void): void {
    if (this.#queries?.has(result.id) === true) {
      ack(true);
      return this.#queries.result(result, this.epoch);
    }
    // A command, under whichever epoch it was sent, or a query that has ended, whose id the ledger does not know.
    this.#events.command(resultEvent(this.deviceId, result), ack);
  }

  #onCommand(command: DispatchedCommand): void {
    // It gets no receipt, so the ledger returns it again under the next epoch.
    if (!this.#linkOpen || command.epoch !== this.epoch) return;
    const { id, deviceId, type, payload, epoch, deadline, attempt, secrets } = command;
    const missing = missingCapability(command, this.capabilities);
    if (missing !== undefined) return this.#events.command(missing);
    const frame = { id, type, payload, epoch, deadline, attempt };
    // The callback must not keep the command in memory, because it may contain secrets.
    this.#link.sendCommand(secrets === undefined ? frame : { ...frame, secrets }, (answer) =>
      this.#urgently(() => this.#events.command(receiptEvent({ id, deviceId, attempt }, answer))),
    );
  }

  #startGrace(): void {
    this.#graceTimer = clock.setTimeout(() => this.stop(undefined, this.#linkLoss), this.#limits.graceMs);
  }

  #end(notice: HubReconnect | undefined, presence: PresenceReason | undefined): void {
    this.state = 'draining';
    this.#endedBecause = presence;
    clock.clear(this.#graceTimer);
    this.#queries?.failAll({ reason: 'disconnected' });
    for (const message of this.#mailbox.drain()) reject(message);
    const wasOpen = this.#linkOpen;
    this.#linkLoss ??= 'socket_closed';
    // Without an epoch, this connection has never reported anything.
    if (this.#presence.epoch > 0 && presence !== undefined) this.#reportDisconnected(presence);
    this.state = 'gone';
    this.#events.gone(this);
    if (wasOpen) this.#closeLink(notice);
  }

  /** Comes last: a link that fails to close must not keep the actor from ending. */
  #closeLink(notice: HubReconnect | undefined): void {
    try {
      this.#link.close(notice, () => {
        if (notice === SUPERSEDED) this.#events.outlived(this);
      });
    } catch (error) {
      this.#events.failed(error, this);
    }
  }

  #reportDisconnected(reason: PresenceReason): void {
    const now = clock.now();
    const isUpdating = reason === 'socket_closed' && this.#offer.isUpdating(now);
    this.#presence.presence = {
      state: 'disconnected',
      since: instant(now),
      reason: isUpdating ? 'updating' : reason,
    };
    this.#reportPresence();
  }

  #reportPresence({ isHeartbeat } = { isHeartbeat: false }): void {
    this.#presence.lastSeenAt = instant(this.lastHeardAt);
    this.#events.presence(this.#presence, { identity: this.identity, isHeartbeat });
  }

  #reportFacts(): void {
    const capabilities = [...new Set(this.capabilities)].sort();
    const { serialNumber, macAddresses } = this.claimant;
    const ids = omitUndefined({ serialNumber, macAddresses });
    this.#events.facts(factsOf({ deviceId: this.deviceId, capabilities, ...ids }, this.#facts));
  }
}

function reject(message: ActorMessage | (() => void)): void {
  if (typeof message === 'object') rejectMessage(message);
}
