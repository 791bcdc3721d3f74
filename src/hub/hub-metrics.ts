import type { Metrics } from '../platform/metrics.ts';
import type { ActorRegistry } from './device/actor-registry.ts';
import type { CommandDesk } from './commands/command-dispatcher.ts';
import type { DashboardFeed } from './feed/dashboard-feed.ts';
import type { HttpReports } from './presence/http-reports.ts';
import type { LiveFilters } from './filters/live-filters.ts';
import type { PresenceWriter } from './presence/presence-writer.ts';
import type { Router } from './cluster/router.ts';

export function hubMetrics(
  metrics: Metrics,
  parts: {
    registry: ActorRegistry;
    feed: DashboardFeed;
    live: LiveFilters | undefined;
    writer: PresenceWriter;
    reports: HttpReports;
    desk: CommandDesk;
    router: Router;
    sockets: () => number;
  },
) {
  const { registry, feed, live, writer, reports, desk, router, sockets } = parts;
  metrics.gauge('muster_connected_agents', 'Agents connected to this node.', () => registry.size);
  metrics.gauge('muster_reporting_agents', 'Agents that report over HTTP.', () => reports.size);
  metrics.gauge('muster_mailbox_depth', 'Messages waiting in the mailboxes of all devices.', () => {
    let depth = 0;
    for (const actor of registry.values()) depth += actor.depth;
    return depth;
  });
  metrics.gauge('muster_sockets', 'Open sockets of agents and of dashboards.', sockets);
  metrics.labelledGauge(
    'muster_open_questions',
    'Live questions without an answer yet: that devices here have been asked, and that other nodes have.',
    'asked',
    () => {
      let here = 0;
      for (const actor of registry.values()) here += actor.openAsks;
      return { here, elsewhere: router.waiting };
    },
  );
  metrics.gauge('muster_dashboard_subscriptions', 'Live device lists being watched.', () => feed.size);
  metrics.gauge('muster_live_filters', 'Live device lists that follow conditions.', () => live?.size ?? 0);
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
    'What devices said of their work that is not in the ledger yet.',
    () => desk.unwritten,
  );
  return {
    asks: metrics.counter('muster_live_queries_total', 'Live questions to devices, by how they ended.', [
      'type',
      'outcome',
    ]),
    askSeconds: metrics.histogram(
      'muster_live_query_seconds',
      'Time until a live question ended.',
      ['type'],
      [0.01, 0.05, 0.1, 0.5, 1, 5, 15, 30],
    ),
    untold: metrics.counter(
      'muster_feed_batches_untold_total',
      'Batches of device changes that other nodes could not be told.',
      [],
    ),
    cutOff: metrics.counter(
      'muster_dashboards_cut_off_total',
      'Connections of dashboards that were ended because they did not read what they were sent.',
      [],
    ),
    excessMessages: metrics.counter(
      'muster_excess_agent_messages_total',
      'Messages from agents that were refused because their agent sends too many.',
      [],
    ),
    unreadAgents: metrics.counter(
      'muster_agents_cut_off_total',
      'Connections of agents that were ended because they did not read what they were sent.',
      [],
    ),
    badMessages: metrics.counter(
      'muster_bad_agent_messages_total',
      'Messages from agents that were refused.',
      [],
    ),
    badDashboardMessages: metrics.counter(
      'muster_bad_dashboard_messages_total',
      'Messages from dashboards that were refused, because they could not be read or came too fast.',
      [],
    ),
  };
}
