import type { Server as HttpServer } from 'node:http';
import { DASHBOARD_NAMESPACE, JobOutput } from '../protocol/index.ts';
import type { DeviceSummary, ErrorAck, Heartbeat, HeartbeatAck } from '../protocol/index.ts';
import type { NodeBus } from '../platform/cluster/node-bus.ts';
import { InProcessCluster } from '../platform/cluster/node-bus.ts';
import { AppError } from '../platform/errors.ts';
import { clientAddress, countedNetwork, type ProxyTrust } from '../platform/http/client-address.ts';
import type { Logger } from '../platform/logger.ts';
import type { Metrics } from '../platform/metrics.ts';
import { AccessChanges } from './access/access-changes.ts';
import { AddressAdmission, type AddressLimits } from './sockets/address-admission.ts';
import { Admission, type AdmissionLimits } from './sockets/admission.ts';
import { ActorRegistry } from './device/actor-registry.ts';
import { serveAgents } from './agents/agent-transport.ts';
import type { Ask } from './device/live-query.ts';
import { DashboardAccess } from './access/dashboard-access.ts';
import { DashboardFeed } from './feed/dashboard-feed.ts';
import { type DashboardLimits, DashboardPlaces } from './dashboard/dashboard-limits.ts';
import { type DashboardNamespace, serveDashboards } from './dashboard/dashboard-transport.ts';
import { ClusterFeed } from './feed/cluster-feed.ts';
import { ChangedDevices } from './feed/changed-devices.ts';
import { CommandDesk } from './commands/command-dispatcher.ts';
import type { DevicePatch } from './subscriptions/device-change.ts';
import { DeviceActor, SUPERSEDED, type ActorEvents } from './device/device-actor.ts';
import { BUSY, type ActorLimits } from './device/actor-messages.ts';
import { InProcessDirectory, type Directory } from './cluster/directory.ts';
import { HttpReports } from './presence/http-reports.ts';
import { hubMetrics } from './hub-metrics.ts';
import { JobFeed } from './commands/job-feed.ts';
import { LiveFilters } from './filters/live-filters.ts';
import { withLivePresence } from './presence/live-presence.ts';
import { LostDevices } from './presence/lost-devices.ts';
import { Notices, type ToldOthers } from './notices.ts';
import type {
  AgentCredentials,
  AgentIdentity,
  CommandLedger,
  DeviceStore,
  FleetStore,
  LogReads,
  JobChange,
  People,
} from './ports.ts';
import { OverlookedWork } from './commands/undelivered-work.ts';
import { PresenceWriter } from './presence/presence-writer.ts';
import { Router, type HubMessage } from './cluster/router.ts';
import { SharedLists } from './agents/capability-sets.ts';
import { createSocketServer } from './sockets/socket-server.ts';
import { UpgradeDoor } from './sockets/upgrade-gate.ts';

export { askError, type AskFailure, inTimeToAsk, leftToAsk, type Question } from './device/live-query.ts';
export type { DevicePatch } from './subscriptions/device-change.ts';
export type { FleetDevice } from './filters/fleet-device.ts';
export type { FleetStore, JobChange, LogRead, LogReads } from './ports.ts';
export { ACCESS_CHANNEL } from './access/access-change.ts';
export { type Cluster, joinCluster } from './redis-cluster.ts';

/** The live side, as features see it. */
export interface DeviceHub {
  ask: Ask;
  /** A heartbeat that came over plain HTTP. Throws `device_busy` or `unavailable`, after which it comes again. */
  heartbeat(agent: AgentIdentity, heartbeat: Heartbeat, ip: string): Promise<HeartbeatAck>;
  /** A device came into being, or came back: subscribers in whose scope it is see it enter. */
  deviceEntered(device: DeviceSummary, partnerId: string): void;
  deviceChanged(deviceId: string, patch: DevicePatch): void;
  /** Records of devices have changed, or the devices are back in service: subscribers on all nodes see what that means. */
  devicesChanged(deviceIds: readonly string[]): void;
  /** A saved filter is another one now, or gone: those who follow it on any node go on with the new one, or hear why not. */
  filterChanged(filterId: string): void;
  /** A custom field of the organization is defined otherwise now, or not any more: it may be read as another type. */
  customFieldChanged(orgId: string, key: string): void;
  /** Devices belong somewhere else now: as `devicesChanged`, and their agents come back under what they are now. */
  devicesMoved(deviceIds: readonly string[]): void;
  /** A device is gone for good: its connection ends and subscribers see it leave. */
  deviceLeft(deviceId: string): void;
  /** What is known of a device whose connection this node holds, or held until a moment ago. */
  live(deviceId: string): { isThere: boolean; capabilities: readonly string[] } | undefined;
  /** There is new work for the device in the ledger. */
  deliver(deviceId: string): void;
  /** What became of work in the ledger without a device. */
  jobsChanged(jobs: readonly JobChange[]): void;
  /** The device is to stop work that it may have. */
  cancelCommand(deviceId: string, commandId: string): void;
  /** Ends the connection, so that the agent comes back with what is now valid. */
  disconnect(deviceId: string): void;
}

