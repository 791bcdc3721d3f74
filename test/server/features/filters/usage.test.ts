import { expect } from 'chai';
import {
  assertUnused,
  filterUsage,
  type FilterReferrer,
} from '../../../../src/features/filters/filter.queries.ts';
import type { Context } from '../../../../src/platform/context.ts';
import { withTenant } from '../../../../src/platform/db/transaction.ts';
import { newId } from '../../../../src/platform/ids.ts';
import { buildOrganization, buildTenant } from '../../../support/factories.ts';
import { sharedTestApp, type TestApp } from '../../../support/test-app.ts';
import { asOwner } from '../../../support/test-postgres.ts';

/** Stand-ins for records that refer to a filter: groups by their description and sites by their name. */
const REFERRERS: FilterReferrer[] = [
  { kind: 'group', sql: 'select id, name, org_id from device_groups where description = ?::text' },
  { kind: 'site', sql: 'select id, name, org_id from sites where name = ?::text' },
];

describe('what uses a filter', () => {
  let app: TestApp;
  before(async () => {
    app = await sharedTestApp();
  });
  after(async () => app.close());

  it('is listed within the scope of the caller, keeps the filter from being deleted, and is named', async () => {
    const { partnerId, orgId } = await buildTenant(app);
    const other = await buildOrganization(app, partnerId);
    const filterId = newId();
    const owner = (sql: string, values: unknown[]) => asOwner(app.database.ownerUrl, sql, values);
    for (const [index, org] of [orgId, other, orgId, orgId, orgId].entries()) {
      await owner('insert into device_groups (id, org_id, name, description) values ($1, $2, $3, $4)', [
        newId(),
        org,
        `Tills ${index}`,
        index === 4 ? newId() : filterId,
      ]);
    }
    await owner('insert into sites (id, org_id, name) values ($1, $2, $3)', [newId(), orgId, filterId]);
    const within = <T>(orgIds: string[], work: (ctx: Context) => Promise<T>) => {
      const caller = {
        scope: 'partner' as const,
        userId: null,
        partnerId,
        orgAccess: 'listed' as const,
        orgIds,
      };
      return withTenant(app.server.database.pool, caller, (tx) => work({ tx, caller } as unknown as Context));
    };
    const uses = (orgIds: string[]) =>
      within(orgIds, async (ctx) =>
        (await filterUsage(ctx, filterId, REFERRERS)).map(({ kind, name }) => `${kind} ${name}`),
      );
    const own = ['group Tills 0', 'group Tills 2', 'group Tills 3', `site ${filterId}`];
    expect(await uses([orgId])).to.deep.equal(own);
    expect(await uses([orgId, other])).to.have.length(5);
    expect(await uses([])).to.deep.equal([]);

    const refused = await within([orgId], (ctx) => assertUnused(ctx, filterId, REFERRERS)).then(
      () => undefined,
      (error: unknown) => error,
    );
    expect(refused).to.deep.include({
      code: 'conflict',
      message: 'This filter is used by group Tills 0, group Tills 2, group Tills 3 and 1 more.',
    });
    expect((refused as { details: object[] }).details).to.have.length(4);
    await within([orgId], (ctx) => assertUnused(ctx, newId(), REFERRERS));
  });
});
