import type {
  CommandProgress,
  CommandReceipt,
  CommandResult,
  CommandRows,
  HubReconnect,
  Metrics,
  PresenceReason,
} from '../../protocol/index.ts';
import { AgentErrorCode, SECRETS_CAPABILITY } from '../../protocol/index.ts';
import {
  BUSY,
  type ActorLimits,
  type ActorMessage,
  type DeviceLink,
  type PendingAsk,
  type Urgent,
} from './actor-messages.ts';
import type { AskFailure } from './live-query.ts';
import {
  factsOf,
  heartbeatAnswer,
  instant,
  tellsNothingNew,
  toldFacts,
  type ToldFacts,
} from './heartbeat.ts';
import { Mailbox } from './mailbox.ts';
import { OpenAsks } from './pending-queries.ts';
import type {
  AgentIdentity,
  CommandEnd,
  CommandEvent,
  DeviceFacts,
  DispatchedCommand,
  PresenceRecord,
} from '../ports.ts';

/** Where the actor tells of itself. */
export interface ActorEvents {
  /** @param record  the actor's own, which goes on changing: whoever keeps it sees what it has become */
  presence(record: PresenceRecord): void;
  facts(facts: DeviceFacts): void;
  /** Work can be sent: the device is there. */
  ready(actor: DeviceActor): void;
  /** @param kept  called when the event is in the ledger, or cannot be put there now */
  command(event: CommandEvent, kept?: (isKept: boolean) => void): void;
  /** What work of the ledger prints, or whatever else the device says of an id that nobody here has asked. */
  rows(deviceId: string, rows: CommandRows): void;
  /** The actor has reached `gone`. */
  gone(actor: DeviceActor): void;
  failed(error: unknown, actor: DeviceActor): void;
}

const MAILBOX_CAPACITY = 256;

/** A connection that was replaced by a newer one of the same device has no reason to hurry back. */
export const SUPERSEDED: HubReconnect = { afterMs: 60_000, reason: 'superseded' };

/** One device's connection: the only place that decides about it. Everything that happens to it is a message. */
export class DeviceActor {
  readonly identity: AgentIdentity;
  /** What the agent has said at its handshake that it can do. */
  readonly capabilities: readonly string[];
  state: 'starting' | 'online' | 'draining' | 'gone' = 'starting';
  epoch = 0;
  lastHeardAt: number;
  readonly connectedSince: number;

  readonly #link: DeviceLink;
  readonly #events: ActorEvents;
  readonly #limits: ActorLimits;
  readonly #mailbox: Mailbox<ActorMessage | Urgent>;
  /** Made for the first question: most devices have none. */
  #asks: OpenAsks | undefined;
  /** What the agent has said of its machine last; the rest of a heartbeat is not kept. */
  #facts: ToldFacts;
  /** Kept in place: a heartbeat changes it and makes nothing that lives until it is written. */
  readonly #presence: PresenceRecord;
  #graceTimer: NodeJS.Timeout | undefined;
  #linkOpen = true;
  #supersededBy = 0;
  /** Why the actor ended; `undefined` where another connection has taken over, and until it ends. */
  #endedBecause: PresenceReason | undefined;
  #quietSweeps = 0;

