import type { PublicContext } from '../../../platform/context.ts';
import type { Tx } from '../../../platform/db/transaction.ts';
import type { AuditTrail } from '../../../platform/http/audit.ts';
import { ownerOf } from '../providers/owner.ts';
import type { SsoProvider } from '../providers/provider.model.ts';
import type { SsoFailure } from '../flow/sso-failure.ts';

/**
 * Records a failed sign-in in the audit trail of the provider's owner, also if the person is unknown. It never throws,
 * so that the person learns why the sign-in failed even if the entry cannot be written.
 */
export async function noteFailure(
  ctx: PublicContext,
  audit: AuditTrail,
  provider: SsoProvider,
  failure: SsoFailure,
): Promise<void> {
  try {
    await ctx.withSystem('audit a refused sign-in', (tx) => recordFailure(tx, ctx, audit, provider, failure));
    audit.committed();
  } catch (error) {
    ctx.log.error({ err: error, requestId: ctx.requestId }, 'audit.refused_sign_in_not_written');
  }
}

async function recordFailure(
  tx: Tx,
  ctx: PublicContext,
  audit: AuditTrail,
  provider: SsoProvider,
  { reason, error }: SsoFailure,
): Promise<void> {
  const { orgId, partnerId } = await ownerOf(tx, provider);
  await audit.record(tx, {
    action: 'user.login.failed',
    resourceType: 'sso_provider',
    resourceId: provider.id,
    resourceName: provider.name,
    details: { reason, error, provider: { id: provider.id, name: provider.name } },
    actor: { kind: 'system', orgId, partnerId },
    state: ctx,
    result: 'failure',
    errorMessage: reason,
  });
}
