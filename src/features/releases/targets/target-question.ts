import type { Device } from '../../devices/index.ts';
import type { Wave } from '../rollouts/wave.ts';
import type { EffectiveSettings, Level, PinnedComponent, Reason, TargetState } from './target.schema.ts';

/** What the resolver is asked, and what it answers. */

export interface Platform {
  osType: Device['osType'];
  architecture: Device['architecture'];
}

export interface UpgradableDevice extends Platform {
  autoUpdate: boolean;
  capabilities: readonly string[];
  connected: boolean;
}

/** The releases that the server knows. */
export interface KnownReleases {
  /** The version that is promoted. */
  promoted(component: PinnedComponent, platform: Platform): string | undefined;
  /** What there is of a version; `untrusted` where its signature does not hold. */
  build(component: PinnedComponent, version: string, platform: Platform): 'trusted' | 'untrusted' | undefined;
}

export interface Question {
  component: PinnedComponent;
  /** The version that the device reports. */
  current: string;
  device: UpgradableDevice;
  settings: EffectiveSettings;
  releases: KnownReleases;
  /** The rollout of the component, and what it says about this device. It counts under the policy `staged`. */
  rollout: { version: string; wave: Wave } | undefined;
  /** A person has asked for the upgrade of this device. */
  byHand: boolean;
  now: Date;
}

export interface Resolution {
  target: string | null;
  state: TargetState;
  reason: Reason | null;
  /** A sentence for people. */
  message: string;
  /** When the window opens next; of `outside_window` only. */
  nextAt?: Date;
  levels: { pin: Level; policy: Level; window: Level };
}

export type Outcome = Pick<Resolution, 'state' | 'reason' | 'nextAt'>;
