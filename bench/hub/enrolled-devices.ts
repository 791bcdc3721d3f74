import { newToken, tokenHash } from '../../src/platform/secrets/tokens.ts';
import { newId } from '../../src/platform/ids.ts';
import { buildPerson, buildTenant, type Person } from '../../test/support/factories.ts';
import { createTestApp } from '../../test/support/test-app.ts';
import { asOwner, createTestDatabase, type TestDatabase } from '../../test/support/test-postgres.ts';

const PEOPLE = 10;

export interface EnrolledDevices {
  database: TestDatabase;
  tokens: string[];
  deviceIds: string[];
  /** The access token of a person who can see and query all devices. */
  admin: Person;
  /** E-mail addresses of people who can sign in with `PASSWORD`. */
  people: string[];
}

/**
 * Creates a database with enrolled devices of one organization, as rows, because enrolling each one would take
 * minutes.
 */
export async function enrolledDevices(count: number, given?: TestDatabase): Promise<EnrolledDevices> {
  const database = given ?? (await createTestDatabase());
  const app = await createTestApp({ database });
  const { orgId, siteId, admin } = await buildTenant(app);
  const people = [];
  for (let count = 0; count < PEOPLE; count++) {
    people.push((await buildPerson(app, { scope: 'organization', orgId })).email);
  }
  await app.close();
  const tokens = Array.from({ length: count }, () => newToken('agent'));
  const deviceIds = tokens.map(() => newId());
  await asOwner(
    database.ownerUrl,
    `insert into devices (id, org_id, site_id, hostname, os_type, os_version, architecture, agent_version, enrolled_at)
    select u.id, $2, $3, 'DESK-' || u.n, 'windows', 'Windows 11', 'x64', '1.4.2', now()
    from unnest($1::uuid[]) with ordinality as u (id, n)`,
    [deviceIds, orgId, siteId],
  );
  await asOwner(
    database.ownerUrl,
    `insert into agent_credentials (token_hash, device_id, org_id)
    select u.hash, u.id, $3 from unnest($1::text[], $2::uuid[]) as u (hash, id)`,
    [tokens.map(tokenHash), deviceIds, orgId],
  );
  await asOwner(database.ownerUrl, 'vacuum analyze');
  return { database, tokens, deviceIds, admin, people };
}
