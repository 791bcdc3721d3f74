import type {
  DevicesSubscribe,
  EventLogsQuery,
  EventLogsTail,
  JobsSubscribe,
  JobUpdate,
} from '../../../../src/protocol/index.ts';
import { HubConnection, type LiveOptions } from './connection.ts';
import type { DevicesNow } from './device-view.ts';
import { watchDevices } from './devices.ts';
import { type EventLogItem, readEventLogs } from './event-logs.ts';
import { followJob, type JobNews, watchJobs } from './jobs.ts';

interface Reading {
  signal?: AbortSignal | undefined;
}

/**
 * What the server sends by itself. Each reading begins when its first item is taken, and ends when the program leaves its
 * loop or aborts.
 */
export interface Live {
  /** The devices that match, whenever they have changed. */
  devices(filter?: DevicesSubscribe, options?: Reading): AsyncGenerator<DevicesNow, void>;
  /** Reads the event logs of many devices while they are asked. */
  queryEventLogs(query: EventLogsQuery, options?: Reading): AsyncGenerator<EventLogItem, void>;
  /** Follows the new entries of one log, for an hour at most. */
  followEventLog(tail: EventLogsTail, options?: Reading): AsyncGenerator<EventLogItem, void>;
  /** Commands, backups and other long work. */
  jobs(filter?: JobsSubscribe, options?: Reading): AsyncGenerator<JobUpdate, void>;
  /** One job with its output, until it ends. */
  followJob(jobId: string, options?: Reading): AsyncGenerator<JobNews, void>;
  /** Ends all readings, and with them what they have begun on devices. */
  close(): void;
}

/** Connects to the server. Throws a `MusterError` where it is not reached or refuses the token. */
export async function connectLive(options: LiveOptions): Promise<Live> {
  const hub = new HubConnection(options);
  await hub.connected(options.connectMs, options.signal);
  return {
    devices: (filter = {}, { signal } = {}) => watchDevices(hub, filter, signal),
    queryEventLogs: (message, { signal } = {}) =>
      readEventLogs(hub, { event: 'eventlogs:query', message }, signal),
    followEventLog: (message, { signal } = {}) =>
      readEventLogs(hub, { event: 'eventlogs:tail', message }, signal),
    jobs: (filter = {}, { signal } = {}) => watchJobs(hub, filter, signal),
    followJob: (jobId, { signal } = {}) => followJob(hub, jobId, signal),
    close: () => hub.close(),
  };
}
