import type { HubReconnect } from '../../protocol/index.ts';

/** A connection that a newer one of the same device has replaced has no reason to hurry back. */
export const SUPERSEDED: HubReconnect = { afterMs: 60_000, reason: 'superseded' };

export const DECOMMISSIONED: HubReconnect = { afterMs: 3_600_000, reason: 'decommissioned' };
