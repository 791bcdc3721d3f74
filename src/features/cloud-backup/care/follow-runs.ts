import { clock } from '../../../clock.ts';
import type { Tx } from '../../../platform/db/transaction.ts';
import { type NewAlert, resolveAlert } from '../../alerts/index.ts';
import { type CloudFacts, missingSince } from './readiness.ts';
import { storeReadiness } from './stored-readiness.ts';

export const RUN_MISSED = 'cloud_backup_missed';
export const MISSED_NO_MORE =
  'Every scheduled cloud backup has ended well again, or none is expected any more.';

/** After a run has ended, or a configuration has changed: what is shown follows at once, and an alert ends at once. */
export async function followRuns(tx: Tx, orgId: string): Promise<void> {
  const now = clock.date();
  const facts = await storeReadiness(tx, { orgId }, now);
  if (facts.some((one) => missingSince(one, now) !== undefined)) return;
  await resolveAlert(tx, { orgId, kind: RUN_MISSED, why: MISSED_NO_MORE });
}

/** One alert for each organization with a configuration of which a scheduled run is missing. */
export function missedAlerts(facts: readonly CloudFacts[], now: Date): NewAlert[] {
  const late = new Map<string, { configId: string; name: string; since: Date }[]>();
  for (const one of facts) {
    const since = missingSince(one, now);
    if (since === undefined) continue;
    const { orgId, configId, name } = one;
    late.set(orgId, [...(late.get(orgId) ?? []), { configId, name, since }]);
  }
  return [...late].map(([orgId, configs]) => ({
    orgId,
    kind: RUN_MISSED,
    severity: 'high',
    title:
      configs.length === 1
        ? `Cloud backup ${configs[0]?.name ?? ''}: a scheduled run is missing`
        : `Scheduled runs of ${configs.length} cloud backups are missing`,
    message: configs
      .map(({ name, since }) => `${name}: a run that ends well is missing since ${since.toISOString()}.`)
      .join('\n'),
    details: { configIds: configs.map(({ configId }) => configId) },
  }));
}
