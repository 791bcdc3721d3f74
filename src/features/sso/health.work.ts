import { ConcurrencyLimiter } from '../../../platform/concurrency-limiter.ts';
import type { Db } from '../../../platform/db/pool.ts';
import { type Tx, withSystem } from '../../../platform/db/transaction.ts';
import type { AuditTrail } from '../../../platform/http/audit.ts';
import type { Logger } from '../../../platform/logger.ts';
import type { ProviderFetch } from '../oidc/provider-call.ts';
import { FAILURES_TO_REPORT, raiseAlertOf, resolveAlertOf } from '../providers/provider-alert.ts';
import { SsoProvider } from '../providers/provider.model.ts';
import { faultOf } from './checks.ts';

const AT_ONCE = 8;
/**
 * The limit for one partner and its organizations, so that hanging providers of one partner hardly delay the others.
 */
const AT_ONCE_OF_PARTNER = 2;
/** Of those that failed the last time and may hang again, so that they never take all places of their partner. */
const FAILING_AT_ONCE_OF_PARTNER = 1;

export interface RoundParts {
  db: Db;
  ssoFetch: ProviderFetch;
  audit: AuditTrail;
  log: Logger;
  onChecked(type: SsoProvider['type'], outcome: 'ok' | 'failed'): void;
}

/** A provider, with the partner in whose audit trail its failures are recorded. */
type Watched = SsoProvider & { trailPartnerId: string };

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
  const checkInTurn = async (provider: Watched) => {
    if (signal?.aborted === true) {
      result.skipped += 1;
      return;
    }
    const isWell = await checkOne(parts, provider, now);
    result.checked += 1;
    if (!isWell) result.failing += 1;
  };
  const providers = await activeProviders(parts.db);
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

const activeProviders = (db: Db): Promise<Watched[]> =>
  withSystem(db, 'read the active identity providers', (tx) =>
    SsoProvider.query(tx)
      .select('sso_providers.*', 'p.id as trail_partner_id')
      .joinRaw(`left join organizations o on o.id = sso_providers.org_id
        join partners p on p.id = coalesce(sso_providers.partner_id, o.partner_id)`)
      .where({ 'sso_providers.status': 'active', 'p.status': 'active' })
      .whereNull('o.deleted_at')
      .orderByRaw('random()')
      .castTo<Watched[]>(),
  );

async function checkOne(parts: RoundParts, provider: Watched, now: Date): Promise<boolean> {
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
  provider: Watched,
  fault: string,
): Promise<void> {
  const failures = await count(tx, provider, tx.raw('discovery_failures + 1'));
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

async function noteSuccess(tx: Tx, { audit, log }: RoundParts, provider: Watched): Promise<void> {
  if ((await count(tx, provider, tx.raw('0'))) === undefined) return;
  if (provider.discoveryFailures < FAILURES_TO_REPORT) return;
  log.info({ providerId: provider.id }, 'sso.provider_recovered');
  await resolveAlertOf(tx, provider, 'The identity provider works again.');
  await audit.record(tx, { ...entryOf(provider, log), action: 'sso.provider.recovered' });
}

/**
 * Stores the count of failures. Returns undefined if the provider was changed meanwhile. Does not use the model, which
 * would set `updatedAt`.
 */
async function count(
  tx: Tx,
  { id, configVersion }: Watched,
  value: ReturnType<Tx['raw']>,
): Promise<number | undefined> {
  const rows = await tx('sso_providers')
    .where({ id, status: 'active', config_version: configVersion })
    .update({ discovery_failures: value })
    .returning<{ discovery_failures: number }[]>('discovery_failures');
  return rows[0]?.discovery_failures;
}

const entryOf = ({ id, name, orgId, trailPartnerId }: Watched, log: Logger) => ({
  resourceType: 'sso_provider',
  resourceId: id,
  resourceName: name,
  actor: { kind: 'system' as const, orgId, partnerId: trailPartnerId },
  state: { client: { ip: null, userAgent: null }, log },
});