export interface Hub extends DeviceHub {
  start(): Promise<void>;
  /** The others may have taken this node for lost: it tells again what it holds. */
  tellAgain(): void;
  /** What the database has announced of who may do what, in the form of its notifications. */
  accessChanged(payloads: readonly string[]): void;
  /** Such announcements may have been missed. */
  accessMayHaveChanged(): void;
  /** Somebody else has claimed the device since, while nobody could tell us. */
  superseded(deviceId: string, epoch: number): void;
  /** Refuses newcomers and sends the connected away, spread over time. */
  drain(): Promise<void>;
  close(): Promise<void>;
  readonly connected: number;
}

export interface HubOptions {
  httpServer: HttpServer;
  store: DeviceStore;
  onTold?: ToldOthers;
  /** For live filters; where it is left out there are none. */
  fleet?: FleetStore;
  /** How many devices they may look at (default 300,000), and how often time is looked at (default 15 s). */
  liveFilters?: { devicesMax?: number; sweepMs?: number };
  credentials: AgentCredentials;
  ledger: CommandLedger;
  /** Where live reads of logs are written down; where it is left out they are not. */
  logReads?: LogReads;
  people: People;
  heartbeatSeconds: number;
  /** Whose word counts on where a dashboard connects from. */
  proxyTrust: ProxyTrust;
  log: Logger;
  metrics: Metrics;
  /** The cluster: in one process where they are left out. */
  bus?: NodeBus<HubMessage>;
  directory?: Directory;
  /** The nodes that are there; `undefined` while that is not known for sure. */
  nodes?: () => ReadonlySet<string> | undefined;
  /** Makes one of the dashboards of all nodes. */
  joinDashboards?: (namespace: DashboardNamespace) => void;
  nodeId: string;
  /** How long a closed connection may take to come back before the device counts as offline (default 5 s). */
  graceMs?: number;
  dashboardRecheckMs?: number;
  dashboardLimits?: Partial<DashboardLimits>;
  /** Whether announcements of changed rights reach this node at this moment; always, where it is left out. */
  isInTouch?: () => boolean;
  /** How long a dashboard may read nothing of what it is sent (default 20 s). */
  dashboardPatienceMs?: number;
  admission?: AdmissionLimits;
  /** How often this node looks for work that its devices were not told of (default 10 s, and up to twice that). */
  overlookedWorkMs?: number;
}

const MAX_ASKS_A_DEVICE = 8;
/** How fast agents may come in: what one process takes on while people keep working. */
const ADMISSION: AdmissionLimits = { perSecond: 500, burst: 200 };
const FROM_ONE_ADDRESS: AddressLimits = { atOnce: 1000, failuresPerSecond: 10 };
/** A device is silent after so many heartbeats that did not come. */
const MISSED_HEARTBEATS = 2.5;
const SWEEP_MS = 1000;
/** With every so many sweeps, connections are ended on which too much is not read. */
const SWEEPS_BETWEEN_UNREAD = 10;
/** How fast drained agents come back, at most; they spread themselves over the time it takes. */
const RETURNS_A_SECOND = 200;
const DRAIN_ASKS_MS = 3000;
/** What it takes at most until the others have heard that this node is back. */
const RETURN_MS = 1500;

