/** The interfaces through which the hub uses the features above it. */
export type {
  AgentCredentials,
  RefusedVerdict,
  UpgradableMachine,
  Verdict,
} from './ports/agent-credentials.ts';
export type {
  CommandEnd,
  CommandEvent,
  CommandLedger,
  DispatchedCommand,
} from './ports/command-ledger.ts';
export type { JobChange, LongWork } from './ports/long-work.ts';
export type { DeviceStore } from './ports/device-store.ts';
export type { Claimant, IdentityConflict } from './ports/identity-conflicts.ts';
export type { AddressHistory, DeviceFacts, PresenceRecord, ReportRecord } from './ports/presence-records.ts';
export type {
  Offer,
  OfferQuestion,
  UpgradeHistory,
  UpgradeOffers,
  UpgradeReport,
} from './ports/upgrades.ts';
