import type { PublicContext } from '../../../platform/context.ts';
import type { Tx } from '../../../platform/db/transaction.ts';
import type { AuditTrail } from '../../../platform/http/audit.ts';
import type { SsoProvider } from '../providers/provider.model.ts';
import type { SsoFailure } from '../sign-in/sso-failure.ts';

/** Records failed sign-ins with a provider in the trail of its owner, whoever it was that tried. */
export async function recordFailure(
  tx: Tx,
  ctx: PublicContext,
  audit: AuditTrail,
  provider: SsoProvider,
  { reason, error }: SsoFailure,
): Promise<void> {
  const owner = await ownerOf(tx, provider);
  if (owner === undefined) return;
  await audit.record(tx, {
    action: 'user.login.failed',
    resourceType: 'sso_provider',
    resourceId: provider.id,
    resourceName: provider.name,
    details: { reason, error, provider: { id: provider.id, name: provider.name } },
    actor: { kind: 'system', ...owner },
    state: ctx,
    result: 'failure',
    errorMessage: reason,
  });
}

async function ownerOf(
  tx: Tx,
  { orgId, partnerId }: SsoProvider,
): Promise<{ orgId: string | null; partnerId: string } | undefined> {
  if (partnerId !== null) return { orgId: null, partnerId };
  const { rows } = await tx.raw<{ rows: { partner_id: string }[] }>(
    'select partner_id from organizations where id = ?',
    [orgId ?? ''],
  );
  return rows[0] && { orgId, partnerId: rows[0].partner_id };
}
