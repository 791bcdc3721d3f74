import { activeProviders, countFailures, type CheckedProvider } from './sso.queries.ts';
import { ConcurrencyLimiter } from '../../platform/concurrency.ts';
import type { Db } from '../../platform/db/pool.ts';
import { type Tx, withSystem } from '../../platform/db/transaction.ts';
import type { AuditTrail } from '../../platform/http/audit.ts';
import type { Logger } from '../../platform/logger.ts';
import type { ProviderFetch } from './provider-call.ts';
import { SsoProvider } from './sso.model.ts';
import { faultOf } from './provider-checks.ts';
import { raiseAlert, resolveAlert } from '../alerts/index.ts';
import { z } from 'zod';
import { clock } from '../../clock.ts';
import { defineJob } from '../../platform/jobs/definition.ts';
import type { Jobs } from '../../platform/jobs/jobs.ts';
import type { Metrics } from '../../platform/metrics.ts';

const CHECK_PROVIDERS = defineJob({
  name: 'sso.check-providers',
  input: z.object({}),
  result: z.object({ checked: z.number(), failing: z.number(), skipped: z.number() }),
  inCluster: 1,
  // Not retried, because the next round comes soon.
  attempts: 1,
});

/** The time limit of a round, so that hanging providers do not delay the next one. */
const ROUND_MS = 600_000;

interface JobParts extends Omit<RoundParts, 'onChecked'> {
  jobs: Jobs;
  metrics: Metrics;
}

/** Checks the active providers every 15 minutes. */
export function checkProvidersRegularly({ jobs, metrics, ...parts }: JobParts): void {
  const checks = metrics.counter(
    'muster_sso_provider_checks_total',
    'Checks of active single sign-on providers, by protocol and outcome.',
    ['type', 'outcome'],
  );
  jobs.handle(CHECK_PROVIDERS, ({ signal }) =>
    checkActiveProviders(
      { ...parts, onChecked: (type, outcome) => checks.inc({ type, outcome }) },
      { now: clock.date(), signal: AbortSignal.any([signal, clock.timeoutSignal(ROUND_MS)]) },
    ),
  );
  jobs.schedule(CHECK_PROVIDERS, { cron: '*/15 * * * *', timeZone: 'UTC' }, {});
}

const AT_ONCE = 8;

/**
 * The limit for one partner and its organizations, so that hanging providers of one partner hardly delay the others.
 */
const AT_ONCE_OF_PARTNER = 2;

/**
 * How many checks run at once for providers that failed the last time: they may hang, and must not take all places of
 * their partner.
 */
const FAILING_AT_ONCE_OF_PARTNER = 1;

export interface RoundParts {
  db: Db;
  ssoFetch: ProviderFetch;
  audit: AuditTrail;
  log: Logger;
  onChecked(type: SsoProvider['type'], outcome: 'ok' | 'failed'): void;
}

/**
 * Checks every active provider once. The third failure in a row is audited, and raises an alert if the provider belongs
 * to an organization. The first success afterwards is audited as well, and resolves the alert. If the check of one
 * provider breaks, the others are checked all the same.
 * @param signal  when it is aborted, no further check begins; the order is random, so the next round checks others
 * first
 */
export async function checkActiveProviders(
  parts: RoundParts,
  { now, signal }: { now: Date; signal?: AbortSignal },
): Promise<{ checked: number; failing: number; skipped: number }> {
  const limiter = new ConcurrencyLimiter();
  const result = { checked: 0, failing: 0, skipped: 0 };
  const checkInTurn = async (provider: CheckedProvider) => {
    if (signal?.aborted === true) {
      result.skipped += 1;
      return;
    }
    const isWell = await checkOne(parts, provider, now);
    result.checked += 1;
    if (!isWell) result.failing += 1;
  };
  const providers = await withSystem(parts.db, 'read the active identity providers', activeProviders);
  await Promise.all(
    providers.map((provider) => {
      const { trailPartnerId, discoveryFailures } = provider;
      const failing = { key: `failing ${trailPartnerId}`, max: FAILING_AT_ONCE_OF_PARTNER };
      const shares = [
        { key: 'all', max: AT_ONCE },
        { key: trailPartnerId, max: AT_ONCE_OF_PARTNER },
        ...(discoveryFailures > 0 ? [failing] : []),
      ];
      return limiter.run(shares, () => checkInTurn(provider), { isPatient: true });
    }),
  );
  return result;
}

