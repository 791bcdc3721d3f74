import type { Tx } from '../../../platform/db/transaction.ts';
import { raiseAlert, resolveAlert } from '../../alerts/index.ts';
import { SsoProvider } from './provider.model.ts';

const KIND = 'sso_provider_failing';

/** The number of failed checks in a row after which a provider counts as failing. */
export const FAILURES_TO_REPORT = 3;

type Owned = Pick<SsoProvider, 'id' | 'orgId'>;

/** Does nothing for a partner's provider, because alerts belong to organizations. The audit trail has its failures. */
export async function raiseAlertOf(
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
