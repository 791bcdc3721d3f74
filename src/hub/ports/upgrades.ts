import type { UpdateStatus, UpgradableComponent, Upgrade } from '../../protocol/index.ts';
import type { AgentIdentity } from './agent-credentials.ts';

/** What decides about the upgrades of a device, as far as the hub knows it. */
export interface OfferQuestion {
  identity: AgentIdentity;
  /** As the agent listed them in its handshake; undefined over HTTP, where the recorded ones count. */
  capabilities: readonly string[] | undefined;
  agentVersion: string;
  watchdogVersion: string | undefined;
  /** As the agent reports it; undefined where it does not. */
  autoUpdate: boolean | undefined;
}

/** An answer that counts while the revision is the same, until a time in milliseconds, for a device whose facts are the same. */
export interface Offer {
  readonly upgrade: Upgrade[];
  readonly revision: number;
  readonly until: number;
}

/** Says what devices should install. Every answer comes from memory. */
export interface UpgradeOffers {
  /** Changes with whatever may change the answers to many devices. */
  readonly revision: number;
  offer(question: OfferQuestion, now: number): Offer;
  /** @param listener  called with a device whose earlier answer no longer counts, although the revision is the same */
  onDeviceChanged(listener: (deviceId: string) => void): void;
}

/** What a device reports about one of its upgrades. */
export interface UpgradeReport extends Omit<UpdateStatus, 'component'> {
  deviceId: string;
  component: UpgradableComponent;
}

/** What became of the upgrades of each device. */
export interface UpgradeHistory {
  /**
   * Records reports of any devices. A report that is known changes nothing.
   * @returns the devices whose status has changed by it
   */
  record(reports: readonly UpgradeReport[]): Promise<readonly string[]>;
}

const NOTHING: Offer = { upgrade: [], revision: 0, until: Number.POSITIVE_INFINITY };

/** For a hub without releases. */
export const NO_UPGRADE_OFFERS: UpgradeOffers = {
  revision: 0,
  offer: () => NOTHING,
  onDeviceChanged() {},
};
