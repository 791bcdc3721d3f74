/** One place of the product that is changed, so that it is wrong. */
interface Change {
  file: string;
  find: string;
  put: string;
}

export interface PlantedFault {
  name: string;
  /** The number in the list of faults that were once found in real clusters. */
  was?: string;
  changes: readonly Change[];
}

export const ACTOR = 'src/hub/device/device-actor.ts';
export const MAILBOX = 'src/hub/device/mailbox.ts';
export const REGISTRY = 'src/hub/device/actor-registry.ts';
export const QUERIES = 'src/hub/device/pending-queries.ts';
export const ROUTER = 'src/hub/cluster/router.ts';
export const DISPATCHER = 'src/hub/commands/command-dispatcher.ts';
export const WRITER = 'src/hub/presence/presence-writer.ts';
export const LOST = 'src/hub/presence/lost-devices.ts';
export const REPORTS = 'src/hub/presence/actor-reports.ts';
export const SWEEP = 'src/hub/presence/silence-sweep.ts';
export const CONNECTIONS = 'src/hub/agents/agent-connections.ts';
export const GUARD = 'src/hub/agents/identity-guard.ts';
export const CLAIMS = 'src/platform/cluster/redis-claims.ts';
export const BUS = 'src/platform/cluster/redis-bus.ts';
export const JOIN = 'src/hub/cluster/redis-cluster.ts';
export const FEED = 'src/hub/feed/cluster-feed.ts';
export const HANDLERS = 'src/hub/feed/device-event-handlers.ts';
export const ADMISSION = 'src/hub/wire/admission.ts';
export const MESSAGES = 'src/hub/device/actor-messages.ts';
export const HUB = 'src/hub/index.ts';

export const fault = (name: string, file: string, find: string, put: string): PlantedFault => ({
  name,
  changes: [{ file, find, put }],
});
