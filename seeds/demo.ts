import type { Tx } from '../src/platform/db/transaction.ts';
import { newId } from '../src/platform/ids.ts';
import { SYSTEM_ROLES } from '../src/features/users/index.ts';

/** The data of the demo: one provider, three customers, seven sites in four time zones, and people who can sign in. */

export const DEMO_PARTNER_SLUG = 'muster-demo';

const ORGANIZATIONS = [
  {
    name: 'Bright Smile Dental',
    slug: 'bright-smile-dental',
    sites: [
      { name: 'Lisbon practice', timezone: 'Europe/Lisbon' },
      { name: 'Porto practice', timezone: 'Europe/Lisbon' },
    ],
  },
  {
    name: 'Northway Logistics',
    slug: 'northway-logistics',
    sites: [
      { name: 'Chicago depot', timezone: 'America/Chicago' },
      { name: 'Dallas depot', timezone: 'America/Chicago' },
      { name: 'Rotterdam office', timezone: 'Europe/Amsterdam' },
    ],
  },
  {
    name: 'Harbour Street School',
    slug: 'harbour-street-school',
    sites: [
      { name: 'Main building', timezone: 'Australia/Sydney' },
      { name: 'Science block', timezone: 'Australia/Sydney' },
    ],
  },
] as const;

export const DEMO_PEOPLE = [
  { email: 'system@demo.example', name: 'Sam System', is: 'system administrator' },
  { email: 'admin@demo.example', name: 'Alex Admin', is: 'administrator of the provider' },
  { email: 'dental@demo.example', name: 'Dana Dental', is: `administrator of ${ORGANIZATIONS[0].name}` },
] as const;
export type DemoEmail = (typeof DEMO_PEOPLE)[number]['email'];

/** Whether the database contains the demo, is empty, or contains other data that the demo must not touch. */
export async function demoState(tx: Tx): Promise<'demo' | 'empty' | 'other'> {
  const slugs: string[] = await tx('partners').pluck('slug');
  if (slugs.includes(DEMO_PARTNER_SLUG)) return 'demo';
  return slugs.length === 0 ? 'empty' : 'other';
}

/** Fills an empty database. The caller supplies the password hashes, so the source contains no password. */
export async function seedDemo(tx: Tx, passwordHashes: Record<DemoEmail, string>): Promise<void> {
  const partnerId = newId();
  await tx('partners').insert({
    id: partnerId,
    name: 'Muster Demo Services',
    slug: DEMO_PARTNER_SLUG,
    status: 'active',
    plan: 'pro',
  });
  const orgIds: string[] = [];
  for (const { sites, ...organization } of ORGANIZATIONS) {
    const orgId = newId();
    orgIds.push(orgId);
    await tx('organizations').insert({ id: orgId, partner_id: partnerId, ...organization });
    for (const site of sites) await tx('sites').insert({ id: newId(), org_id: orgId, ...site });
  }
  for (const person of DEMO_PEOPLE) {
    const userId = newId();
    const { email, name } = person;
    await tx('users').insert({
      id: userId,
      email,
      name,
      password_hash: passwordHashes[email],
      email_verified_at: new Date(),
    });
    if (email === 'system@demo.example') {
      await tx('system_users').insert({ user_id: userId, role_id: SYSTEM_ROLES.systemAdmin });
    } else if (email === 'admin@demo.example') {
      await tx('partner_users').insert({
        partner_id: partnerId,
        user_id: userId,
        role_id: SYSTEM_ROLES.partnerAdmin,
        org_access: 'all',
      });
    } else {
      await tx('organization_users').insert({
        org_id: orgIds[0],
        user_id: userId,
        role_id: SYSTEM_ROLES.organizationAdmin,
      });
    }
  }
}
