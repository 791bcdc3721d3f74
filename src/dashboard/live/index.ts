export { useLiveDevices, type LiveDevices } from './devices.ts';
export { queryEventLogs } from './event-logs.ts';
export { LiveTerminal, type TerminalStanding } from './terminal.ts';
export { useJobStandings, useLiveJobs, useLiveWork, type JobStanding } from './jobs.ts';
export { isFinal } from './known-jobs.ts';
export {
  useConnection,
  useHubConnection,
  useHubSoon,
  useReturnOfConnection,
  type ConnectionState,
} from './socket.ts';
