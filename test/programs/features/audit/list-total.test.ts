import { expect } from 'chai';
import { totalOf } from '../../../../src/features/audit/audit.queries.ts';
import { planScan } from '../../../../src/features/audit/audit-scan.queries.ts';
import type { Context } from '../../../../src/platform/context.ts';
import type { TenantScope } from '../../../../src/platform/db/tenant-scope.ts';
import { withTenant } from '../../../../src/platform/db/transaction.ts';
import { buildPerson, buildTenant } from '../../../support/factories.ts';
import { createTestApp, type TestApp } from '../../../support/test-app.ts';
import { asOwner } from '../../../support/test-postgres.ts';

describe('the total of a list of the audit trail', function () {
  let app: TestApp;
  before(async () => {
    app = await createTestApp();
  });
  after(async () => app.close());

  it('is a lower bound if more entries match than are counted', async () => {
    const { orgId, partnerId } = await buildTenant(app);
    const { token } = await buildPerson(app, { scope: 'organization', orgId });
    // Past the sealer, which would take a minute.
    await asOwner(
      app.database.ownerUrl,
      `insert into audit_logs (id, org_id, partner_id, "timestamp", actor_type, actor_id, action, resource_type, details,
        result, seq, checksum, prev_checksum)
      select gen_random_uuid(), $1, $2, now(), 'user', $1, case when n > 100000 then 'late' else 'deed' end, 'thing', '{}',
        'success', n + 1000, lpad(to_hex(n), 64, '0'), lpad(to_hex(n - 1), 64, '0')
      from generate_series(1, 100001) n`,
      [orgId, partnerId],
    );
    const pagination = async (path: string) =>
      (await app.call('GET', `/audit-logs${path}`, { token })).body.pagination;
    expect(await pagination('/logs?limit=1&action=deed')).to.deep.equal({
      page: 1,
      limit: 1,
      total: 100_000,
      totalPages: 100_000,
    });
    const caller: TenantScope = {
      scope: 'organization',
      userId: null,
      partnerId: null,
      orgAccess: 'listed',
      orgIds: [orgId],
    };
    const counted = await withTenant(app.server.database.pool, caller, async (tx) => {
      const ctx = { tx, caller: { ...caller, orgId } } as unknown as Context;
      const filter = { action: 'deed' };
      const places = await planScan(ctx, filter);
      const totals = [];
      for (const most of [100_000, 99_999, 5]) {
        totals.push(await totalOf(ctx, filter, places, 7, { counted: most, read: 0 }));
      }
      return totals;
    });
    expect(counted).to.deep.equal([
      { total: 100_000 },
      { total: 99_999, totalIsMinimum: true },
      { total: 7, totalIsMinimum: true },
    ]);
    // Of a text, what is found among those that are looked at; and all that are shown.
    const { total, totalIsMinimum } = await pagination('/search?q=late');
    expect(totalIsMinimum).to.equal(true);
    expect(total).to.equal(1);
  });
});
