import { createAuditTrail } from '../../../../../src/features/audit/index.ts';
import type { RoundParts } from '../../../../../src/features/sso/health.work.ts';
import type { Logger } from '../../../../../src/platform/logger.ts';
import { GuardedFetch } from '../../../../../src/platform/outbound/guarded-fetch.ts';
import { TEST_AUTHORITY } from '../../../../support/https-server.ts';
import type { TestApp } from '../../../../support/test-app.ts';
import { query } from '../../../../support/sso/sso-support.ts';

/** The network of tests, which gives up after so long. */
export const fetchFor = (log: Logger, totalMs: number) =>
  new GuardedFetch({
    addresses: { allowedInternal: ['127.0.0.0/8'] },
    log,
    testing: { ca: TEST_AUTHORITY },
    limits: { headersMs: totalMs / 2, totalMs },
  });

/** What a round works with, such as a network that soon gives up. Outcomes are added to the list. */
export const partsOf = (app: TestApp, log: Logger, outcomes: string[]): RoundParts => ({
  db: app.server.database.pool,
  ssoFetch: fetchFor(log, 10_000),
  audit: createAuditTrail(app.server.chainWriter),
  log,
  onChecked: (type, outcome) => void outcomes.push(`${type} ${outcome}`),
});

export const alertsOf = (app: TestApp, orgId: string) =>
  query(
    app,
    "select kind, severity, status, message, details from alerts where org_id = ? and kind = 'sso_provider_failing'",
    [orgId],
  );

export async function trailOf(app: TestApp, providerId: string): Promise<string[]> {
  await app.server.chainWriter.flush();
  const entries = await query<{ action: string; result: string }>(
    app,
    "select action, result from audit_logs where resource_id = ? and action like 'sso.provider.%' order by id",
    [providerId],
  );
  return entries.map(({ action, result }) => `${action} ${result}`);
}
