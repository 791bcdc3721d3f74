/** The interfaces through which the hub uses the features above it. */
export type { AgentCredentials, RefusedVerdict, Verdict } from './ports/agent-credentials.ts';
export type {
  CommandEnd,
  CommandEvent,
  CommandLedger,
  DispatchedCommand,
  JobChange,
} from './ports/command-ledger.ts';
export type { DeviceStore } from './ports/device-store.ts';
export type { AddressHistory, PresenceRecord, ReportRecord } from './ports/presence-records.ts';