  constructor(options: {
    identity: AgentIdentity;
    link: DeviceLink;
    events: ActorEvents;
    limits: ActorLimits;
    agentVersion: string;
    capabilities: readonly string[];
    ip: string;
    /** From the connection before, when this one follows it within the grace. */
    connectedSince: number | undefined;
    /** The claim of the connection before, on this node; 0 where there was none. */
    earlierEpoch: number;
    now: number;
  }) {
    this.identity = options.identity;
    this.#link = options.link;
    this.#events = options.events;
    this.#limits = options.limits;
    this.#facts = { agentVersion: options.agentVersion };
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
  get depth(): number {
    return this.#mailbox.depth;
  }
  get openAsks(): number {
    return this.#asks?.size ?? 0;
  }
  /** Whether a device is there to answer, as far as is known. */
  get isConnected(): boolean {
    return this.#linkOpen && (this.state === 'online' || this.state === 'starting');
  }
  /** The claim under which presence is reported: until the actor has its own, that of the connection before. */
  get presenceEpoch(): number {
    return this.#presence.epoch;
  }
  /** Whether presence still shows the device as connected: also for the grace after its link closed. */
  get countsAsConnected(): boolean {
    return this.state === 'online';
  }

  /** False when the mailbox is full or the actor is gone. */
  tell(message: ActorMessage): boolean {
    return this.state !== 'gone' && this.#mailbox.post(message);
  }
  /** Whether it is the id of a live question that the device has not answered yet. */
  hasAsked(id: unknown): boolean {
    return this.#asks !== undefined && typeof id === 'string' && this.#asks.has(id);
  }
  /** Notes that the device said something, whatever it was. */
  heard(at: number): void {
    this.lastHeardAt = at;
    this.#quietSweeps = 0;
  }
  /**
   * Counts a sweep of the hub in which nothing was heard, and answers how many there were in a row. Silence is counted
   * in sweeps, because a clock may be set, and because a process that stood still has heard nobody.
   */
  passQuietSweep(): number {
    return this.#quietSweeps++;
  }
  /** Ends a question, be it open on the device or still waiting for its turn. */
  cancel(id: string, failure: AskFailure): void {
    this.#mailbox.postUrgent({ kind: 'cancel', id, failure });
  }
  claimed(epoch: number): void {
    this.#mailbox.postUrgent({ kind: 'claimed', epoch });
  }
  /** Another node has claimed the device. Which claim is the newer one, the epochs say. */
  superseded(epoch: number): void {
    this.#mailbox.postUrgent({ kind: 'superseded', epoch });
  }
  /** Sends work of the ledger. It is bounded there, so it does not have to wait its turn behind questions. */
  send(command: DispatchedCommand): void {
    this.#mailbox.postUrgent({ kind: 'command', command });
  }
  cancelCommand(id: string): void {
    this.#mailbox.postUrgent({ kind: 'cancel_command', id });
  }
  /** Says again that the device is connected: somebody may have said otherwise. */
  tellAgain(): void {
    if (this.countsAsConnected) this.#reportPresence();
  }
  /** @param failure  what the questions that are open end with */
  linkClosed(failure: AskFailure = { reason: 'disconnected' }): void {
    this.#mailbox.postUrgent({ kind: 'link_closed', failure });
  }
  /** For whoever looks after all devices from time to time. */
  endIfUnread(): void {
    if (this.#linkOpen) this.#link.endIfUnread();
  }
  /** Nothing was heard for too long although the socket is open. */
  silent(): void {
    this.#mailbox.postUrgent({ kind: 'silent' });
  }
  /** @param presence  what the device's presence becomes; `undefined` leaves it to whoever takes over */
  stop(notice: HubReconnect | undefined, presence: PresenceReason | undefined): void {
    this.#mailbox.postUrgent({ kind: 'stop', notice, presence });
  }

  #turn(message: ActorMessage | Urgent): void {
    if (this.state === 'gone') {
      if (message.kind === 'claimed') this.#claimedTooLate(message.epoch);
      else turnAway(message);
      return;
    }
    try {
      this.#handle(message);
    } catch (error) {
      // The actor ends, with every question that is open; the agent comes back to a fresh one.
      this.#events.failed(error, this);
      this.#end({ afterMs: 1000, reason: 'actor_failed' }, 'socket_closed');
    }
  }

  #handle(message: ActorMessage | Urgent): void {
    switch (message.kind) {
      case 'heartbeat':
        return this.#onHeartbeat(message);
      case 'ask':
        return this.#onAsk(message.ask);
      case 'rows':
        if (this.#asks?.has(message.rows.id) === true) return this.#asks.rows(message.rows);
        return this.#events.rows(this.deviceId, message.rows);
      case 'result':
        return this.#onResult(message.result, message.ack);
      case 'progress':
        return this.#onProgress(message.progress);
      case 'command':
        return this.#onCommand(message.command);
      case 'receipt':
        return this.#onReceipt(message.id, message.answer);
      case 'cancel_command':
        if (this.#linkOpen) this.#link.sendCancel({ id: message.id });
        return;
      case 'cancel':
        return this.#onCancel(message.id, message.failure);
      case 'claimed':
        return this.#onClaimed(message.epoch);
      case 'superseded':
        this.#supersededBy = Math.max(this.#supersededBy, message.epoch);
        // While its own claim is under way, nobody knows yet which is the newer.
        if (this.state !== 'starting' && this.epoch < this.#supersededBy) this.#end(SUPERSEDED, undefined);
        return;
      case 'link_closed':
        return this.#onLinkClosed(message.failure);
      case 'silent':
        return this.#end({ afterMs: 1000, reason: 'heartbeat_missed' }, 'heartbeat_missed');
      case 'grace_over':
        return this.#end(undefined, 'socket_closed');
      case 'stop':
        return this.#end(message.notice, message.presence);
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

  /** What an earlier connection has said of the device stands as long as nobody says otherwise under a newer claim. */
  #claimedTooLate(epoch: number): void {
    if (this.#endedBecause === undefined || epoch < this.#supersededBy) return;
    this.#presence.epoch = epoch;
    this.#reportDisconnected(this.#endedBecause);
  }

  #onHeartbeat({ heartbeat, at, ack }: Extract<ActorMessage, { kind: 'heartbeat' }>): void {
    this.heard(at);
    takeMetrics(this.#presence, heartbeat.metrics);
    this.#presence.uptimeSeconds = heartbeat.uptimeSeconds ?? null;
    ack(heartbeatAnswer(at, this.#limits.heartbeatMs));
    this.#reportPresence();
    if (tellsNothingNew(this.#facts, heartbeat)) return;
    this.#facts = toldFacts(heartbeat);
    this.#reportFacts();
  }

  #onAsk(ask: PendingAsk): void {
    if (!this.#linkOpen) return ask.settle({ ok: false, reason: 'offline' });
    if (!this.capabilities.includes(ask.type)) {
      return ask.settle({ ok: false, reason: 'capability_missing' });
    }
    this.#asks ??= new OpenAsks(this.#link);
    if (this.#asks.size >= this.#limits.maxAsks) return ask.settle({ ok: false, reason: 'busy' });
    this.#asks.send(ask, this.epoch);
  }

  #onResult(result: CommandResult, ack: (isKept: boolean) => void): void {
    const { id } = result;
    if (this.#asks?.has(id) === true) {
      ack(true);
      return this.#asks.result(result, this.epoch);
    }
    // Of the ledger, by whatever claim it was sent; or of a question that is over, which the ledger does not know.
    this.#events.command({ kind: 'finished', id, deviceId: this.deviceId, end: endOf(result) }, ack);
  }

  #onCommand(command: DispatchedCommand): void {
    // Not acknowledged, so it is sent again under the next claim.
    if (!this.#linkOpen || command.epoch !== this.epoch) return;
    const { id, type, payload, epoch, deadline, attempt, secrets } = command;
    if (secrets !== undefined && !this.capabilities.includes(SECRETS_CAPABILITY)) {
      const code = AgentErrorCode.capabilityMissing;
      return this.#refuse(id, { code, message: 'The agent on this device does not support secrets.' });
    }
    if (!this.capabilities.includes(type)) {
      const code = AgentErrorCode.capabilityMissing;
      return this.#refuse(id, { code, message: `The agent on this device cannot do "${type}".` });
    }
    const frame = { id, type, payload, epoch, deadline, attempt };
    this.#link.sendCommand(secrets === undefined ? frame : { ...frame, secrets }, (answer) =>
      this.#mailbox.postUrgent({ kind: 'receipt', id, answer }),
    );
  }

  #onReceipt(id: string, answer: CommandReceipt): void {
    const { deviceId } = this;
    if (answer.ok) return this.#events.command({ kind: 'accepted', id, deviceId });
    if (answer.error.code !== AgentErrorCode.busy) return this.#refuse(id, answer.error);
    this.#events.command({ kind: 'postponed', id, deviceId });
  }

  #refuse(id: string, error: { code: string; message: string }): void {
    this.#events.command({ kind: 'finished', id, deviceId: this.deviceId, end: { status: 'failed', error } });
  }

  #onProgress({ id, seq: _seq, ...progress }: CommandProgress): void {
    if (this.#asks?.has(id) === true) return;
    this.#events.command({ kind: 'running', id, deviceId: this.deviceId, progress });
  }

  #onCancel(id: string, failure: AskFailure): void {
    if (this.#asks?.cancel(id, failure) === true) return;
    const waiting = this.#mailbox.withdraw((message) => message.kind === 'ask' && message.ask.id === id);
    if (waiting?.kind === 'ask') waiting.ask.settle({ ok: false, ...failure });
  }

  #onLinkClosed(failure: AskFailure): void {
    if (!this.#linkOpen) return;
    this.#linkOpen = false;
    this.#asks?.failAll(failure);
    // The grace begins when the claim is there: only then can anything be said of the device.
    if (this.state === 'online') this.#startGrace();
  }

  #startGrace(): void {
    this.#graceTimer = setTimeout(
      () => this.#mailbox.postUrgent({ kind: 'grace_over' }),
      this.#limits.graceMs,
    );
  }

  #end(notice: HubReconnect | undefined, presence: PresenceReason | undefined): void {
    this.state = 'draining';
    this.#endedBecause = presence;
    clearTimeout(this.#graceTimer);
    this.#asks?.failAll({ reason: 'disconnected' });
    for (const message of this.#mailbox.drain()) turnAway(message);
    const wasOpen = this.#linkOpen;
    this.#linkOpen = false;
    // Without any claim, nothing was ever said of the device.
    if (this.#presence.epoch > 0 && presence !== undefined) this.#reportDisconnected(presence);
    this.state = 'gone';
    this.#events.gone(this);
    if (wasOpen) this.#closeLink(notice);
  }

  /** Last of all, and a link that does not even close keeps nothing from its end. */
  #closeLink(notice: HubReconnect | undefined): void {
    try {
      this.#link.close(notice);
    } catch (error) {
      this.#events.failed(error, this);
    }
  }

  #reportDisconnected(reason: PresenceReason): void {
    this.#presence.presence = { state: 'disconnected', since: instant(Date.now()), reason };
    this.#reportPresence();
  }

  #reportPresence(): void {
    this.#presence.lastSeenAt = instant(this.lastHeardAt);
    this.#events.presence(this.#presence);
  }

  #reportFacts(): void {
    const capabilities = [...new Set(this.capabilities)].sort();
    this.#events.facts(factsOf({ deviceId: this.deviceId, capabilities }, this.#facts));
  }
}

/**
 * Into the numbers that are there already, where there are some. They are named one by one at first too: a copy of what
 * was parsed would keep each later number as an object of its own (docs/decisions/what-grows-old.md).
 */
function takeMetrics(record: PresenceRecord, told: Metrics | undefined): void {
  if (told === undefined) {
    record.metrics = null;
    return;
  }
  const { cpuPercent, ramPercent, diskPercent } = told;
  if (record.metrics === null) record.metrics = { cpuPercent, ramPercent, diskPercent };
  else {
    record.metrics.cpuPercent = cpuPercent;
    record.metrics.ramPercent = ramPercent;
    record.metrics.diskPercent = diskPercent;
  }
}

/** What must not be left without an answer when its turn does not come. */
function turnAway(message: ActorMessage | Urgent): void {
  if (message.kind === 'ask') message.ask.settle({ ok: false, reason: 'disconnected' });
  if (message.kind === 'heartbeat') message.ack(BUSY);
  if (message.kind === 'result') message.ack(false);
}

function endOf({ status, output, error }: CommandResult): CommandEnd {
  return {
    status: status === 'failed' && error?.code === AgentErrorCode.timedOut ? 'timed_out' : status,
    ...(output === undefined ? {} : { output }),
    ...(error === undefined ? {} : { error }),
  };
}
