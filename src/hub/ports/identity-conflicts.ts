import type { MachineIdentity } from '../../protocol/index.ts';

/** A program that uses the token of a device, as it described itself when it connected. */
export interface Claimant extends MachineIdentity {
  bootId: string;
  ip: string;
}

/** Two programs that use one device at the same time. */
export interface IdentityConflict {
  deviceId: string;
  orgId: string;
  /** The one that keeps the connection. */
  holder: Claimant;
  other: Claimant;
}
