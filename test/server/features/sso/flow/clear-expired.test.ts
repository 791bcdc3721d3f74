import { expect } from 'chai';
import { ssoRetention } from '../../../../../src/features/sso/sso.model.ts';
import { RowPruner } from '../../../../../src/platform/jobs/row-pruner.ts';
import { newId } from '../../../../../src/platform/ids.ts';
import { buildTenant } from '../../../../support/factories.ts';
import { quietLog } from '../../../../support/quiet-log.ts';
import type { TestApp } from '../../../../support/test-app.ts';
import { createSsoApp, insertProvider, query } from '../../../../support/sso/sso-support.ts';

describe('sign-ins that are not finished', () => {
  let app: TestApp;
  let providerId: string;
  before(async () => {
    app = await createSsoApp();
    const { orgId } = await buildTenant(app);
    providerId = await insertProvider(app, { org_id: orgId });
  });
  after(() => app.close());

  it('are removed with the answers that they keep, and those under way are not', async () => {
    for (const [state, ends] of [
      ['over', '-1 minute'],
      ['under-way', '1 minute'],
    ] as const) {
      await query(
        app,
        `insert into sso_sessions (id, provider_id, state, nonce, saml_response, expires_at)
        values (?, ?, ?, 'nonce', 'answer', now() + ?::interval)`,
        [newId(), providerId, state, ends],
      );
      await query(
        app,
        `insert into saml_used_assertions (provider_id, assertion_hash, expires_at) values (?, ?, now() + ?::interval)`,
        [providerId, state.padEnd(64, '0'), ends],
      );
    }
    const pruner = new RowPruner({ db: app.server.database.jobPool, rules: ssoRetention, log: quietLog });
    expect((await pruner.prune()).removed).to.deep.include({ sso_sessions: 1, saml_used_assertions: 1 });
    expect(await query(app, 'select state from sso_sessions')).to.deep.equal([{ state: 'under-way' }]);
  });

  it('do not wait for the daily removal of old rows', async () => {
    // The first round of background jobs stores the schedules.
    await app.settle();
    expect(await query(app, `select cron from job_schedules where name = 'sso.clear-expired'`)).to.deep.equal(
      [{ cron: '*/10 * * * *' }],
    );
  });
});
