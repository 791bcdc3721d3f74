import type { Metrics } from '../platform/metrics.ts';
import type { Admission } from './wire/admission.ts';
import type { Router } from './cluster/router.ts';
import type { CommandDispatcher } from './commands/command-dispatcher.ts';
import type { ActorRegistry } from './device/actor-registry.ts';
import type { DashboardFeed } from './feed/dashboard-feed.ts';
import type { LiveFilters } from './filters/live-filters.ts';
import type { PresenceWriter } from './presence/presence-writer.ts';
import type { ReportingDevices } from './presence/http-reports.ts';

export function hubCounters(metrics: Metrics) {
  return {
    queries: metrics.counter('muster_live_queries_total', 'Live queries to devices, by how they ended.', [
      'type',
      'outcome',
    ]),
    querySeconds: metrics.histogram(
      'muster_live_query_seconds',
      'Time until a live query ended.',
      ['type'],
      [0.01, 0.05, 0.1, 0.5, 1, 5, 15, 30],
    ),
    undelivered: metrics.counter(
      'muster_feed_batches_untold_total',
      'Batches of device changes that could not be sent to the other nodes.',
      [],
    ),
    cutOff: metrics.counter(
      'muster_dashboards_cut_off_total',
      'Connections of dashboards that were ended because the client did not read what it was sent.',
      [],
    ),
    excessMessages: metrics.counter(
      'muster_excess_agent_messages_total',
      'Messages from agents that were refused because the agent sent too many.',
      [],
    ),
    unreadAgents: metrics.counter(
      'muster_agents_cut_off_total',
      'Connections of agents that were ended because the agent did not read what it was sent.',
      [],
    ),
    badMessages: metrics.counter(
      'muster_bad_agent_messages_total',
      'Messages from agents that were refused because they were invalid.',
      [],
    ),
    badDashboardMessages: metrics.counter(
      'muster_bad_dashboard_messages_total',
      'Messages from dashboards that were refused because they were invalid or too many.',
      [],
    ),
  };
}

export function registerHubGauges(
  metrics: Metrics,
  parts: {
    registry: ActorRegistry;
    feed: DashboardFeed;
    live: LiveFilters | undefined;
    writer: PresenceWriter;
    reporting: ReportingDevices;
    dispatcher: CommandDispatcher;
    router: Router;
    admission: Admission;
    sockets: () => number;
  },
): void {
  const { registry, feed, live, writer, reporting, dispatcher, router, admission, sockets } = parts;
  metrics.gauge('muster_connected_agents', 'Agents connected to this node.', () => registry.size);
  metrics.gauge('muster_reporting_agents', 'Agents that report over HTTP.', () => reporting.size);
  metrics.gauge('muster_mailbox_depth', 'Messages waiting in the mailboxes of all devices.', () => {
    let depth = 0;
    for (const actor of registry.values()) depth += actor.depth;
    return depth;
  });
  metrics.gauge(
    'muster_admission_per_second',
    'Agents that this node accepts per second at most. It falls while the database does not keep up.',
    () => admission.perSecond,
  );
  metrics.gauge('muster_sockets', 'Open sockets of agents and of dashboards.', sockets);
  metrics.labelledGauge(
    'muster_open_questions',
    'Unanswered live queries: to devices of this node, and from this node to devices of other nodes.',
    'asked',
    () => {
      let here = 0;
      for (const actor of registry.values()) here += actor.openQueries;
      return { here, elsewhere: router.remoteQueries };
    },
  );
  metrics.gauge('muster_dashboard_subscriptions', 'Open live device lists.', () => feed.size);
  metrics.gauge(
    'muster_live_filters',
    'Live device lists that are selected by conditions.',
    () => live?.size ?? 0,
  );
  metrics.gauge(
    'muster_live_filter_devices',
    'Devices kept in memory for live filters.',
    () => live?.view.size ?? 0,
  );
  metrics.gauge(
    'muster_presence_unwritten',
    'Devices whose latest state is not in the database yet.',
    () => writer.pending,
  );
  metrics.gauge(
    'muster_command_events_unwritten',
    'Events of commands that are not in the ledger yet.',
    () => dispatcher.unwritten,
  );
}
