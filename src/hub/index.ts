import { clock, type Timer } from '../clock.ts';
import { countedNetwork, clientAddress } from '../platform/http/client-address.ts';
import { ClusterEvents } from '../platform/cluster/cluster-events.ts';
import { InProcessCluster } from '../platform/cluster/node-bus.ts';
import { AppError } from '../platform/errors.ts';
import { omitUndefined } from '../platform/omit-undefined.ts';
import { type DeviceSummary, type ErrorAck, type HeartbeatAck, type Refusal } from '../protocol/index.ts';
import { AccessChanges, DashboardAccess } from './dashboard/dashboard-access.ts';
import { AgentConnections } from './agents/agent-connections.ts';
import { IdentityGuard } from './agents/identity-guard.ts';
import { ClusterInterest, OwnInterest } from './cluster/interest.ts';
import { InProcessDirectory } from './cluster/directory.ts';
import type { HubMessage } from './cluster/messages.ts';
import { Router } from './cluster/router.ts';
import { CommandDispatcher, UndeliveredWork } from './commands/command-dispatcher.ts';
import { DashboardQuotas } from './dashboard/dashboard-limits.ts';
import { BUSY, type ActorLimits } from './device/actor-messages.ts';
import { ActorRegistry, drainActors } from './device/actor-registry.ts';
import type { RunLiveQuery } from './device/live-query.ts';
import type { Hub, HubOptions } from './device-hub.ts';
import { ChangedDevices } from './feed/changed-devices.ts';
import { ClusterFeed, FEED } from './feed/cluster-feed.ts';
import { DashboardFeed, RecentChanges } from './feed/dashboard-feed.ts';
import { DeviceAnnouncements, DeviceEventHandlers } from './feed/device-event-handlers.ts';
import { LiveFilters } from './filters/live-filters.ts';
import { JobAudience, JobFeed, LongWorkFeed } from './commands/job-feed.ts';
import { hubCounters, registerHubGauges } from './hub-metrics.ts';
import { ActorReports } from './presence/actor-reports.ts';
import { HttpReports, withLivePresence, ReportingDevices } from './presence/http-reports.ts';
import { LostDevices } from './presence/lost-devices.ts';
import { startSilenceSweep } from './presence/silence-sweep.ts';
import { PresenceWriter } from './presence/presence-writer.ts';
import { NO_UPGRADE_OFFERS, type StoredDevice } from './ports.ts';
import { UpgradeReportWriter } from './agents/upgrade-report-writer.ts';
import { createSampleWriter } from './agents/sample-writer.ts';
import { createServiceWriter } from './agents/service-writer.ts';
import { AddressAdmission, type AddressLimits, Admission, type AdmissionLimits } from './wire/admission.ts';
import { serveSockets } from './sockets.ts';

export { ACCESS_CHANNEL } from './dashboard/dashboard-access.ts';
export {
  liveQueryError,
  remainingQueryMs,
  withinQueryTimeout,
  type LiveQuery,
  type LiveQueryFailure,
  type LiveQueryOutcome,
} from './device/live-query.ts';
export type { DeviceHub, Hub, HubOptions } from './device-hub.ts';
export type { FleetDevice, FleetStore, LogRead, LogReads } from './ports.ts';
export { type Cluster, joinCluster } from './cluster/redis-cluster.ts';
export type { DevicePatch } from './subscriptions/device-change.ts';

const MAX_QUERIES_PER_DEVICE = 8;
/** The rate at which one process can accept agents while it goes on serving people. */
const ADMISSION: AdmissionLimits = { perSecond: 500, burst: 200 };
const ADMISSION_PER_ADDRESS: AddressLimits = { atOnce: 1000, failuresPerSecond: 10 };
/** Within this time, all nodes have published their claims again. */
const COMPARE_MS = 10_000;
/** By then no change that an earlier run of this node has sent lies over what others read. */
const AFTER_START_MS = 5000;
/** How often the rate is adapted to the database. */
const PACE_MS = 1000;
/** A device counts as silent after so many heartbeats that did not come. */
const MISSED_HEARTBEATS = 2.5;
/** Within this time, the other nodes have noticed that this one is back. */
const RETURN_MS = 1500;