async function checkOne(parts: RoundParts, provider: CheckedProvider, now: Date): Promise<boolean> {
  const { db, ssoFetch, audit, log } = parts;
  try {
    const fault = await faultOf(ssoFetch, provider, now);
    parts.onChecked(provider.type, fault === undefined ? 'ok' : 'failed');
    if (fault === undefined && provider.discoveryFailures === 0) return true;
    await withSystem(db, 'record the check of an identity provider', (tx) =>
      fault === undefined ? noteSuccess(tx, parts, provider) : noteFailure(tx, parts, provider, fault),
    );
    audit.committed();
    return fault === undefined;
  } catch (error) {
    log.error({ err: error, providerId: provider.id }, 'sso.provider_check_broken');
    return false;
  }
}

async function noteFailure(
  tx: Tx,
  { audit, log }: RoundParts,
  provider: CheckedProvider,
  fault: string,
): Promise<void> {
  const failures = await countFailures(tx, provider, 'failed');
  // The provider was changed during the check. The next round checks its new settings.
  if (failures === undefined) return;
  log.warn({ providerId: provider.id, failures, fault }, 'sso.provider_failing');
  if (failures < FAILURES_TO_REPORT) return;
  await raiseAlertOf(tx, provider, fault);
  if (failures === FAILURES_TO_REPORT) {
    await audit.record(tx, {
      ...entryOf(provider, log),
      action: 'sso.provider.failing',
      details: { fault, failures },
      result: 'failure',
      errorMessage: fault,
    });
  }
}

async function noteSuccess(tx: Tx, { audit, log }: RoundParts, provider: CheckedProvider): Promise<void> {
  if ((await countFailures(tx, provider, 'ok')) === undefined) return;
  if (provider.discoveryFailures < FAILURES_TO_REPORT) return;
  log.info({ providerId: provider.id }, 'sso.provider_recovered');
  await resolveAlertOf(tx, provider, 'The identity provider works again.');
  await audit.record(tx, { ...entryOf(provider, log), action: 'sso.provider.recovered' });
}

const entryOf = ({ id, name, orgId, trailPartnerId }: CheckedProvider, log: Logger) => ({
  resourceType: 'sso_provider',
  resourceId: id,
  resourceName: name,
  actor: { kind: 'system' as const, orgId, partnerId: trailPartnerId },
  state: { client: { ip: null, userAgent: null }, log },
});

const KIND = 'sso_provider_failing';

/** The number of failed checks in a row after which a provider counts as failing. */
const FAILURES_TO_REPORT = 3;

type Owned = Pick<SsoProvider, 'id' | 'orgId'>;

/** Does nothing for a partner's provider, because alerts belong to organizations. The audit trail has its failures. */
async function raiseAlertOf(
  tx: Tx,
  { id, orgId, name, enforceSso }: Owned & Pick<SsoProvider, 'name' | 'enforceSso'>,
  fault: string,
): Promise<void> {
  if (orgId === null) return;
  await raiseAlert(tx, {
    orgId,
    kind: KIND,
    severity: enforceSso ? 'critical' : 'high',
    title: `Single sign-on with ${name} fails`,
    message: fault,
    details: { providerId: id },
  });
}

/** Resolves the organization's alert, unless another of its providers is failing. */
export async function resolveAlertOf(tx: Tx, { id, orgId }: Owned, why: string): Promise<void> {
  if (orgId === null) return;
  const other = await SsoProvider.query(tx)
    .where({ org_id: orgId, status: 'active' })
    .whereNot('id', id)
    .where('discovery_failures', '>=', FAILURES_TO_REPORT)
    .first();
  if (other === undefined) await resolveAlert(tx, { orgId, kind: KIND, why });
}
