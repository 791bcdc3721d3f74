import { clock } from '../src/clock.ts';
import type { Tx } from '../src/platform/db/transaction.ts';
import { seedAlertHistory } from './demo/alert-history.ts';
import { seedAuditHistory } from './demo/audit-history.ts';
import { seedAwayDevices } from './demo/away-devices.ts';
import { seedFleetHistory } from './demo/fleet-history.ts';
import { type DemoEmail, seedPeople } from './demo/people.ts';
import { seedHaltedRollout, startDemoRollout } from './demo/rollouts.ts';
import { seedIdentityProvider } from './demo/single-sign-on.ts';
import { DEMO_PARTNER_SLUG, seedTenants } from './demo/tenants.ts';
import { demoTime } from './demo/time.ts';

/**
 * The data of the demo: what it needs of the past, which nobody can make through the API. Everything that can be made
 * through the API is made there (`src/cli/demo/`).
 */

export { DEMO_PEOPLE, type DemoEmail } from './demo/people.ts';
export { DEMO_RELEASES } from './demo/rollouts.ts';
export { seedMetricHistory } from './demo/metric-history.ts';
export { CUSTOMERS } from './demo/tenants.ts';

/** Whether the database contains the demo, is empty, or contains other data that the demo must not touch. */
export async function demoState(tx: Tx): Promise<'demo' | 'empty' | 'other'> {
  const slugs: string[] = await tx('partners').pluck('slug');
  if (slugs.includes(DEMO_PARTNER_SLUG)) return 'demo';
  return slugs.length === 0 ? 'empty' : 'other';
}

/** Fills an empty database. The caller supplies the password hashes, so the source contains no password. */
export async function seedDemo(tx: Tx, passwordHashes: Record<DemoEmail, string>): Promise<void> {
  const time = demoTime(clock.date());
  const tenants = await seedTenants(tx, time);
  const people = await seedPeople(tx, tenants, { passwordHashes, time });
  const devices = await seedAwayDevices(tx, tenants, time);
  await seedAlertHistory(tx, { devices, people, time });
  await seedHaltedRollout(tx, { tenants, devices, time });
  await seedIdentityProvider(tx, tenants);
  await seedAuditHistory(tx, { tenants, people, devices, time });
}

/** What goes on from now on by itself. The agents are connected, and the releases are published. */
export async function setInMotion(tx: Tx): Promise<void> {
  await seedFleetHistory(tx);
  await startDemoRollout(tx);
}
