import { z } from 'zod';
import { findGuest, withMonitor } from './guest-process.ts';
import type { GuestDefinition } from './guest-definition.ts';
import type { QmpClient } from './qmp-client.ts';

/** What a machine is doing. */

/** `stopped`: it has no process. `faulty`: its disk fails or is full, and it waits. `unknown`: its monitor is silent. */
export type GuestState = 'running' | 'paused' | 'faulty' | 'stopped' | 'unknown';

const Status = z.object({ status: z.string(), running: z.boolean() });

export async function guestState(guest: GuestDefinition): Promise<GuestState> {
  if ((await findGuest(guest)) === undefined) return 'stopped';
  try {
    return await withMonitor(guest, stateOf, { connectMs: 5000, commandMs: 5000 });
  } catch {
    return (await findGuest(guest)) === undefined ? 'stopped' : 'unknown';
  }
}

export async function stateOf(monitor: QmpClient): Promise<Exclude<GuestState, 'stopped' | 'unknown'>> {
  const { status, running } = await monitor.ask('query-status', Status);
  if (running) return 'running';
  return status === 'io-error' || status === 'internal-error' || status === 'guest-panicked'
    ? 'faulty'
    : 'paused';
}
