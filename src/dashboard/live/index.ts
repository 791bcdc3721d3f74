export type { ConnectionState } from './socket.ts';
export { useConnection, useHubConnection, useHubSoon, useReturnOfConnection } from './connection.ts';
export { useLiveDevices, type LiveDevices } from './devices.ts';
export { queryEventLogs } from './event-logs.ts';
export { useJobStandings, useLiveJobs, type JobStanding } from './jobs.ts';
export { isFinal } from './known-jobs.ts';