const identityConflict = ({ retryAfterMs }: Refusal) =>
  new AppError(
    'identity_conflict',
    'Another running agent uses the identity of this device.',
    retryAfterMs === undefined ? {} : { retryAfterMs },
  );

/** Builds all parts of the hub, each from parts that exist already. */
export function createHub(options: HubOptions): Hub {
  const { log, metrics, store, ledger, credentials } = options;
  const bus = options.bus ?? new InProcessCluster<HubMessage>().join(options.nodeId);
  const directory = options.directory ?? new InProcessDirectory();
  const registry = new ActorRegistry();
  const counters = hubCounters(metrics);
  const heartbeatMs = options.heartbeatSeconds * 1000;
  const silentAfterMs = heartbeatMs * MISSED_HEARTBEATS;

  // Other nodes.
  const events = new ClusterEvents(
    // A single process has no other nodes.
    options.bus === undefined ? undefined : bus,
    () => counters.undelivered.inc(),
  );
  const ownInterest = { devices: new OwnInterest(), jobs: new OwnInterest() };
  const interest =
    options.bus === undefined
      ? undefined
      : new ClusterInterest({ bus, events, nodes: options.nodes, own: ownInterest });

  // Commands.
  const jobAudience = new JobAudience(ownInterest.jobs);
  const jobs = new JobFeed(jobAudience, events, interest);
  const longWork =
    options.longWork === undefined
      ? undefined
      : new LongWorkFeed({ work: options.longWork, audience: jobAudience, log });
  const dispatcher = new CommandDispatcher({
    ledger,
    registry,
    changed: (changed) => jobs.changed(changed),
    onRefused: (count) => metrics.refusedRecords.inc({ records: 'commands' }, count),
    log,
  });
  const undeliveredWork = new UndeliveredWork({
    ledger,
    registry,
    wake: (deviceId) => dispatcher.wake(deviceId),
    log,
    everyMs: options.undeliveredWorkMs,
  });

  const router = new Router({
    registry,
    directory,
    bus,
    log,
    onWork: (deviceId) => dispatcher.wake(deviceId),
    onTakenOver: (deviceId, epoch) => lostDevices.takenOver(deviceId, epoch),
  });
  const guard = new IdentityGuard({
    registry,
    directory,
    bus,
    record: (conflict) => store.recordConflict(conflict),
    log,
  });
  bus.onMessage((from, message) => {
    if (!events.receive(message, from) && !guard.receive(from, message) && !router.receive(from, message)) {
      log.warn({ from }, 'hub.bus_message_refused');
    }
  });
  // A lost node may have accepted commands for our devices without notifying us.
  bus.onNodeLost(() => void undeliveredWork.scan());
  const announcements = new DeviceAnnouncements({
    events,
    interest,
    disconnect: (deviceId) => router.notifyOwner({ kind: 'disconnect', deviceId }),
    onChanged: options.onDevicesChanged,
  });

  // Presence and the dashboards that show it.
  const writer = new PresenceWriter(store, log, {
    onChanged: (deviceIds) => announcements.changed(deviceIds),
    onRefused: (count) => metrics.refusedRecords.inc({ records: 'presence' }, count),
    // While presence could not be written, every node may have read outdated presence.
    onRecovered: () => announcements.missed(),
    onPostponed: (deviceIds) => {
      for (const deviceId of deviceIds) {
        registry.get(deviceId)?.forgetHostname();
        const known = reporting.get(deviceId)?.known;
        if (known !== undefined) known.facts.hostname = undefined;
      }
    },
    onLate: (disconnected) => {
      for (const { deviceId, presence, epoch } of disconnected) {
        feed.changed(deviceId, { presence }, { epoch });
      }
    },
  });
  const offers = options.upgrades?.offers ?? NO_UPGRADE_OFFERS;
  const upgrades =
    options.upgrades === undefined
      ? undefined
      : new UpgradeReportWriter({
          history: options.upgrades.history,
          log,
          onChanged: (deviceIds) => announcements.changed(deviceIds),
          onRefused: (count) => metrics.refusedRecords.inc({ records: 'upgrades' }, count),
        });
  const samples = createSampleWriter({
    history: options.metricHistory,
    log,
    onRefused: (count) => metrics.refusedRecords.inc({ records: 'metric samples' }, count),
  });
  const services = createServiceWriter({
    store: options.deviceServices,
    log,
    onRefused: (count) => metrics.refusedRecords.inc({ records: 'services' }, count),
  });
  const reporting = new ReportingDevices();
  offers.onDeviceChanged((deviceId) => {
    registry.get(deviceId)?.forgetOffer();
    reporting.get(deviceId)?.known?.offer.forget();
  });
  const recent = new RecentChanges();
  const livePresence = (device: DeviceSummary) => withLivePresence(device, registry, reporting);
  /** The latest state of a device that was just read from the database. */
  const latest = (stored: StoredDevice) => {
    feed.stored(stored);
    return livePresence(recent.over(stored.device));
  };
  const live =
    options.fleet === undefined
      ? undefined
      : new LiveFilters({
          store: options.fleet,
          refreshed: latest,
          log,
          ...options.liveFilters,
        });
  const ownFeed = new DashboardFeed(live, recent, ownInterest.devices);
  const feed = new ClusterFeed(
    ownFeed,
    interest === undefined
      ? undefined
      : // Dashboards of other nodes that miss this subscribe again or see the next change.
        { interest, send: (recipients, changes) => events.sendTo(recipients, FEED, { events: changes }) },
  );
  const reports = new HttpReports(
    { devices: reporting, store, writer, feed, offers, log },
    { heartbeatMs, countsForMs: silentAfterMs },
  );
  const changedDevices = new ChangedDevices({
    store,
    feed: ownFeed,
    latest,
    log,
    ...(live === undefined || options.fleet === undefined
      ? {}
      : { live: { filters: live, store: options.fleet } }),
  });
  const eventHandlers = new DeviceEventHandlers({
    events,
    registry,
    feed,
    changedDevices,
    live,
    credentials,
    onMissed: () => {
      void undeliveredWork.scan();
      ownFeed.resync();
    },
  });
  bus.onNodeLost(() => eventHandlers.resyncLater());
  const lostDevices = new LostDevices({ store, registry, feed, bus, nodes: options.nodes, log });

  // Connections.
  const dashboardAccess = new DashboardAccess({
    log,
    isInTouch: options.isInTouch ?? (() => true),
    recheckMs: options.dashboardRecheckMs,
  });
  const accessChanges = new AccessChanges({ registry, credentials, dashboards: dashboardAccess, live, log });
  const limits: ActorLimits = {
    heartbeatMs,
    graceMs: options.graceMs ?? 5000,
    maxQueries: MAX_QUERIES_PER_DEVICE,
  };
  const actorReports = new ActorReports({
    registry,
    directory,
    writer,
    reporting,
    feed,
    dispatcher,
    upgrades,
    samples,
    services,
    jobs,
    guard,
    log,
  });
  const connections = new AgentConnections({
    registry,
    directory,
    store,
    bus,
    events: actorReports,
    limits,
    offers,
    log,
  });
  const admission = new Admission(options.admission ?? ADMISSION);
  const pace = clock.setInterval(() => admission.follow(writer.lateMs), PACE_MS).unref();
  let isDraining = false;
  let comparing: Timer | undefined;
  const query: RunLiveQuery = async (deviceId, liveQuery) => {
    const startedAt = clock.monotonic();
    const outcome = await router.query(deviceId, liveQuery);
    const ended = outcome.ok ? 'answered' : outcome.reason;
    counters.queries.inc({ type: liveQuery.type, outcome: ended });
    counters.querySeconds.observe({ type: liveQuery.type }, (clock.monotonic() - startedAt) / 1000);
    return outcome;
  };
  const sockets = (options.serve ?? serveSockets)(options.httpServer, {
    agents: {
      credentials,
      guard,
      log,
      metrics,
      wirePath: options.agentWire ?? 'direct',
      proxyTrust: options.proxyTrust,
      onBadMessage: () => counters.badMessages.inc(),
      onExcess: () => counters.excessMessages.inc(),
      onUnread: () => counters.unreadAgents.inc(),
      connected: (connection) => connections.connected(connection),
    },
    admission: {
      closed: () => (isDraining ? { code: 'DRAINING', retryAfterMs: 5000 } : undefined),
      refusal: () => admission.refusal(),
      refund: () => admission.refund(),
      addresses: new AddressAdmission(options.admission?.address ?? ADMISSION_PER_ADDRESS),
      prefixOf: ({ socket, headers }) =>
        countedNetwork(clientAddress({ peer: socket.remoteAddress, headers }, options.proxyTrust)),
    },
    dashboards: {
      people: options.people,
      proxyTrust: options.proxyTrust,
      store,
      feed: ownFeed,
      latest,
      live,
      ledger,
      work: options.longWork,
      jobAudience,
      query,
      logReads: options.logReads,
      terminals: options.terminals,
      reach: options.reach,
      log,
      access: dashboardAccess,
      quotas: new DashboardQuotas(options.dashboardLimits),
      onCutOff: () => counters.cutOff.inc(),
      onRefused: () => counters.badDashboardMessages.inc(),
      ...(options.dashboardPatienceMs === undefined ? {} : { patienceMs: options.dashboardPatienceMs }),
    },
  });
  registerHubGauges(metrics, {
    registry,
    feed: ownFeed,
    live,
    writer,
    reporting,
    dispatcher,
    router,
    admission,
    sockets: () => sockets.clients,
  });
  const stopSweep = startSilenceSweep({ registry, reports, lostDevices, silentAfterMs });

  const left = (deviceId: string) => {
    reports.end(deviceId);
    feed.left(deviceId);
    announcements.note(deviceId);
    changedDevices.recheckIfReading(deviceId);
    options.onDevicesChanged?.([deviceId]);
  };

  const correctRecordsSoon = () => {
    clock.clear(comparing);
    comparing = clock
      .setTimeout(() => {
        connections.correctRecords().catch((error: unknown) => {
          log.warn({ err: error }, 'hub.records_not_compared');
          if (!isDraining) correctRecordsSoon();
        });
      }, COMPARE_MS)
      .unref();
  };

  return {
    query,
    events,
    async heartbeat(agent, heartbeat, ip) {
      if (isDraining) throw new AppError('unavailable', 'The server is stopping.', { retryAfterMs: 5000 });
      const actor = registry.get(agent.deviceId);
      if (heartbeat.bootId !== undefined) {
        const { bootId, hostname } = heartbeat;
        const refusal = await guard.refusal(agent, { bootId, ip, ...omitUndefined({ hostname }) });
        if (refusal !== undefined) throw identityConflict(refusal);
      }
      if (actor?.isConnected !== true) return reports.heartbeat(agent, heartbeat, ip);
      const answer = await new Promise<HeartbeatAck | ErrorAck>((resolve) => {
        if (!actor.post({ kind: 'heartbeat', heartbeat, at: clock.now(), ack: resolve })) resolve(BUSY);
      });
      if (!answer.ok) throw new AppError('device_busy', answer.error.message, { retryAfterMs: 1000 });
      return answer;
    },
    async upgradeReported(report) {
      const isStored = await new Promise<boolean>((resolve) => {
        if (upgrades === undefined) resolve(true);
        else upgrades.record(report, resolve);
      });
      if (!isStored) throw new AppError('unavailable', 'The report was not stored.', { retryAfterMs: 5000 });
    },
    deviceEntered(device, partnerId) {
      feed.entered(livePresence(device), partnerId);
      announcements.note(device.id, { orgId: device.orgId, partnerId });
      eventHandlers.deviceEntered(device.id);
      options.onDevicesChanged?.([device.id]);
    },
    deviceChanged: (deviceId, patch) => feed.changed(deviceId, patch),
    deviceLeft(deviceId) {
      left(deviceId);
      router.notify({ kind: 'decommissioned', deviceId });
    },
    deviceReplaced(deviceId) {
      left(deviceId);
      router.notify({ kind: 'disconnect', deviceId });
    },
    provenHolder: (deviceId) => guard.provenHolder(deviceId),
    devicesChanged: (deviceIds) => announcements.changed(deviceIds),
    devicesMoved: (deviceIds) => announcements.moved(deviceIds),
    averagesChanged: () => live?.averagesChanged(),
    rulesChanged: (change) => live?.rulesChanged(change),
    live(deviceId) {
      const actor = registry.get(deviceId);
      if (actor === undefined) return undefined;
      return {
        isConnected: actor.isConnected,
        capabilities: actor.capabilities,
        ...actor.versions,
      };
    },
    deliver: (deviceId) => router.notify({ kind: 'work', deviceId }),
    jobsChanged: (changed) => jobs.changed(changed),
    cancelCommand: (deviceId, id) => router.notify({ kind: 'cancel_command', deviceId, id }),
    disconnect: (deviceId) => router.notify({ kind: 'disconnect', deviceId }),
    republish() {
      interest?.returned();
      eventHandlers.resyncLater();
      for (const actor of registry.values()) actor.republish();
      // Redis may have lost the greatest epoch, and other nodes may have claimed devices without it.
      store
        .greatestEpoch()
        .then((epoch) => directory.epochSeen(epoch))
        .catch((error: unknown) => log.warn({ err: error }, 'hub.epochs_not_read'));
      // Other nodes could not notify us of commands. Those created from now on are announced as usual.
      clock
        .setTimeout(() => {
          for (const { deviceId } of registry.values()) dispatcher.wake(deviceId);
          announcements.missed();
        }, RETURN_MS)
        .unref();
      correctRecordsSoon();
    },
    longWorkChanged: (payloads) => longWork?.notified(payloads),
    longWorkMayHaveChanged: () => longWork?.mayHaveMissed(),
    watchRights: (watched) => dashboardAccess.admit({ ...watched, onDevicesChanged: () => undefined }),
    accessChanged: (payloads) => accessChanges.changed(payloads),
    accessMayHaveChanged: () => accessChanges.recheckAll(),
    superseded: (deviceId, epoch) => registry.get(deviceId)?.superseded(epoch),
    claimTied: (deviceId) => connections.renew(deviceId),
    get connected() {
      return registry.size;
    },
    async start() {
      // Marks what an earlier run of this node left behind. A node that is alone can speak for all nodes.
      const lost = await store.markLost(options.nodes === undefined ? { allBut: [] } : { of: bus.nodeId });
      // If this node was away for a moment only, the others have not lost it, and their dashboards still show the devices.
      for (const { deviceId, presence, epoch } of lost) {
        feed.changed(deviceId, { presence }, { epoch, isForAll: true });
      }
      // What it had shown and not written is in no record, and no other node may have noticed its end.
      if (options.nodes !== undefined) {
        clock.setTimeout(() => announcements.missed(), AFTER_START_MS).unref();
      }
      // If the clock was ahead when an earlier claim was stored, that claim must not be newer than those to come.
      directory.epochSeen(await store.greatestEpoch());
      await reports.start();
      interest?.start();
    },
    async drain() {
      isDraining = true;
      await drainActors(registry);
    },
    async settle() {
      // Messages that were posted to actors and the bus.
      await new Promise((resolve) => setImmediate(resolve));
      await accessChanges.settle();
      await guard.settle();
      await undeliveredWork.scan();
      await dispatcher.settle();
      await upgrades?.settle();
      await samples.settle();
      await services.settle();
      await writer.settle();
      await reports.settle();
      await longWork?.settle();
      jobs.settle();
      await changedDevices.settle();
      feed.settle();
      await live?.settle();
      ownFeed.settle();
    },
    async close() {
      isDraining = true;
      stopSweep();
      clock.clear(pace);
      clock.clear(comparing);
      interest?.close();
      lostDevices.close();
      router.close();
      for (const actor of registry.values()) actor.stop(undefined, 'socket_closed');
      await undeliveredWork.close();
      await dispatcher.close();
      await upgrades?.close();
      await samples.close();
      await services.close();
      jobs.close();
      await longWork?.close();
      await sockets.close();
      eventHandlers.close();
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