export function createHub(options: HubOptions): Hub {
  const { log, metrics, store } = options;
  const bus = options.bus ?? new InProcessCluster<HubMessage>().join(options.nodeId);
  const directory = options.directory ?? new InProcessDirectory();
  const registry = new ActorRegistry();
  const writer = new PresenceWriter(
    store,
    log,
    (deviceIds) => notices.devicesChanged(deviceIds),
    (count) => metrics.refusedRecords.inc({ records: 'presence' }, count),
    // Whoever read presence while it could not be written has read what was old, on every node.
    () => notices.missed(),
  );
  const live =
    options.fleet === undefined
      ? undefined
      : new LiveFilters({
          store: options.fleet,
          refreshed: (device) => ownFeed.latest(withLivePresence(device, registry, reports)),
          log,
          ...options.liveFilters,
        });
  const ownFeed = new DashboardFeed(live);
  const feed = new ClusterFeed(
    ownFeed,
    // One process has no others to tell.
    options.bus === undefined
      ? undefined
      : (told) => {
          // Dashboards of others that cannot be told now, subscribe again or see the next change.
          bus.broadcast({ kind: 'feed', events: told }).catch(() => meters.untold.inc());
        },
  );
  const jobs = new JobFeed({
    update: (rooms, job) => jobRooms.update(rooms, job),
    output: (rooms, output) => jobRooms.output(rooms, output),
  });
  const desk = new CommandDesk({
    ledger: options.ledger,
    registry,
    changed: (changed) => jobs.changed(changed),
    onRefused: (count) => metrics.refusedRecords.inc({ records: 'commands' }, count),
    log,
  });
  const overlooked = new OverlookedWork({
    ledger: options.ledger,
    registry,
    wake: (deviceId) => desk.wake(deviceId),
    log,
    everyMs: options.overlookedWorkMs,
  });
  const router = new Router({
    registry,
    directory,
    bus,
    log,
    onNotice: (notice) => notices.receive(notice),
  });
  // A node that died may have taken work for our devices, and told nobody.
  bus.onNodeLost(() => void overlooked.look());
  const limits: ActorLimits = {
    heartbeatMs: options.heartbeatSeconds * 1000,
    graceMs: options.graceMs ?? 5000,
    maxAsks: MAX_ASKS_A_DEVICE,
  };
  const silentAfterMs = limits.heartbeatMs * MISSED_HEARTBEATS;
  const silentAfterSweeps = Math.ceil(silentAfterMs / SWEEP_MS);
  const reports = new HttpReports(
    { store, writer, feed, log },
    { heartbeatMs: limits.heartbeatMs, countsForMs: silentAfterMs },
  );
  const refreshed = (devices: DeviceSummary[]) =>
    devices.map((device) => withLivePresence(device, registry, reports));
  const changedDevices = new ChangedDevices({
    store,
    feed: ownFeed,
    refreshed,
    log,
    ...(live === undefined || options.fleet === undefined
      ? {}
      : { live: { filters: live, store: options.fleet } }),
  });
  const notices = new Notices({
    registry,
    desk,
    feed,
    changedDevices,
    live,
    credentials: options.credentials,
    bus: options.bus,
    tellHolder: (notice) => router.notify(notice),
    onUntold: () => meters.untold.inc(),
    onTold: options.onTold,
    onMissed: () => {
      void overlooked.look();
      ownFeed.resync();
    },
  });
  const meters = hubMetrics(metrics, {
    registry,
    feed: ownFeed,
    live,
    writer,
    reports,
    desk,
    router,
    sockets: () => io.engine.clientsCount,
  });
  const dashboardAccess = new DashboardAccess({
    log,
    isInTouch: options.isInTouch ?? (() => true),
    recheckMs: options.dashboardRecheckMs,
  });
  const accessChanges = new AccessChanges({
    registry,
    credentials: options.credentials,
    dashboards: dashboardAccess,
    live,
    log,
  });
  const admission = new Admission(options.admission ?? ADMISSION);
  const capabilities = new SharedLists();
  let draining = false;

  const events: ActorEvents = {
    presence(record) {
      const { presence, lastSeenAt, metrics: measured } = record;
      // A connection is worth more than reports without one, and ends them.
      if (presence.state === 'connected') reports.end(record.deviceId);
      writer.presence(record);
      if (!feed.isHeard) return ownFeed.unwatched(record.deviceId, record);
      const patch = {
        presence,
        isReporting: reports.lastSeenAt(record.deviceId) !== undefined,
        lastSeenAt,
        // As they are now: the actor goes on to change its own.
        ...(measured === null ? {} : { metrics: { ...measured } }),
      };
      feed.changed(record.deviceId, patch, record.epoch);
    },
    facts: (facts) => writer.facts(facts),
    ready: (actor) => desk.wake(actor.deviceId),
    command: (event, kept) => desk.record(event, kept),
    rows(deviceId, { id, seq, rows }) {
      const output = JobOutput.safeParse({ id, seq, rows });
      if (output.success && rows.length > 0) jobs.output(deviceId, output.data);
    },
    gone(actor) {
      registry.remove(actor);
      directory
        .release(actor.deviceId, actor.epoch)
        .catch((error: unknown) => log.warn({ err: error }, 'hub.release_failed'));
    },
    failed: (error, actor) => log.error({ err: error, deviceId: actor.deviceId }, 'hub.actor_failed'),
  };

  const lostDevices = new LostDevices({ store, registry, feed, bus, nodes: options.nodes, log });

  const claim = async (actor: DeviceActor) => {
    const { epoch, previous } = await directory.claim(actor.deviceId, bus.nodeId);
    if (previous !== undefined && previous.nodeId !== bus.nodeId) {
      // That node need not know at once: it learns of the newer claim from the directory when it is back.
      bus
        .send(previous.nodeId, { kind: 'superseded', deviceId: actor.deviceId, epoch })
        .catch((error: unknown) => log.warn({ err: error, deviceId: actor.deviceId }, 'hub.holder_not_told'));
    }
    if (actor.state !== 'gone') return actor.claimed(epoch);
    // A connection that ended meanwhile has nobody to give its claim up for it. A newer one speaks for the device.
    if (registry.get(actor.deviceId) === undefined) actor.claimed(epoch);
    await directory.release(actor.deviceId, epoch);
  };

  const ask: Ask = async (deviceId, question) => {
    const startedAt = performance.now();
    const outcome = await router.ask(deviceId, question);
    const ended = outcome.ok ? 'answered' : outcome.reason;
    meters.asks.inc({ type: question.type, outcome: ended });
    meters.askSeconds.observe({ type: question.type }, (performance.now() - startedAt) / 1000);
    return outcome;
  };

  const io = createSocketServer(options.httpServer);
  const door = new UpgradeDoor(options.httpServer, {
    closed: () => (draining ? { code: 'DRAINING', retryAfterMs: 5000 } : undefined),
    refusal: () => admission.refusal(),
    giveBack: () => admission.giveBack(),
    addresses: new AddressAdmission(options.admission?.address ?? FROM_ONE_ADDRESS),
    prefixOf: ({ socket, headers }) =>
      countedNetwork(clientAddress({ peer: socket.remoteAddress, headers }, options.proxyTrust)),
  });
  io.of(DASHBOARD_NAMESPACE).on('connection', ({ request }) => door.hasNotFailed(request));
  serveAgents(io, {
    credentials: options.credentials,
    log,
    door,
    proxyTrust: options.proxyTrust,
    onBadMessage: () => meters.badMessages.inc(),
    onExcess: () => meters.excessMessages.inc(),
    onUnread: () => meters.unreadAgents.inc(),
    connected({ identity, handshake, link, ip }) {
      const before = registry.get(identity.deviceId);
      const actor = new DeviceActor({
        identity,
        link,
        events,
        limits,
        agentVersion: handshake.agentVersion,
        capabilities: capabilities.shared(handshake.capabilities),
        ip,
        connectedSince: before?.countsAsConnected === true ? before.connectedSince : undefined,
        earlierEpoch: before?.presenceEpoch ?? 0,
        now: Date.now(),
      });
      registry.put(actor);
      before?.stop(SUPERSEDED, undefined);
      claim(actor).catch((error: unknown) => {
        log.warn({ err: error, deviceId: actor.deviceId }, 'hub.claim_failed');
        actor.stop({ afterMs: 5000, reason: 'actor_failed' }, 'socket_closed');
      });
      return actor;
    },
  });
  const jobRooms = serveDashboards(io, {
    people: options.people,
    proxyTrust: options.proxyTrust,
    store,
    feed: ownFeed,
    latest: (device) => withLivePresence(ownFeed.latest(device), registry, reports),
    live,
    ledger: options.ledger,
    ask,
    logReads: options.logReads,
    log,
    access: dashboardAccess,
    places: new DashboardPlaces(options.dashboardLimits),
    onCutOff: () => meters.cutOff.inc(),
    onRefused: () => meters.badDashboardMessages.inc(),
    ...(options.joinDashboards === undefined ? {} : { joinOthers: options.joinDashboards }),
    ...(options.dashboardPatienceMs === undefined ? {} : { patienceMs: options.dashboardPatienceMs }),
  });

  // One sweep for all devices instead of a timer each.
  let sweeps = 0;
  const sweep = setInterval(() => {
    sweeps += 1;
    const looksForUnread = sweeps % SWEEPS_BETWEEN_UNREAD === 0;
    lostDevices.markStrays();
    for (const actor of registry.values()) {
      if (actor.passQuietSweep() > silentAfterSweeps && actor.isConnected) actor.silent();
      if (looksForUnread) actor.endIfUnread();
    }
    reports.sweep();
  }, SWEEP_MS);

  return {
    ask,
    async heartbeat(agent, heartbeat, ip) {
      if (draining) throw new AppError('unavailable', 'The server is stopping.', { retryAfterMs: 5000 });
      const actor = registry.get(agent.deviceId);
      if (actor?.isConnected !== true) return reports.heartbeat(agent, heartbeat, ip);
      const answer = await new Promise<HeartbeatAck | ErrorAck>((resolve) => {
        if (!actor.tell({ kind: 'heartbeat', heartbeat, at: Date.now(), ack: resolve })) resolve(BUSY);
      });
      if (!answer.ok) throw new AppError('device_busy', answer.error.message, { retryAfterMs: 1000 });
      return answer;
    },
    deviceEntered(device, partnerId) {
      feed.entered(withLivePresence(device, registry, reports), partnerId);
      notices.cameIn(device.id);
      options.onTold?.devices([device.id]);
    },
    deviceChanged: (deviceId, patch) => feed.changed(deviceId, patch),
    deviceLeft(deviceId) {
      reports.end(deviceId);
      feed.left(deviceId);
      changedDevices.crossed(deviceId);
      options.onTold?.devices([deviceId]);
      router.notify({ kind: 'decommissioned', deviceId });
    },
    devicesChanged: (deviceIds) => notices.devicesChanged(deviceIds),
    devicesMoved: (deviceIds) => notices.devicesMoved(deviceIds),
    filterChanged: (filterId) => notices.filterChanged(filterId),
    customFieldChanged: (orgId, key) => notices.customFieldChanged(orgId, key),
    live(deviceId) {
      const actor = registry.get(deviceId);
      return actor === undefined
        ? undefined
        : { isThere: actor.isConnected, capabilities: actor.capabilities };
    },
    deliver: (deviceId) => router.notify({ kind: 'work', deviceId }),
    jobsChanged: (changed) => jobs.changed(changed),
    cancelCommand: (deviceId, commandId) => router.cancelCommand(deviceId, commandId),
    disconnect: (deviceId) => router.notify({ kind: 'disconnect', deviceId }),
    tellAgain() {
      for (const actor of registry.values()) actor.tellAgain();
      // Redis may have lost the greatest epoch, and others have claimed without it.
      store
        .greatestEpoch()
        .then((epoch) => directory.epochSeen(epoch))
        .catch((error: unknown) => log.warn({ err: error }, 'hub.epochs_not_read'));
      // Work for them that others could not tell us of; behind the moment in which they hear that we are back.
      setTimeout(() => {
        for (const { deviceId } of registry.values()) desk.wake(deviceId);
        notices.missed();
      }, RETURN_MS).unref();
    },
    accessChanged: (payloads) => accessChanges.changed(payloads),
    accessMayHaveChanged: () => accessChanges.unsure(),
    superseded: (deviceId, epoch) => registry.get(deviceId)?.superseded(epoch),
    get connected() {
      return registry.size;
    },
    async start() {
      // What this node held before it was started anew; of all others, one that is alone can say the same.
      await store.markLost(options.nodes === undefined ? { allBut: [] } : { of: bus.nodeId });
      // A clock that was ahead when an earlier claim was stored must not make that one newer than those to come.
      directory.epochSeen(await store.greatestEpoch());
      await reports.start();
    },
    async drain() {
      draining = true;
      const deadline = performance.now() + DRAIN_ASKS_MS;
      while (performance.now() < deadline && [...registry.values()].some((actor) => actor.openAsks > 0)) {
        await pause(50);
      }
      const spreadMs = 1000 + (registry.size / RETURNS_A_SECOND) * 1000;
      for (const actor of registry.values()) {
        actor.stop(
          { afterMs: Math.round(1000 + Math.random() * spreadMs), reason: 'draining' },
          'socket_closed',
        );
      }
      await pause(20);
    },
    async close() {
      draining = true;
      clearInterval(sweep);
      lostDevices.close();
      router.close();
      for (const actor of registry.values()) actor.stop(undefined, 'socket_closed');
      await overlooked.close();
      await desk.close();
      jobs.close();
      await io.close();
      notices.close();
      accessChanges.close();
      changedDevices.close();
      live?.close();
      feed.close();
      ownFeed.close();
      await reports.close();
      await writer.close();
      await bus.close();
    },
  };
}

const pause = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));
