import type { Tx } from '../../src/platform/db/transaction.ts';
import { newId } from '../../src/platform/ids.ts';
import { SYSTEM_ROLES } from '../../src/features/users/index.ts';
import type { SeededTenants } from './tenants.ts';
import type { DemoTime } from './time.ts';

/** People who can sign in to the demo. */
export const DEMO_PEOPLE = [
  { email: 'system@demo.example', name: 'Sam System', is: 'system administrator' },
  { email: 'admin@demo.example', name: 'Alex Admin', is: 'administrator of the provider' },
  { email: 'dental@demo.example', name: 'Dana Dental', is: 'administrator of Bright Smile Dental' },
] as const;
export type DemoEmail = (typeof DEMO_PEOPLE)[number]['email'];

/** Technicians of the provider who have worked in the past. They have no password, so nobody can sign in as one. */
const TECHNICIANS = [
  { email: 'tess@demo.example', name: 'Tess Technician' },
  { email: 'omar@demo.example', name: 'Omar Onsite' },
] as const;

export interface SeededPerson {
  id: string;
  email: string;
  name: string;
  /** The organization of a customer's person. */
  orgId?: string;
}

export interface SeededPeople {
  admin: SeededPerson;
  /** Of the customer. */
  dental: SeededPerson;
  technicians: SeededPerson[];
}

/** The caller supplies the password hashes, so the source contains no password. */
export async function seedPeople(
  tx: Tx,
  { partnerId, customers }: SeededTenants,
  { passwordHashes, time }: { passwordHashes: Record<DemoEmail, string>; time: DemoTime },
): Promise<SeededPeople> {
  const orgId = customers[0]?.id ?? '';
  const add = async ({ email, name }: { email: string; name: string }, password_hash: string | null) => {
    const id = newId();
    await tx('users').insert({
      id,
      email,
      name,
      password_hash,
      email_verified_at: time.daysAgo(400),
      created_at: time.daysAgo(400),
    });
    return { id, email, name };
  };
  const join = (user_id: string, role_id: string) =>
    tx('partner_users').insert({ partner_id: partnerId, user_id, role_id, org_access: 'all' });

  const [systemSeed, adminSeed, dentalSeed] = DEMO_PEOPLE;
  const system = await add(systemSeed, passwordHashes[systemSeed.email]);
  await tx('system_users').insert({ user_id: system.id, role_id: SYSTEM_ROLES.systemAdmin });
  const admin = await add(adminSeed, passwordHashes[adminSeed.email]);
  await join(admin.id, SYSTEM_ROLES.partnerAdmin);
  const dental = await add(dentalSeed, passwordHashes[dentalSeed.email]);
  await tx('organization_users').insert({
    org_id: orgId,
    user_id: dental.id,
    role_id: SYSTEM_ROLES.organizationAdmin,
  });
  const technicians: SeededPerson[] = [];
  for (const technician of TECHNICIANS) {
    const person = await add(technician, null);
    await join(person.id, SYSTEM_ROLES.partnerTechnician);
    technicians.push(person);
  }
  return { admin, dental: { ...dental, orgId }, technicians };
}
