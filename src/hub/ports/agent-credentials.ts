import type { Architecture, OsType, RefusalCode } from '../../protocol/index.ts';

/** What is recorded of a device and decides about its upgrades. */
export interface UpgradableMachine {
  readonly osType: OsType;
  readonly architecture: Architecture;
  readonly autoUpdate: boolean;
  /** Whether its agent installs releases by itself. */
  readonly canUpgrade: boolean;
}

/** A device, as identified by its credential. */
export interface AgentIdentity {
  deviceId: string;
  orgId: string;
  siteId: string;
  partnerId: string;
  machine: UpgradableMachine;
  /** Set for a device that waits for approval: it may connect and send heartbeats, and is given nothing. */
  isPending?: true;
  /** The id that the agent uses for itself, where its device was replaced by another record. */
  enrolledAs?: string;
}

export interface RefusedVerdict {
  ok: false;
  code: Extract<RefusalCode, 'UNAUTHENTICATED' | 'DECOMMISSIONED' | 'TENANT_INACTIVE'>;
}
export interface GoodVerdict {
  ok: true;
  identity: AgentIdentity;
  /** Set when this was the first use of a new token, which revokes the previous one. */
  isFirstUse?: true;
}
export type Verdict = GoodVerdict | RefusedVerdict;

export interface AgentCredentials {
  /** Verifies a token. Answers come from a bounded cache where possible. */
  verify(token: string): Promise<Verdict>;
  /** Drops the cached verdicts of these devices, or all of them. */
  forget(deviceIds: readonly string[] | 'all'): void;
  /** Returns those of the devices that may no longer be connected, each with the reason. */
  lapsed(deviceIds: readonly string[]): Promise<{ deviceId: string; code: RefusedVerdict['code'] }[]>;
}
